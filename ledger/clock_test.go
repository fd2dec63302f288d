package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// An instant that was twice, since a clock was set back, is answered for both times; a place says which of them is meant.
func TestInstantThatWasTwice(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	defer dir.Close()
	_, w := dir.Lead(0)
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	send := func(at event.Time, n event.SequenceNumber) event.LSN {
		return dir.Append(w, at, &event.MessageEnqueued{Envelope: own, Sequence: n, MessageID: []byte("m"), EnqueuedAt: at})
	}
	dir.Append(w, 1000, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}})
	behind := send(2000, 1)
	send(9000, 2)
	dir.Append(w, 5000, &event.ClockSet{Number: 1, Basis: event.BasisWall, From: 10_000, To: 5000, Wall: 5000})
	send(8000, 3)
	ask := func(question func(*Ledger) error) (active []string, err error) {
		var lines []Line
		err = question(New(dir, func(l Line) error { lines = append(lines, l); return nil }))
		return column(lines, "Active"), err
	}
	for at, want := range map[event.Time]string{3000: "[1]", 6000: "[1 2]", 8000: "[1 3]", 9500: "[2 3]", 20_000: "[3]"} {
		if got, err := ask(func(l *Ledger) error { return l.At(t.Context(), Instant{At: at}, "orders", false) }); err != nil || fmt.Sprint(got) != want {
			t.Errorf("at %s: %s, %v, want %s", at, got, err, want)
		}
	}
	place := address.At(log.PartitionID(0), behind)
	if got, err := ask(func(l *Ledger) error { return l.At(t.Context(), Instant{Place: &place}, "orders", false) }); err != nil || fmt.Sprint(got) != "[2]" {
		t.Errorf("at %s: %s, %v", place, got, err)
	}
	if _, err := ask(func(l *Ledger) error {
		return l.Diff(t.Context(), Instant{At: 6000}, Instant{At: 20_000}, "orders", false)
	}); !errors.Is(err, ErrQuestion) {
		t.Errorf("diff from an instant that was twice: %v", err)
	}
	if _, err := ask(func(l *Ledger) error {
		return l.Diff(t.Context(), Instant{Place: &place}, Instant{At: 20_000}, "orders", false)
	}); err != nil {
		t.Error(err)
	}
}
