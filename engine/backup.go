package engine

import (
	"context"
	"io"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Backups makes copies of the namespace while it serves.
type Backups interface {
	// Backup marks one moment in all logs, with the origin and the reason given, and returns the
	// copy that ends there. It waits until the marks are durable. It is refused with [Busy] while
	// another copy is made, a partition does not serve, or the loops do not come together in time.
	Backup(ctx context.Context, by *Origin, why event.ReasonGiven) (Backup, error)
}

// Backup is a copy of a data directory as it was at one moment, to be read once and closed.
type Backup interface {
	ID() event.BackupID
	At() event.Time
	// Bytes is about how many there are: those of the logs.
	Bytes() int64
	// Files gives put every file and directory below the data directory, with slashes in the name,
	// a directory before what is in it. contents is nil for a directory; else it yields size bytes,
	// and is valid until put returns.
	Files(ctx context.Context, put func(name string, size int64, contents io.Reader) error) error
	Close()
}
