package floor

import (
	"os"
	"syscall"
)

// fdatasync makes a file's data durable, with the metadata needed to read it.
func fdatasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
