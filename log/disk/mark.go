package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Mark is a small file that a process leaves in a directory that is another's, as long as it lives. It is never synced.
type Mark struct {
	root *os.Root
	name string
	file *os.File
}

// NewMark makes a new file in the directory that is looked at, which is all that is ever written there. The name must not be taken. Made by
// the superuser the file belongs to whom the directory belongs to, who would not be able to read it else.
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

// Process is the process that left the mark.
func (m *Mark) Process() uint32 { return uint32(os.Getpid()) }

// Put replaces the contents, which have the same length each time. Where there is no room for them there is none for a courtesy.
func (m *Mark) Put(contents []byte) { _, _ = m.file.WriteAt(contents, 0) }

// Remove removes the file.
func (m *Mark) Remove() {
	_ = m.root.Remove(m.name)
	_ = m.file.Close()
	_ = m.root.Close()
}

// Unmark removes the file of a process that is no more.
func (l look) Unmark(name string) {
	if root, err := os.OpenRoot(l.root); err == nil {
		_ = root.Remove(name)
		_ = root.Close()
	}
}
