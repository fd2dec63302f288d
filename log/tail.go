package log

import (
	"fmt"
	"path/filepath"
)

// tail writes the segment files of one chapter, beginning in an empty directory: those of a tidwall/wal directory, byte for
// byte (docs/decisions/0004). An entry that brings a file to the segment size is its last: the file is synced and the next
// one is created before write returns.
type tail struct {
	fs    FS
	dir   string
	limit int // bytes of a segment
	file  File
	size  int
}

func newTail(fsys FS, dir string, segmentBytes int) (*tail, error) {
	t := &tail{fs: fsys, dir: dir, limit: segmentBytes}
	return t, t.create(1)
}

func (t *tail) create(index uint64) (err error) {
	t.size = 0
	t.file, err = t.fs.Create(filepath.Join(t.dir, segmentName(index)))
	return err
}

// write appends an entry, its length in front of it.
func (t *tail) write(index uint64, entry []byte) error {
	n, err := t.file.Write(entry)
	if err != nil {
		return err
	}
	if n != len(entry) {
		return fmt.Errorf("wrote %d of %d bytes", n, len(entry))
	}
	if t.size += n; t.size < t.limit {
		return nil
	}
	if err := t.close(); err != nil {
		return err
	}
	return t.create(index + 1)
}

// close syncs and closes the file being written.
func (t *tail) close() error {
	if err := t.file.Sync(); err != nil {
		return err
	}
	return t.file.Close()
}
