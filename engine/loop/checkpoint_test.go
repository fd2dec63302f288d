package loop

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// panickingLog is a partition whose checkpoints cannot be written.
type panickingLog struct{ log.Partition }

func (panickingLog) Checkpoints() []log.CheckpointInfo { return nil }
func (panickingLog) SaveCheckpoint(event.LSN, func(io.Writer) error) error {
	panic("no checkpoint today")
}

// The broker never depends on a checkpoint: it continues after any failure of one (F21).
func TestCheckpointPanics(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newCheckpointer(panickingLog{}, nil, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	s.save(8, index.New().Snapshot())
	s.wait()
	if !strings.Contains(out.String(), "no checkpoint today") || s.running() {
		t.Errorf("running: %v, log: %s", s.running(), out.String())
	}
}

// Events that are applied while a group is synced, and while the group's checkpoint is written, are
// not in that checkpoint.
func TestCheckpointIsOfItsMoment(t *testing.T) {
	t.Parallel()
	plog := leading(t)
	_, end := plog.Bounds()
	x, env := index.New(), event.Envelope{Slice: event.Slice{Entity: 1}}
	next := event.SequenceNumber(1)
	send := func() {
		x.Apply(1000, &event.MessageEnqueued{Envelope: env, Sequence: next, EnqueuedAt: 1000, Body: event.Blob{Position: 8, Size: 1}})
		next++
	}
	for range 10_000 {
		send()
	}
	s := newCheckpointer(plog, x, Options{Logger: slog.New(slog.DiscardHandler), CheckpointBytes: 1})
	if s.committed(); s.busy != nil {
		t.Fatal("a checkpoint of nothing")
	}
	want := x.Encode(nil)
	s.takeSnapshot(end)
	send()
	x.Apply(1000, &event.MessageExpired{Envelope: env, Sequence: 5000})
	s.committed()
	for s.running() {
		send()
	}
	saved, err := plog.OpenCheckpoint(end)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	if got, err := io.ReadAll(saved); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the checkpoint is of another state: %d bytes, not %d, %v", len(got), len(want), err)
	}
	again, _ := s.due(end + 1)
	later, _ := s.due(end + event.LSN(checkpointRatio*len(want)))
	if s.size != int64(len(want)) || again || !later {
		t.Errorf("a state of %d bytes: %d are noted; due at once: %t, due later: %t", len(want), s.size, again, later)
	}
}

// If history is in a hurry, a state that has lost messages gets its checkpoint with less log than
// the last, large checkpoint requires: that frees the disk space of those messages.
func TestCheckpointOfAStateThatShrank(t *testing.T) {
	t.Parallel()
	plog := leading(t)
	x, env := index.New(), event.Envelope{Slice: event.Slice{Entity: 1}}
	const count = 20_000
	for n := range event.SequenceNumber(count) {
		x.Apply(1000, &event.MessageEnqueued{Envelope: env, Sequence: n + 1, EnqueuedAt: 1000, Body: event.Blob{Position: event.Position(8 + 100*n), Size: 1}})
	}
	s := newCheckpointer(plog, x, Options{Logger: slog.New(slog.DiscardHandler), CheckpointBytes: 1 << 30, Inline: true})
	_, end := plog.Bounds()
	s.save(end, x.Snapshot())
	s.wish.Store(1000)
	due := func(want bool, after int64) {
		t.Helper()
		if got, _ := s.due(end + event.LSN(after)); got != want {
			t.Errorf("%d bytes behind one of %d, with %d messages: due %t", after, s.size, x.Live(), got)
		}
	}
	little := checkpointRatio * s.size / 8
	due(false, little)
	for n := range event.SequenceNumber(count) {
		x.Apply(1000, &event.MessageExpired{Envelope: env, Sequence: n + 1})
	}
	due(true, little)
	due(false, 999)
	s.wish.Store(0)
	due(false, little)
}

// leading returns a partition of a new log, ready to be written to.
func leading(b testing.TB) log.Partition {
	store, err := log.Open(context.Background(), b.TempDir(), log.Options{Partitions: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	plog, err := store.Open(context.Background(), 0)
	if err != nil {
		b.Fatal(err)
	}
	writer, err := plog.Lead(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { writer.Close() })
	return plog
}
