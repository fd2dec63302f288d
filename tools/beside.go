package tools

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log"
)

// Beside are the options for reading a directory that a broker may be using. If a broker is using
// it, the tools read the part that was durable when they opened it, without the last second. The
// output is the same as for a stopped directory whose logs end there. The broker never waits for
// the tools.
type Beside struct {
	// Live reads the directory this way even if no broker uses it, so that one can start meanwhile.
	// Otherwise no broker can start before the directory has been read.
	Live bool
	// Notes gets a line for each partition that is not read to its end, with the LSN read up to;
	// nil: nothing is written.
	Notes io.Writer
}

// Open opens a directory for reading, even if a broker is using it. The notes report how far each
// opened partition is read.
func (b *Beside) Open(ctx context.Context, dir string) (log.Store, error) {
	s, err := b.open(ctx, dir, false)
	if err == nil && b.Live {
		s = &reportingStore{s, b, make(map[log.PartitionID]bool)}
	}
	return s, err
}

// A reportingStore is a store that reports how far each opened partition is read.
type reportingStore struct {
	log.Store
	how  *Beside
	told map[log.PartitionID]bool
}

// Open implements [log.Store].
func (t *reportingStore) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	p, err := t.Store.Open(ctx, id)
	if err == nil && !t.told[id] {
		t.told[id] = true
		t.how.tell(p)
	}
	return p, err
}

// open is Open; with thorough it reads whole sealed files.
func (b *Beside) open(ctx context.Context, dir string, thorough bool) (log.Store, error) {
	if !b.Live {
		s, err := log.Open(ctx, dir, log.Options{ReadOnly: true, Thorough: thorough})
		if !errors.Is(err, log.ErrInUse) {
			return s, err
		}
		b.Live = true
	}
	return log.Open(ctx, dir, log.Options{Shared: true, Thorough: thorough})
}

// tell prints how far a partition is read.
func (b *Beside) tell(p log.Partition) {
	if b.Live && b.Notes != nil {
		_, end := p.Bounds()
		fmt.Fprintf(b.Notes, "partition %d: read up to durable LSN %d; a broker may be using the directory\n", p.ID(), end)
	}
}
