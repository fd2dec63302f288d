package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Look returns a read-only file system for a directory that an attacker may have made. It follows
// no symbolic link inside, writes nothing except marks, and respects a process that uses the
// directory (reliability.md S33).
func Look(root string) FS { return look{root: root} }

type look struct {
	OS
	root string
}

func (l look) check(name string) error {
	rel, err := filepath.Rel(l.root, name)
	if err != nil || !filepath.IsLocal(rel) && rel != "." {
		return fmt.Errorf("log: %s is outside %s", name, l.root)
	}
	path := l.root
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if err := plain(path, info.Mode()); err != nil {
			return err
		}
	}
	return nil
}

func (l look) Open(name string) (File, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	return l.OS.Open(name)
}

func (l look) ReadDir(name string) ([]Entry, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	return l.OS.ReadDir(name)
}

func (l look) Stat(name string) (Entry, error) {
	if err := l.check(name); err != nil {
		return Entry{}, err
	}
	return l.OS.Stat(name)
}

func (look) Create(string) (File, error) { return nil, ErrReadOnly }
func (look) Edit(string) (File, error)   { return nil, ErrReadOnly }
func (look) Mkdir(string) error          { return ErrReadOnly }
func (look) Rename(_, _ string) error    { return ErrReadOnly }
func (look) Remove(string) error         { return ErrReadOnly }
func (look) SyncDir(string) error        { return ErrReadOnly }

// Lock takes a shared lock on an existing lock file. A copied directory has no lock file, or one
// that is not locked.
func (l look) Lock(name string) (io.Closer, error) {
	f, err := l.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.(osFile).Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		err = ErrInUse
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Plain returns why a name inside a data directory is not opened (reliability.md S33). It returns
// nil for directories and regular files, and for names that cannot be examined.
func Plain(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	return plain(path, info.Mode())
}

// plain returns why a file with a mode is not opened.
func plain(path string, m fs.FileMode) error {
	what := "a device, pipe or socket"
	switch {
	case m.IsDir() || m.IsRegular():
		return nil
	case m&fs.ModeSymlink != 0:
		what = "a symbolic link"
	}
	return &fs.PathError{Op: "open", Path: path, Err: errors.New("is " + what + ", which is refused inside a data directory")}
}
