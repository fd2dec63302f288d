package log

import (
	"os"

	"golang.org/x/sys/unix"
)

// Datasync implements [File].
func (f osFile) Datasync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
