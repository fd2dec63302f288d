package disk

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// OS is the operating system's file system.
type OS struct{}

type osFile struct{ *os.File }

// Create implements [FS].
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Open implements [FS].
func (OS) Open(name string) (f File, err error) {
	err = quietly(func(mode int) error {
		f, err = openExisting(name, os.O_RDONLY|mode)
		return err
	})
	return f, err
}

// quietly opens a file for reading without updating its access time. Such an update is a change,
// for which a broker's sync would have to wait if the reader loses the processor at that moment
// (docs/decisions/0078). Only the owner of a file may skip it.
func quietly(open func(mode int) error) error {
	err := open(noAccessTime)
	if noAccessTime != 0 && errors.Is(err, fs.ErrPermission) {
		err = open(0)
	}
	return err
}

// Edit implements [FS].
func (OS) Edit(name string) (File, error) { return openExisting(name, os.O_RDWR) }

// openExisting opens an existing regular file.
func openExisting(name string, mode int) (File, error) {
	f, err := os.OpenFile(name, mode|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("is not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

// ReadDir implements [FS].
func (OS) ReadDir(name string) ([]Entry, error) {
	list, err := readDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, e := range list {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Name: e.Name(), Size: info.Size(), Dir: e.IsDir()})
	}
	return entries, nil
}

// readDir lists a directory by name.
func readDir(name string) (list []os.DirEntry, err error) {
	var d *os.File
	err = quietly(func(mode int) error {
		d, err = os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|mode, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer d.Close() // read only: nothing can be lost
	list, err = d.ReadDir(-1)
	slices.SortFunc(list, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// Stat implements [FS].
func (OS) Stat(name string) (Entry, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: info.Name(), Size: info.Size(), Dir: info.IsDir()}, nil
}

// Mkdir implements [FS].
func (OS) Mkdir(name string) error { return os.Mkdir(name, 0o700) }

// Rename implements [FS].
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements [FS].
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir implements [FS].
func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// OpenDir implements [dirOpener].
func (OS) OpenDir(name string) (Dir, error) {
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osDir{d}, nil
}

type osDir struct{ *os.File }

// Lock implements [FS].
func (OS) Lock(name string) (io.Closer, error) {
	l := flock.New(name, flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrInUse
	}
	return l, nil
}

// Free implements [FS].
func (OS) Free(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := blockSize(&st)
	return Space{Total: int64(st.Blocks) * unit, Free: max(0, int64(st.Bavail)) * unit}, nil
}

// fillBytes is how much Allocate writes at a time if the file system cannot allocate.
const fillBytes = 1 << 20

// fill extends a file by writing noise, which no file system can compress.
func (f osFile) fill(size int64) error {
	at, err := f.Size()
	if err != nil {
		return err
	}
	noise := make([]byte, min(fillBytes, max(0, size-at)))
	source := rand.NewChaCha8([32]byte{})
	for at < size {
		part := noise[:min(int64(len(noise)), size-at)]
		source.Read(part)
		n, err := f.WriteAt(part, at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// Size implements [File].
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// BootID asks the kernel for the id of this boot; empty if it has none.
func BootID() string {
	p, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(p))
}

// RealPath follows the symbolic links on the path of a data directory, including its own name,
// because the operator made them. A path that does not exist or cannot be resolved is returned
// unchanged, so that opening it reports the error.
func RealPath(dir string) string {
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		return to
	}
	return dir
}
