package mirror

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// maxEntry is the maximum size of an entry in bytes. The broker sends no longer line.
const maxEntry = 1 << 20

// Gap is the event of an entry for history that the broker removed before it was mirrored.
const Gap = "MirrorGap"

// A place is the origin of an entry in the log, as the entry states it.
type place struct {
	Partition int
	LSN       uint64
	Time      time.Time
	Event     string
	To        uint64 // of a gap: LSN at which the log continues
}

// placeOf reads an entry. An entry that is incomplete or was not written, such as zeros, is an
// error.
func placeOf(entry []byte) (p place, err error) {
	if len(entry) == 0 || entry[0] != '{' || !json.Valid(entry) {
		return p, errors.New("not a JSON object")
	}
	return placeIn(entry)
}

// placeIn reads an entry that is a JSON object.
func placeIn(entry []byte) (p place, err error) {
	partition := false
	gjson.ParseBytes(entry).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "Partition":
			p.Partition, err = strconv.Atoi(value.Raw)
			partition = true
		case "LSN":
			p.LSN, err = strconv.ParseUint(value.Raw, 10, 64)
		case "Time":
			p.Time, err = time.Parse(time.RFC3339, value.Str)
		case "Event":
			p.Event = value.Str
		case "To":
			p.To, err = strconv.ParseUint(value.Raw, 10, 64)
		}
		return err == nil
	})
	if err == nil && (!partition || p.Event == "") {
		err = errors.New("not an event of a partition")
	}
	return p, err
}

// files returns the files of a log in order.
func files(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && n > 0 && len(e.Name()) == 20 && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// repair cuts off an incomplete entry at the end of the last file, which remains if the mirror is
// killed. Otherwise the library would refuse to open the log, or read zeros as entries. Damage
// elsewhere is refused when it is read.
func repair(dir string, partition int) (cut int64, err error) {
	names, err := files(dir)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	last := filepath.Join(dir, names[len(names)-1])
	data, err := os.ReadFile(last)
	if err != nil {
		return 0, err
	}
	good, newest := 0, uint64(0)
	for rest := data; len(rest) > 0; rest = data[good:] {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			break
		}
		p, err := placeOf(rest[n : n+int(size)])
		if err != nil || p.Partition != partition || p.LSN < newest {
			break
		}
		good, newest = good+n+int(size), p.LSN
	}
	if good == len(data) {
		return 0, nil
	}
	if hasEntry(data[good:], partition) { // an incomplete entry has no complete entries after it
		return 0, fmt.Errorf("%s is damaged at byte %d, with entries after it: keep it for evidence, and mirror into another directory", last, good)
	}
	f, err := os.OpenFile(last, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	err = f.Truncate(int64(good))
	return int64(len(data) - good), errors.Join(err, f.Sync(), f.Close())
}

// hasEntry reports whether data contains an entry after its first byte, where none begins.
func hasEntry(data []byte, partition int) bool {
	head := fmt.Appendf(nil, `{"Partition":%d,"LSN":`, partition)
	for at := 1; at < len(data); at++ {
		next := bytes.Index(data[at:], head)
		if next < 0 {
			return false
		}
		at += next
		for back := 1; back <= binary.MaxVarintLen32 && back <= at; back++ {
			size, n := binary.Uvarint(data[at-back : at])
			if n == back && size <= maxEntry && uint64(len(data)-at) >= size {
				if _, err := placeOf(data[at : at+int(size)]); err == nil {
					return true
				}
			}
		}
	}
	return false
}
