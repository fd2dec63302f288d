package host

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

// The broker never depends on a checkpoint: whatever becomes of one, it goes on (F21).
func TestCheckpointPanics(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newCheckpointer(panickingLog{}, nil, LoopOptions{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	s.save(8, index.New().Snapshot())
	s.wait()
	if !strings.Contains(out.String(), "no checkpoint today") || s.running() {
		t.Errorf("running: %v, log: %s", s.running(), out.String())
	}
}

// What is applied while a group is synced, and while the group's checkpoint is written, is not in that checkpoint.
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
	s := newCheckpointer(plog, x, LoopOptions{Logger: slog.New(slog.DiscardHandler), CheckpointBytes: 1})
	if s.committed(); s.busy != nil {
		t.Fatal("a checkpoint of nothing")
	}
	want := x.Encode(nil)
	s.sealed(end)
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

// leading is a partition of a new log, ready to be written to.
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
