package disk

import (
	"errors"
	"io/fs"
	"log/slog"
	"syscall"
	"time"
)

// ErrDescriptors says that a file could not be opened because the process, or the machine, has no
// file descriptor left. It says nothing about the disk, and the operation can be repeated later
// (reliability.md F18).
var ErrDescriptors = errors.New("log: out of file descriptors")

// OutOfDescriptors reports whether a file was not opened for lack of a descriptor.
func OutOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

const (
	// readPatience is how long OpenSoon, and with it a read, waits for a descriptor.
	readPatience = 100 * time.Millisecond
	// complainEvery is how often a wait for a descriptor is reported.
	complainEvery = 10 * time.Second
)

// Patient returns a file system whose operations wait until there is a descriptor for them. A call
// that fails for lack of one has changed nothing, so calling again is safe: this does not retry a
// failed write or sync.
func Patient(fsys FS, logger *slog.Logger) FS { return patientFS{fsys, logger} }

type patientFS struct {
	FS
	logger *slog.Logger
}

// Create implements [FS].
func (p patientFS) Create(name string) (f File, err error) {
	err = p.wait(name, func() error { f, err = p.FS.Create(name); return err })
	return f, err
}

// Open implements [FS].
func (p patientFS) Open(name string) (f File, err error) {
	err = p.wait(name, func() error { f, err = p.FS.Open(name); return err })
	return f, err
}

// ReadDir implements [FS].
func (p patientFS) ReadDir(name string) (list []Entry, err error) {
	err = p.wait(name, func() error { list, err = p.FS.ReadDir(name); return err })
	return list, err
}

// SyncDir implements [FS].
func (p patientFS) SyncDir(name string) error {
	return p.wait(name, func() error { return p.FS.SyncDir(name) })
}

// wait calls try until it no longer fails for lack of a descriptor. A broker that stops closes its
// connections first, which frees some.
func (p patientFS) wait(name string, try func() error) error {
	err := try()
	if !OutOfDescriptors(err) {
		return err
	}
	var told time.Time
	for pause := time.Millisecond; OutOfDescriptors(err); pause = min(2*pause, 250*time.Millisecond) {
		if time.Since(told) >= complainEvery {
			told = time.Now()
			p.logger.Warn("out of file descriptors; the log waits for one", "path", name, "error", err)
		}
		time.Sleep(pause)
		err = try()
	}
	return err
}

// OpenSoon opens a file for reading and waits only briefly for a descriptor; then it fails with
// ErrDescriptors. spare frees a descriptor and reports whether it could.
func OpenSoon(fsys FS, name string, spare func() bool) (File, error) {
	for began, pause := time.Now(), time.Millisecond; ; pause *= 2 {
		f, err := fsys.Open(name)
		if !OutOfDescriptors(err) {
			return f, err
		}
		if spare() {
			continue
		}
		if time.Since(began)+pause > readPatience {
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.Join(ErrDescriptors, err)}
		}
		time.Sleep(pause)
	}
}
