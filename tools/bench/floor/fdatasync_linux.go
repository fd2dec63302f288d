package floor

import (
	"os"
	"syscall"
)

// fdatasync makes the bytes of a file durable, and of its metadata what is needed to read them.
func fdatasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
