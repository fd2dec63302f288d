package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

type osFS struct{}

type osFile struct{ *os.File }

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Open(name string) (File, error) { return openExisting(name, os.O_RDONLY) }
func (osFS) Edit(name string) (File, error) { return openExisting(name, os.O_RDWR) }

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

func (osFS) ReadDir(name string) ([]Entry, error) {
	list, err := os.ReadDir(name)
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

func (osFS) Stat(name string) (Entry, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: info.Name(), Size: info.Size(), Dir: info.IsDir()}, nil
}

func (osFS) Mkdir(name string) error      { return os.Mkdir(name, 0o700) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// OpenDir implements [dirOpener].
func (osFS) OpenDir(name string) (Dir, error) {
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osDir{d}, nil
}

type osDir struct{ *os.File }

func (osFS) Lock(name string) (io.Closer, error) {
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

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// bootID asks the kernel for the id of this boot; empty when it has none.
func bootID() string {
	p, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(p))
}

// realPath follows the symbolic links on the way to a data directory, its own name included: they are the operator's. What is not
// there, or cannot be resolved, stays as it is for others to complain about.
func realPath(dir string) string {
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		return to
	}
	return dir
}

// refusal says why a name inside a data directory is not opened (reliability.md S33); nil for directories and regular files.
func refusal(path string, m fs.FileMode) error {
	what := "a device, pipe or socket"
	switch {
	case m.IsDir() || m.IsRegular():
		return nil
	case m&fs.ModeSymlink != 0:
		what = "a symbolic link"
	}
	return &fs.PathError{Op: "open", Path: path, Err: errors.New("is " + what + ", which is refused inside a data directory")}
}

// refuseLinks finds a link among the directories that recovery goes through, and among the files that concern all partitions.
// A start and an inspection ask it alike, before anything else, so that both refuse, and for what it is: a link is no damage.
// A link in the place of a partition's file is that partition's alone, and Open refuses it. What cannot be looked at is recovery's
// business.
func refuseLinks(root string) error {
	names := []string{"lock", "namespace.json", "clean", "partitions"}
	for i := range PartitionID(maxPartitions) {
		dir := partitionName(i)
		wal := filepath.Join(dir, "wal")
		names = append(names, dir, filepath.Join(dir, "checkpoints"), wal)
	}
	for _, name := range names {
		path := filepath.Join(root, name)
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if err := refusal(path, info.Mode()); err != nil {
			return err
		}
		if filepath.Base(name) != "wal" {
			continue
		}
		chapters, _ := os.ReadDir(path)
		for _, e := range chapters { // others do not belong to the log, whatever they are
			if _, ok := chapterID(Entry{Name: e.Name(), Dir: true}); !ok {
				continue
			}
			if err := refusal(filepath.Join(path, e.Name()), e.Type()); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookFS reads a directory that may have been made by an enemy: no symbolic link is followed, nothing is written, and
// a process that uses the directory is respected (reliability.md S33).
type lookFS struct {
	osFS
	root string
}

func (l lookFS) check(name string) error {
	rel, err := filepath.Rel(l.root, name)
	if err != nil || !filepath.IsLocal(rel) && rel != "." {
		return fmt.Errorf("log: %s is outside of %s", name, l.root)
	}
	path := l.root
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if err := refusal(path, info.Mode()); err != nil {
			return err
		}
	}
	return nil
}

func (l lookFS) Open(name string) (File, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	return l.osFS.Open(name)
}

func (l lookFS) ReadDir(name string) ([]Entry, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	return l.osFS.ReadDir(name)
}

func (l lookFS) Stat(name string) (Entry, error) {
	if err := l.check(name); err != nil {
		return Entry{}, err
	}
	return l.osFS.Stat(name)
}

func (lookFS) Create(string) (File, error) { return nil, ErrReadOnly }
func (lookFS) Edit(string) (File, error)   { return nil, ErrReadOnly }
func (lookFS) Mkdir(string) error          { return ErrReadOnly }
func (lookFS) Rename(_, _ string) error    { return ErrReadOnly }
func (lookFS) Remove(string) error         { return ErrReadOnly }
func (lookFS) SyncDir(string) error        { return ErrReadOnly }

// Lock takes a shared lock on an existing lock file. A copy has a lock file of its own, which nobody holds, or none.
func (l lookFS) Lock(name string) (io.Closer, error) {
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
