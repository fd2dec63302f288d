package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

var le = binary.LittleEndian

// TestOldVersions: the golden bytes of every event, those of old versions too, are the same to both
// readers, in a directory of format 1 and in one of this build's.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"format 1": true, "this format": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := logdir.Open(t, dir, log.Options{Partitions: 1})
			d.Lead(0)
			d.Close()
			remove(t, filepath.Join(dir, "clean"))
			if old {
				makeOld(t, dir)
			}
			goldens := goldens(t)
			for _, record := range goldens {
				appendFrame(t, segments(t, dir)[0], record, blobs(record))
			}
			if lines := agree(t, dir); len(lines) != len(goldens) {
				t.Errorf("%d lines", len(lines))
			}
		})
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// makeOld gives a directory the namespace.json of format 1.
func makeOld(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "namespace.json")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var is struct{ Namespace, Created string }
	if err := json.Unmarshal(content, &is); err != nil {
		t.Fatal(err)
	}
	sum := event.Sum([]byte("1 " + is.Namespace + " 1 " + is.Created))
	old := fmt.Sprintf(`{"format":1,"namespace":"%s","partitions":1,"created":"%s","sum":"%08x"}`+"\n", is.Namespace, is.Created, sum)
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goldens are the records of log/event/testdata.
func goldens(t *testing.T) (records [][]byte) {
	t.Helper()
	for _, pattern := range []string{"*.hex", "v*/*.hex"} {
		files, err := filepath.Glob(filepath.Join("../../log/event/testdata", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal("no golden bytes", err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "Restored.hex") {
				continue // stands in a base, in no log
			}
			dump, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var record []byte
			for line := range strings.Lines(string(dump)) {
				digits, _, _ := strings.Cut(line[8:], "|")
				p, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
				if err != nil {
					t.Fatal(file, err)
				}
				record = append(record, p...)
			}
			records = append(records, record)
		}
	}
	return records
}

// blobs are the bodies of a golden record, which were "blob" and a number. Property changes of the
// same lengths, which make sense where there must be such, take their places, and their checksums
// those in the record.
func blobs(record []byte) (bodies []byte) {
	found := map[int]string{}
	for n := range 1000 {
		name := fmt.Sprint("blob ", n)
		if at := bytes.Index(record, le.AppendUint32(nil, event.Sum([]byte(name)))); at >= 0 {
			found[at] = "\x01\x01" + string(rune(len(name)-5)) + strings.Repeat("x", len(name)-5) + "\x00\x00"
		}
	}
	places := make([]int, 0, len(found))
	for at := range found {
		places = append(places, at)
	}
	slices.Sort(places)
	for _, at := range places {
		le.PutUint32(record[at:], event.Sum([]byte(found[at])))
		bodies = append(bodies, found[at]...)
	}
	return bodies
}

// appendFrame appends a frame of one record to a segment file, byte for byte as the page says.
func appendFrame(t *testing.T, file string, record, bodies []byte) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var last []byte // the header of the frame before
	for at := 0; at < len(content); at += 8 + int(le.Uint32(content[at+16:])) {
		last = content[at+8:]
	}
	length := (88 + len(bodies) + len(record) + 7) &^ 7
	prefix := binary.AppendUvarint(nil, uint64(length+8-len(binary.AppendUvarint(nil, uint64(length)))))
	frame := append(append(prefix, make([]byte, 8-len(prefix))...), last[:88]...)
	h := frame[8:]
	h[5] = 1 // Events
	for at, n := range map[int]int{8: length, 12: len(bodies), 16: len(record), 20: 1} {
		le.PutUint32(h[at:], uint32(n))
	}
	le.PutUint64(h[40:], le.Uint64(last[40:])+8+uint64(le.Uint32(last[8:])))
	at, _ := binary.Uvarint(record)
	le.PutUint64(h[48:], at)
	copy(h[64:], last[84:88])
	le.PutUint32(h[72:], event.Sum(bodies))
	le.PutUint32(h[76:], event.Sum(record))
	le.PutUint32(h[84:], event.Sum(h[:84]))
	frame = append(append(frame, bodies...), record...)
	frame = append(frame, make([]byte, 8+length-len(frame))...)
	if err := os.WriteFile(file, append(content, frame...), 0o600); err != nil {
		t.Fatal(err)
	}
}
