//go:build !linux

package disk

import (
	"errors"

	"golang.org/x/sys/unix"
)

// noAccessTime is the open mode that does not update the access time: there is none.
const noAccessTime = 0

// Exchange implements [Dir].
func (osDir) Exchange(_, _ string) error { return errors.ErrUnsupported }

// Datasync implements [File]. Sync reaches the medium on every system: on macOS it is F_FULLFSYNC.
func (f osFile) Datasync() error { return f.Sync() }

// Allocate implements [File].
func (f osFile) Allocate(size int64) error { return f.fill(size) }

// blockSize returns the unit in which a file system counts.
func blockSize(st *unix.Statfs_t) int64 { return int64(st.Bsize) }
