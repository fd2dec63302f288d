package tools

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log"
)

// Beside says how to take a directory that a broker may be using. If one does, what is read is what
// was durable when the directory was opened, less what came in the second before: the output is
// that of a stopped directory whose logs end there. Reading never makes the broker wait.
type Beside struct {
	// Live takes the directory this way even if no broker uses it, so that one can start meanwhile;
	// otherwise none can before the directory has been read.
	Live bool
	// Notes gets a line for each partition that is not read to its end, with how far it is read;
	// nil: nothing is written.
	Notes io.Writer
}

// Open takes a directory to read it, beside a broker if one uses it. Of what is opened of it the
// notes say how far it is read.
func (b *Beside) Open(ctx context.Context, dir string) (log.Store, error) {
	s, err := b.open(ctx, dir, false)
	if err == nil && b.Live {
		s = &telling{s, b, make(map[log.PartitionID]bool)}
	}
	return s, err
}

// telling is a directory that is read beside a broker.
type telling struct {
	log.Store
	how  *Beside
	told map[log.PartitionID]bool
}

// Open implements [log.Store].
func (t *telling) Open(ctx context.Context, id log.PartitionID) (log.Partition, error) {
	p, err := t.Store.Open(ctx, id)
	if err == nil && !t.told[id] {
		t.told[id] = true
		t.how.tell(p)
	}
	return p, err
}

// open is Open; thorough reads sealed files whole.
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

// tell says how far a partition is read.
func (b *Beside) tell(p log.Partition) {
	if b.Live && b.Notes != nil {
		_, end := p.Bounds()
		fmt.Fprintf(b.Notes, "partition %d: read up to durable LSN %d; a broker may be using the directory\n", p.ID(), end)
	}
}
