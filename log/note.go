package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A note is one of the small files of log-format.md 4:
//
//	magic 4 · format version 2 · partition 2 · namespace tag 4 · length of the file 4 · fields · checksum 4
const (
	noteHead   = 16
	noteMax    = 16 << 20 // longest that is read
	chapterRow = 32
	cleanRow   = 24
	tempSuffix = ".tmp"

	noPartition = PartitionID(65535)
)

// errDamaged is wrapped by errors about notes and checkpoints that are not what was written.
var errDamaged = errors.New("damaged")

func sealNote(magic string, part PartitionID, tag uint32, fields []byte) []byte {
	p := make([]byte, 0, noteHead+len(fields)+4)
	p = append(p, magic...)
	p = le.AppendUint16(p, formatVersion)
	p = le.AppendUint16(p, uint16(part))
	p = le.AppendUint32(p, tag)
	p = le.AppendUint32(p, uint32(cap(p)))
	p = append(p, fields...)
	return le.AppendUint32(p, event.Sum(p))
}

func openNote(p []byte, magic string, part PartitionID, tag uint32) ([]byte, error) {
	switch {
	case len(p) < noteHead+4 || string(p[:4]) != magic:
		return nil, fmt.Errorf("%w: no %s file", errDamaged, magic)
	case le.Uint32(p[len(p)-4:]) != event.Sum(p[:len(p)-4]):
		return nil, fmt.Errorf("%w: checksum", errDamaged)
	case le.Uint16(p[4:]) > formatVersion:
		return nil, fmt.Errorf("%w: %s version %d", ErrFormat, magic, le.Uint16(p[4:]))
	case le.Uint16(p[4:]) != formatVersion || le.Uint32(p[12:]) != uint32(len(p)):
		return nil, fmt.Errorf("%w: header", errDamaged)
	case le.Uint16(p[6:]) != uint16(part):
		return nil, fmt.Errorf("%w: belongs to partition %d", errDamaged, le.Uint16(p[6:]))
	case le.Uint32(p[8:]) != tag:
		return nil, fmt.Errorf("%w: belongs to another namespace", errDamaged)
	}
	return p[noteHead : len(p)-4], nil
}

// mark is a place in a log with the checksum of the frame before it, so that it can be recognised.
type mark struct {
	lsn   event.LSN
	epoch Epoch
	chain uint32
}

func (m mark) append(p []byte) []byte {
	p = le.AppendUint64(p, uint64(m.lsn))
	p = le.AppendUint64(p, uint64(m.epoch))
	p = le.AppendUint32(p, m.chain)
	return le.AppendUint32(p, 0)
}

func decodeMark(fields []byte) (mark, error) {
	if len(fields) != 24 {
		return mark{}, fmt.Errorf("%w: length", errDamaged)
	}
	return mark{event.LSN(le.Uint64(fields)), Epoch(le.Uint64(fields[8:])), le.Uint32(fields[16:])}, nil
}

// chapterEntry is a chapter as the manifest names it.
type chapterEntry struct {
	id           uint32
	chain        uint32 // before its first frame
	first        event.LSN
	created      int64 // ms since 1970
	segmentBytes uint32
}

// manifest names the chapters that belong to a log, oldest first. Ids grow.
type manifest struct {
	generation uint64
	chapters   []chapterEntry
}

func (m *manifest) encode(part PartitionID, tag uint32) []byte {
	p := le.AppendUint64(nil, m.generation)
	for _, c := range m.chapters {
		p = le.AppendUint32(p, c.id)
		p = le.AppendUint32(p, c.chain)
		p = le.AppendUint64(p, uint64(c.first))
		p = le.AppendUint64(p, uint64(c.created))
		p = le.AppendUint32(p, c.segmentBytes)
		p = le.AppendUint32(p, 0)
	}
	return sealNote("LBMF", part, tag, p)
}

func decodeManifest(file []byte, part PartitionID, tag uint32) (manifest, error) {
	p, err := openNote(file, "LBMF", part, tag)
	if err != nil {
		return manifest{}, err
	}
	if len(p) < 8 || (len(p)-8)%chapterRow != 0 {
		return manifest{}, fmt.Errorf("%w: length", errDamaged)
	}
	m := manifest{generation: le.Uint64(p)}
	for p = p[8:]; len(p) > 0; p = p[chapterRow:] {
		c := chapterEntry{
			id: le.Uint32(p), chain: le.Uint32(p[4:]), first: event.LSN(le.Uint64(p[8:])),
			created: int64(le.Uint64(p[16:])), segmentBytes: le.Uint32(p[24:]),
		}
		if n := len(m.chapters); n > 0 && (c.id <= m.chapters[n-1].id || c.first < m.chapters[n-1].first) || c.first%8 != 0 {
			return manifest{}, fmt.Errorf("%w: chapters out of order", errDamaged)
		}
		m.chapters = append(m.chapters, c)
	}
	return m, nil
}

func encodeClean(tag uint32, ends []mark) []byte {
	var p []byte
	for id, m := range ends {
		p = le.AppendUint16(p, uint16(id))
		p = le.AppendUint16(p, 0)
		p = le.AppendUint32(p, m.chain)
		p = le.AppendUint64(p, uint64(m.lsn))
		p = le.AppendUint64(p, uint64(m.epoch))
	}
	return sealNote("LBCM", noPartition, tag, p)
}

// decodeClean returns the end of every partition's log.
func decodeClean(file []byte, tag uint32, partitions int) ([]mark, error) {
	p, err := openNote(file, "LBCM", noPartition, tag)
	if err != nil {
		return nil, err
	}
	if len(p) != partitions*cleanRow {
		return nil, fmt.Errorf("%w: length", errDamaged)
	}
	ends := make([]mark, partitions)
	for id := range ends {
		row := p[id*cleanRow:]
		if int(le.Uint16(row)) != id {
			return nil, fmt.Errorf("%w: partitions out of order", errDamaged)
		}
		ends[id] = mark{lsn: event.LSN(le.Uint64(row[8:])), epoch: Epoch(le.Uint64(row[16:])), chain: le.Uint32(row[4:])}
	}
	return ends, nil
}

// readFile returns a small file. Files over limit are damage: nothing we write is longer.
func readFile(fs FS, name string, limit int64) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes", errDamaged, size)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && !(errors.Is(err, io.EOF) && n == len(p)) {
		return nil, err
	}
	return p, nil
}

// replaceFile gives the file new contents, whole or not at all: temp, sync, rename, sync of the directory (3.5).
func replaceFile(fs FS, name string, contents []byte) error {
	f, err := fs.Create(name + tempSuffix)
	if err != nil {
		return err
	}
	if _, err := f.Write(contents); err != nil {
		f.Close()
		dropTemp(fs, name)
		return err
	}
	return commitFile(fs, f, name)
}

// dropTemp gives back the room of a temp file that does not get its name: a disk that is full stays so for it otherwise. Best effort:
// the next start removes it too.
func dropTemp(fs FS, name string) { _ = fs.Remove(name + tempSuffix) }

// commitFile makes the temp file f durable under its name, or removes it.
func commitFile(fs FS, f File, name string) (err error) {
	defer func() {
		if err != nil {
			dropTemp(fs, name)
		}
	}()
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fs.Rename(name+tempSuffix, name); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(name))
}

func isTemp(name string) bool { return bytes.HasSuffix([]byte(name), []byte(tempSuffix)) }
