// Package disk is the disk for package log. It has the interface [FS], the operating system's
// implementation, and operations on files that do not depend on their contents: replacing a file
// whole or not at all, waiting for a descriptor, refusing links inside a data directory. It does
// not know what is in a file.
package disk

import (
	"errors"
	"io"
)

var (
	// ErrInUse says that another process uses the directory (reliability.md F13).
	ErrInUse = errors.New("log: directory is in use by another process")
	// ErrReadOnly says that the file system was opened read-only.
	ErrReadOnly = errors.New("log: opened read-only")
	// ErrNoRoom says that the disk or a quota is full, and that therefore something was not
	// written, made or renamed. The operation can be repeated when there is room. The error of a
	// sync never wraps it, because the state after a failed sync is unknown (docs/decisions/0039).
	ErrNoRoom = errors.New("log: no room on the disk")
)

// FS is a file system. Names are paths of the operating system. Errors for missing and existing
// names satisfy errors.Is with fs.ErrNotExist and fs.ErrExist. Its methods may be called
// concurrently. Any implementation besides the operating system's is a simulation; all other code
// is the same.
type FS interface {
	// Create makes an empty file with permissions 0600, replacing a file of the name.
	Create(name string) (File, error)
	// Open opens an existing file for reading and syncing. It follows no symbolic link.
	Open(name string) (File, error)
	// Edit opens an existing file for reading, overwriting and truncating. It follows no symbolic
	// link.
	Edit(name string) (File, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]Entry, error)
	Stat(name string) (Entry, error)
	// Mkdir makes a directory with permissions 0700.
	Mkdir(name string) error
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the directory's entries durable.
	SyncDir(name string) error
	// Lock takes the lock file exclusively, creating it, or returns ErrInUse. Closing releases the
	// lock.
	Lock(name string) (io.Closer, error)
	// Free returns the free space of the file system with a directory. A quota that it does not
	// know may leave less.
	Free(dir string) (Space, error)
}

// Space is the size and free space of a file system, in bytes.
type Space struct {
	Total int64
	Free  int64 // for this process, without the superuser's reserve
}

// File is an open file. ReadAt may be called concurrently with everything else.
type File interface {
	io.ReaderAt
	io.Writer   // appends to what it wrote before, in a created file
	io.WriterAt // writes anywhere and moves no offset
	Truncate(size int64) error
	// extends a shorter file to size, with room on the disk for all of it; the new bytes are
	// arbitrary
	Allocate(size int64) error
	Sync() error     // makes bytes and size durable
	Datasync() error // the same without times
	Size() (int64, error)
	io.Closer
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Size int64 // bytes, of a file
	Dir  bool
}

// Dir is an open directory.
type Dir interface {
	// Exchange swaps two names in it in one step. It wraps errors.ErrUnsupported if the file system
	// cannot.
	Exchange(a, b string) error
	// Sync makes the directory's entries durable.
	Sync() error
	Close() error
}
