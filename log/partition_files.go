package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// partitionFiles opens the files of one partition for its readers, and names places in them. Paths
// are below the partition's directory.
type partitionFiles struct {
	fs   disk.FS
	root string // data directory
	id   PartitionID
	tag  uint32 // of the namespace
}

func (d partitionFiles) dir() string { return filepath.Join(d.root, format.PartitionDir(d.id)) }

func (d partitionFiles) open(path string) (disk.File, error) {
	return d.fs.Open(filepath.Join(d.dir(), path))
}

func (d partitionFiles) readDir(path string) ([]disk.Entry, error) {
	return d.fs.ReadDir(filepath.Join(d.dir(), path))
}

// readNote returns a note or the manifest.
func (d partitionFiles) readNote(path string) ([]byte, error) {
	return readFile(d.fs, filepath.Join(d.dir(), path), format.MaxNote)
}

func (d partitionFiles) readManifest() (format.Manifest, error) {
	p, err := d.readNote("manifest")
	if err != nil {
		return format.Manifest{}, err
	}
	return format.DecodeManifest(p, d.id, d.tag)
}

// corrupt returns an error that says why a place is damaged.
func (d partitionFiles) corrupt(file string, off int64, lsn event.LSN, reason string, args ...any) error {
	return d.corruptBy(file, off, lsn, fmt.Sprintf(reason, args...), nil)
}

// corruptBy does the same as corrupt, with an error as the cause.
func (d partitionFiles) corruptBy(file string, off int64, lsn event.LSN, reason string, cause error) *CorruptError {
	return &CorruptError{
		Partition: d.id, File: filepath.Join(format.PartitionDir(d.id), file), Offset: off, LSN: lsn, Reason: reason, Cause: cause,
	}
}

// decodeVerdict turns an error of decoding the bytes at a place into a verdict. It returns other
// errors as they are.
func (d partitionFiles) decodeVerdict(file string, off int64, lsn event.LSN, err error) error {
	if errors.Is(err, format.ErrDamaged) {
		return d.corrupt(file, off, lsn, "%v", err)
	}
	return err
}

// readVerdict turns an error of reading into a verdict: a place that cannot be read counts as
// damaged (F10), except for a newer format.
func (d partitionFiles) readVerdict(file string, off int64, lsn event.LSN, err error) error {
	var c *CorruptError
	if err == nil || errors.As(err, &c) || errors.Is(err, ErrFormat) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return d.corruptBy(file, off, lsn, "cannot be read", err)
}

// verdict turns an error about a file that was read or decoded into a verdict.
func (d partitionFiles) verdict(file string, lsn event.LSN, err error) error {
	return d.readVerdict(file, 0, lsn, d.decodeVerdict(file, 0, lsn, err))
}

// readFile returns a small file. Files over limit are damaged, because the broker writes none that
// is longer.
func readFile(fsys disk.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes", format.ErrDamaged, size)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && !(errors.Is(err, io.EOF) && n == len(p)) {
		return nil, err
	}
	return p, nil
}
