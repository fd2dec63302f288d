package log

import (
	"fmt"
	"path/filepath"

	"github.com/tidwall/wal"
)

// tail writes the segment files of one chapter, beginning in an empty directory. An entry that brings a file to the
// segment size is its last: the file is synced and the next one is created before write returns.
type tail interface {
	// write appends an entry, of whose prefix the first n bytes are the length.
	write(index uint64, entry []byte, n int) error
	// close syncs and closes the file being written.
	close() error
}

func newTail(fsys FS, dir string, segmentBytes int) (tail, error) {
	if _, ok := fsys.(osFS); !ok {
		return newOwnTail(fsys, dir, segmentBytes)
	}
	l, err := wal.Open(dir, &wal.Options{
		NoSync: true, SegmentSize: segmentBytes, LogFormat: wal.Binary, SegmentCacheSize: 1, NoCopy: true,
		DirPerms: 0o700, FilePerms: 0o600,
	})
	if err != nil {
		return nil, err
	}
	return walTail{l}, nil
}

// walTail is tidwall/wal, opened on an empty directory and only written to.
type walTail struct{ log *wal.Log }

func (t walTail) write(index uint64, entry []byte, n int) error { return t.log.Write(index, entry[n:]) }
func (t walTail) close() error                                  { return t.log.Close() }

// ownTail makes the same files through an FS.
type ownTail struct {
	fs    FS
	dir   string
	limit int
	file  File
	size  int
}

func newOwnTail(fsys FS, dir string, segmentBytes int) (*ownTail, error) {
	t := &ownTail{fs: fsys, dir: dir, limit: segmentBytes}
	return t, t.create(1)
}

func (t *ownTail) create(index uint64) (err error) {
	t.size = 0
	t.file, err = t.fs.Create(filepath.Join(t.dir, segmentName(index)))
	return err
}

func (t *ownTail) write(index uint64, entry []byte, _ int) error {
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

func (t *ownTail) close() error {
	if err := t.file.Sync(); err != nil {
		return err
	}
	return t.file.Close()
}
