package tools

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ledgerbus/ledgerbus/log"
)

// Beside says how to take a directory that a broker may be using. If one does, what is read is what was durable when the directory was opened, less what came
// in the second before: the output is that of a stopped directory whose logs end there. Reading never makes the broker wait.
type Beside struct {
	// Live takes the directory this way even if no broker uses it, so that one can start meanwhile; otherwise none can before the directory has been read.
	Live bool
	// Notes gets a line for each partition that is not read to its end, with how far it is read; nil: nothing is written.
	Notes io.Writer
}

// Open takes a directory to read it, beside a broker if one uses it.
func (b *Beside) Open(ctx context.Context, dir string) (log.Store, error) {
	return b.open(ctx, dir, false)
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

// Tell says of each partition of an open directory how far it is read. Commands that read all of it call it before they answer.
func (b *Beside) Tell(ctx context.Context, s log.Store) {
	for _, id := range s.Partitions() {
		if p, err := s.Open(ctx, id); err == nil { // of one that is refused, whoever reads it says so
			b.tell(p)
		}
	}
}

// tell says how far a partition is read.
func (b *Beside) tell(p log.Partition) {
	if b.Live && b.Notes != nil {
		_, end := p.Bounds()
		fmt.Fprintf(b.Notes, "partition %d is read up to durable LSN %d, beside a broker that may be using the directory\n", p.ID(), end)
	}
}
