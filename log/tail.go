package log

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// roomShare is how many entries of the current size must fit into the room that is made before it.
const roomShare = 4

// tail writes the segment files of one chapter, beginning in an empty directory. A file that it has
// closed is one of a tidwall/wal directory, byte for byte (docs/decisions/0004).
//
// Before small entries it makes room: it extends the file by the size of many entries at once. A
// sync of a file that grows must also write the file's new size. A sync of a file whose room is
// filled need not, which saves a quarter of the time that a single sender waits
// (docs/decisions/0012).
type tail struct {
	fs  disk.FS
	dir string
	// the bytes that room is filled with, as many as are written at a time; empty: no room is made
	blank           []byte
	file            disk.File
	size            int  // bytes of entries
	room            int  // size of the file
	noPreallocation bool // no room is made in this file
	// it may end with a part of an entry that did not fit on the disk (docs/decisions/0039)
	torn bool
}

func newTail(fsys disk.FS, dir string, roomBytes int) (*tail, error) {
	t := &tail{fs: fsys, dir: dir, blank: bytes.Repeat([]byte{format.Blank}, max(roomBytes, 0))}
	return t, t.create(1)
}

// create makes the file of the entries from index on. The previous file must have been closed.
func (t *tail) create(index uint64) (err error) {
	t.size, t.room, t.noPreallocation = 0, 0, false
	t.file, err = t.fs.Create(filepath.Join(t.dir, format.SegmentName(index)))
	return disk.Later(err)
}

// write appends an entry with its length prefix, and makes room before it if roomy allows. If there
// is no room for the entry itself, the error wraps [disk.ErrNoRoom], and the file must be mended
// before it is closed.
func (t *tail) write(entry []byte, roomy bool) error {
	if err := t.mend(); err != nil {
		return err
	}
	if roomy && t.size+len(entry) > t.room && roomShare*len(entry) <= len(t.blank) && !t.noPreallocation {
		if err := t.makeRoom(); err != nil {
			return err
		}
	}
	n, err := t.file.WriteAt(entry, int64(t.size))
	t.torn = disk.Full(err)
	if err != nil {
		return disk.Later(err)
	}
	if n != len(entry) {
		return fmt.Errorf("wrote %d of %d bytes", n, len(entry))
	}
	t.size += n
	t.room = max(t.room, t.size)
	return nil
}

// mend removes the written part of an entry that found no room. The file then ends with its entries
// again, also after a power loss. On file systems that copy files to truncate them, that also needs
// room. An error that wraps [disk.ErrNoRoom] leaves the file as it is, and it must be mended later.
func (t *tail) mend() error {
	if !t.torn {
		return nil
	}
	if err := t.file.Truncate(int64(t.size)); err != nil {
		return disk.Later(err)
	}
	if err := t.file.Sync(); err != nil {
		return err
	}
	t.room, t.torn = t.size, false
	return nil
}

// makeRoom extends the file. The entry may fit even if its room does not. If the disk, a quota or
// the largest file size forbids the room, the file is restored, and only time has been lost.
func (t *tail) makeRoom() error {
	_, err := t.file.WriteAt(t.blank, int64(t.size))
	if err == nil {
		t.room = t.size + len(t.blank)
		return nil
	}
	if !disk.CannotGrow(err) {
		return err
	}
	t.noPreallocation = true
	err = disk.Later(t.file.Truncate(int64(t.room)))
	t.torn = errors.Is(err, disk.ErrNoRoom)
	return err
}

// close truncates the room, and syncs and closes the file being written.
func (t *tail) close() error {
	if t.room > t.size || t.torn {
		if err := t.file.Truncate(int64(t.size)); err != nil {
			return disk.Later(err)
		}
		t.room, t.torn = t.size, false
	}
	if err := t.file.Sync(); err != nil {
		return err
	}
	return t.file.Close()
}
