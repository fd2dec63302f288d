package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noAccessTime is the open mode that does not update the access time.
const noAccessTime = unix.O_NOATIME

// Exchange implements [Dir].
func (d osDir) Exchange(a, b string) error {
	fd := int(d.Fd())
	err := unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
	switch err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP: // the errors of file systems without it
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

// Allocate implements [File].
func (f osFile) Allocate(size int64) error {
	had, err := f.Size()
	if err != nil || had >= size {
		return err
	}
	for {
		err = unix.Fallocate(int(f.Fd()), 0, had, size-had)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return f.fill(size)
		}
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
}

// blockSize returns the unit in which a file system counts.
func blockSize(st *unix.Statfs_t) int64 {
	if st.Frsize > 0 {
		return st.Frsize
	}
	return st.Bsize
}
