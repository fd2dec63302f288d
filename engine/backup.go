package engine

import (
	"context"
	"io"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Backups copies the namespace while it serves.
type Backups interface {
	// Backup marks one moment in all logs, with the origin and the reason given, and returns the
	// copy that ends there. It waits until the marks are durable. It is refused with [Busy] while
	// another copy is made, if a partition does not serve, or if the loops do not meet in time.
	Backup(ctx context.Context, by *Origin, why event.ReasonGiven) (Backup, error)
}

// Backup is a copy of a data directory as it was at one moment. It is read once and then closed.
type Backup interface {
	ID() event.BackupID
	At() event.Time
	// Bytes returns the approximate size: that of the logs.
	Bytes() int64
	// Files passes every file and directory below the data directory to put, a directory before its
	// contents. Names have slashes. contents is nil for a directory; else it yields size bytes, and
	// is valid until put returns.
	Files(ctx context.Context, put func(name string, size int64, contents io.Reader) error) error
	Close()
}
