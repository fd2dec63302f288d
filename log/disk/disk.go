// Package disk is the disk as package log sees it: the interface [FS], the operating system's
// implementation of it, and what is done with files and names whatever they hold: giving a file its
// contents whole or not at all, waiting for a descriptor, refusing links inside a data directory.
// It does not know what is in a file.
package disk

import (
	"errors"
	"io"
)

var (
	// ErrInUse: another process has the directory (reliability.md F13).
	ErrInUse = errors.New("log: directory is in use by another process")
	// ErrReadOnly: the file system was opened to be looked at only.
	ErrReadOnly = errors.New("log: opened read-only")
	// ErrNoRoom: the disk or a quota is full, and for want of room something was not written, made
	// or renamed. It can be done when there is room. The error of a sync never wraps it: nobody
	// knows what a failed sync has left behind (docs/decisions/0039).
	ErrNoRoom = errors.New("log: no room on the disk")
)

// FS is a file system. Names are paths of the operating system. Errors for missing and existing
// names satisfy errors.Is with fs.ErrNotExist and fs.ErrExist. Its methods may be called
// concurrently. An implementation other than the operating system's is a simulation; everything
// else is the same code.
type FS interface {
	// Create makes an empty file with permissions 0600, replacing what has the name.
	Create(name string) (File, error)
	// Open opens an existing file for reading and syncing. It follows no symbolic link.
	Open(name string) (File, error)
	// Edit opens an existing file for reading, for writing over what is in it, and to be cut. It
	// follows no symbolic link.
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
	// Lock takes the lock file exclusively, creating it, or returns ErrInUse. Closing gives it
	// back.
	Lock(name string) (io.Closer, error)
	// Free says how much room the file system has that a directory is in. A quota it does not know
	// of may leave less.
	Free(dir string) (Space, error)
}

// Space is how much room a file system has, in bytes.
type Space struct {
	Total int64
	Free  int64 // for this process: what is kept for the superuser does not count
}

// File is an open file. ReadAt may be called concurrently with everything else.
type File interface {
	io.ReaderAt
	io.Writer   // writes behind what it wrote before, in a file that was created
	io.WriterAt // writes anywhere and moves nothing
	Truncate(size int64) error
	// extends a shorter file to size, with room on the disk for all of it; the new bytes may be
	// anything
	Allocate(size int64) error
	Sync() error     // makes bytes and size durable
	Datasync() error // likewise, without times
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
	// Exchange swaps two names in it in one step. It wraps errors.ErrUnsupported where the file
	// system cannot.
	Exchange(a, b string) error
	// Sync makes the directory's entries durable.
	Sync() error
	Close() error
}
