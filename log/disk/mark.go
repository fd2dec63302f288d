package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Mark is a small file that a process leaves, while it runs, in a directory that another process
// uses. It is never synced.
type Mark struct {
	root *os.Root
	name string
	file *os.File
}

// NewMark makes a new file in the directory. Nothing else is ever written there. The name must be
// free. If the superuser makes it, the file is given to the owner of the directory, who could not
// read it otherwise.
func (l look) NewMark(name string) (*Mark, error) {
	root, err := os.OpenRoot(l.root)
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		root.Close()
		return nil, err
	}
	var st unix.Stat_t
	if os.Geteuid() == 0 && unix.Stat(l.root, &st) == nil && st.Uid != 0 {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
	return &Mark{root, name, f}, nil
}

// Process returns the process that left the mark.
func (m *Mark) Process() uint32 { return uint32(os.Getpid()) }

// Put replaces the contents, which have the same length each time. Errors are ignored: a mark is a
// courtesy, for which a full disk need not have room.
func (m *Mark) Put(contents []byte) { _, _ = m.file.WriteAt(contents, 0) }

// Remove removes the file.
func (m *Mark) Remove() {
	_ = m.root.Remove(m.name)
	_ = m.file.Close()
	_ = m.root.Close()
}

// Unmark removes the mark of a process that has ended.
func (l look) Unmark(name string) {
	if root, err := os.OpenRoot(l.root); err == nil {
		_ = root.Remove(name)
		_ = root.Close()
	}
}
