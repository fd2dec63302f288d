package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// TempSuffix ends the name of a temporary file: one that is still being written, and then renamed.
// Files with this suffix that an interrupted run left may be removed.
const TempSuffix = ".tmp"

// IsTemp reports whether a name is that of a temporary file.
func IsTemp(name string) bool { return strings.HasSuffix(name, TempSuffix) }

// Replace gives the file new contents, whole or not at all.
func Replace(fsys FS, name string, contents []byte) error {
	return Write(fsys, name, func(f File) error {
		_, err := f.Write(contents)
		return err
	})
}

// Write makes a file with the bytes that write writes, whole or not at all, in place of the file
// with the name: temporary file, sync, rename, sync of the directory (3.5). After an error that
// wraps [ErrNoRoom] everything is as it was.
func Write(fsys FS, name string, write func(File) error) error {
	f, err := fsys.Create(name + TempSuffix)
	if err != nil {
		return Later(err)
	}
	if err := write(f); err != nil {
		f.Close()
		dropTemp(fsys, name)
		return Later(err)
	}
	return commit(fsys, f, name)
}

// dropTemp removes a temporary file that will not be renamed; otherwise it would keep a full disk
// full. Best effort: the next start removes it as well.
func dropTemp(fsys FS, name string) { _ = fsys.Remove(name + TempSuffix) }

// commit makes the temporary file f durable under its name, or removes it.
func commit(fsys FS, f File, name string) (err error) {
	defer func() {
		if err != nil {
			dropTemp(fsys, name)
		}
	}()
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fsys.Rename(name+TempSuffix, name); err != nil {
		return Later(err)
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// MakeDir makes a directory and its missing parents. The caller must make them durable, including
// those that exist: an earlier run may have died between making and syncing one.
func MakeDir(fsys FS, dir string) error {
	_, err := fsys.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := MakeDir(fsys, parent); err != nil {
		return err
	}
	if err := fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// SyncPath makes the entries that lead to dir durable. It ends at a directory that it may not read,
// unless that is the parent of dir: distant parents do not belong to the broker.
func SyncPath(fsys FS, dir string) error {
	for near := true; ; near = false {
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		if err := fsys.SyncDir(parent); errors.Is(err, fs.ErrPermission) && !near {
			return nil
		} else if err != nil {
			return err
		}
		dir = parent
	}
}

// Full reports whether an error says that the disk, or a quota, is full.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Later makes the error of a write, a create or a rename wrap [ErrNoRoom] if it says that the disk
// is [Full]. It is not for the errors of syncs.
func Later(err error) error {
	if !Full(err) || errors.Is(err, ErrNoRoom) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoRoom, err)
}

// CannotGrow reports whether an error says that a file cannot become longer: the disk is [Full], or
// the file has the largest possible size.
func CannotGrow(err error) bool { return Full(err) || errors.Is(err, unix.EFBIG) }
