package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Exchange implements [Dir].
func (d osDir) Exchange(a, b string) error {
	fd := int(d.Fd())
	err := unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
	switch err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP: // what file systems without it answer
		return errors.ErrUnsupported
	}
	return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
}

// Datasync implements [File].
func (f osFile) Datasync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
