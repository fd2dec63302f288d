// Package logdir writes data directories for tests, without a broker.
package logdir

import (
	"errors"
	"io"
	"testing"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Dir is an open data directory. What fails ends the test.
type Dir struct {
	log.Store
	t       testing.TB
	writers []log.Writer
	closed  bool
}

// Open opens a data directory, or makes one. A test that does not close it has it closed at its
// end, before a temporary directory is removed that was made before: a store at work makes files in
// it.
func Open(t testing.TB, dir string, o log.Options) *Dir {
	t.Helper()
	s, err := log.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	d := &Dir{Store: s, t: t}
	t.Cleanup(func() { _ = d.close() }) // a test that does not close it may have made its log fail
	return d
}

// Lead opens a partition for writing.
func (d *Dir) Lead(id log.PartitionID) (log.Partition, log.Writer) {
	d.t.Helper()
	p, err := d.Store.Open(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	w, err := p.Lead(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	d.writers = append(d.writers, w)
	return p, w
}

// Append appends a record and what the batch holds, and waits until that is durable; end is where
// the next frame begins. Not for a store with Manual set.
func (d *Dir) Append(w log.Writer, at event.Time, events ...event.Event) (end event.LSN) {
	d.t.Helper()
	w.Batch().AppendRecord(at, events, log.Durable)
	ticket := w.Append(w.Batch())
	if <-ticket.Done(); ticket.Err() != nil {
		d.t.Fatal(ticket.Err())
	}
	return ticket.End()
}

// Save saves a checkpoint.
func (d *Dir) Save(p log.Partition, at event.LSN, state []byte) {
	d.t.Helper()
	if err := p.SaveCheckpoint(at, func(w io.Writer) error { _, err := w.Write(state); return err }); err != nil {
		d.t.Fatal(err)
	}
}

// Close ends the writers, then the store. A second time it does nothing.
func (d *Dir) Close() {
	d.t.Helper()
	if err := d.close(); err != nil {
		d.t.Error(err)
	}
}

func (d *Dir) close() (err error) {
	if d.closed {
		return nil
	}
	d.closed = true
	for _, w := range d.writers {
		err = errors.Join(err, w.Close())
	}
	return errors.Join(err, d.Store.Close())
}
