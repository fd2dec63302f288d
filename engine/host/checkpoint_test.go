package host

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

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

// A checkpoint is never the truth: whatever becomes of one, the broker goes on (F21).
func TestCheckpointPanics(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newSaver(panickingLog{}, nil, LoopOptions{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	s.save(8, index.New().Snapshot())
	s.wait()
	if !strings.Contains(out.String(), "no checkpoint today") || s.running() {
		t.Errorf("running: %v, log: %s", s.running(), out.String())
	}
}

// heldLog keeps a checkpoint that is written from being over.
type heldLog struct {
	log.Partition
	written, over chan struct{}
}

func (h heldLog) SaveCheckpoint(at event.LSN, write func(io.Writer) error) error {
	err := h.Partition.SaveCheckpoint(at, write)
	close(h.written)
	<-h.over
	return err
}

// What is applied while a group is synced, and while the checkpoint of it is written, is not in the checkpoint.
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
	s := newSaver(plog, x, LoopOptions{Logger: slog.New(slog.DiscardHandler), CheckpointBytes: 1})
	if s.landed(); s.busy != nil {
		t.Fatal("a checkpoint of nothing")
	}
	want := x.Encode(nil)
	s.sealed(end)
	send()
	x.Apply(1000, &event.MessageExpired{Envelope: env, Sequence: 5000})
	s.landed()
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
	if s.size != int64(len(want)) || s.due(end+1) || !s.due(end+event.LSN(checkpointRatio*len(want))) {
		t.Errorf("a state of %d bytes: %d are noted; due at once: %t", len(want), s.size, s.due(end+1))
	}
}

// stop is how long a turn kept its loop from others: by the clock, among that what the machine gave to other processes meanwhile, and by
// what its thread worked.
type stop struct{ wall, cpu time.Duration }

func (s *stop) include(o stop) { s.wall, s.cpu = max(s.wall, o.wall), max(s.cpu, o.cpu) }

type beginning struct {
	wall time.Time
	cpu  time.Duration
}

func begin() beginning { return beginning{time.Now(), threadTime()} }

func (b beginning) end() stop {
	s := stop{time.Since(b.wall), threadTime() - b.cpu}
	if s.cpu < 0 || s.cpu > s.wall+5*time.Millisecond { // it went on on another thread; threads are charged in ticks of up to 4 ms
		s.cpu = 0
	}
	return s
}

// threadTime is what the thread has worked; 0 where that cannot be asked.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if syscall.Getrusage(thread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// leading is a partition of a new log that can be written.
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

// A checkpoint of ten million waiting messages, written to a disk while messages come at the end of the queue and leave at its front as
// fast as the state takes them. Run it with -benchtime 1x.
func BenchmarkCheckpoint10M(b *testing.B) {
	const waiting = 10_000_000
	plog := leading(b)
	x, env := index.New(), event.Envelope{Slice: event.Slice{Entity: 1}}
	send := func(seq event.SequenceNumber) {
		x.Apply(1000, &event.MessageEnqueued{Envelope: env, Sequence: seq, EnqueuedAt: event.Time(1000 + seq/50),
			Body: event.Blob{Position: event.Position(seq) * 1100, Size: 1024, Sum: uint32(seq) * 2654435761}})
	}
	for seq := range event.SequenceNumber(waiting) {
		send(seq + 1)
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	next, events := event.SequenceNumber(1), 0
	turn := func() stop { // a message comes, another one leaves
		began := begin()
		send(waiting + next)
		token := event.LockToken{byte(next), byte(next >> 8), byte(next >> 16), byte(next >> 24)}
		x.Apply(1000, &event.MessageLocked{Envelope: env, Sequence: next, Token: token, LockedUntil: event.Time(60_000 + next/1000)})
		x.Apply(1000, &event.MessageCompleted{Envelope: env, Sequence: next, Token: token})
		next++
		events += 3
		return began.end()
	}
	for range b.N {
		var quiet, longest stop
		for start := time.Now(); time.Since(start) < time.Second; {
			quiet.include(turn())
		}
		before := heap()
		held := heldLog{plog, make(chan struct{}), make(chan struct{})}
		s := newSaver(held, x, LoopOptions{Logger: slog.Default(), CheckpointBytes: 1})
		_, s.at = plog.Bounds()
		events = 0
		start, freeze := time.Now(), begin()
		s.state = x.Snapshot()
		longest.include(freeze.end())
		s.landed()
		for written := false; !written; {
			longest.include(turn())
			select {
			case <-held.written:
				written = true
			default:
			}
		}
		took := time.Since(start)
		after := heap()
		close(held.over)
		s.wait()
		b.ReportMetric(before, "heap-MiB")
		b.ReportMetric(after-before, "copies-MiB")
		b.ReportMetric(longest.wall.Seconds()*1000, "longest-ms")
		b.ReportMetric(longest.cpu.Seconds()*1000, "longest-cpu-ms")
		b.ReportMetric(quiet.wall.Seconds()*1000, "longest-without-ms")
		b.ReportMetric(quiet.cpu.Seconds()*1000, "longest-cpu-without-ms")
		b.ReportMetric(took.Seconds(), "checkpoint-s")
		b.ReportMetric(float64(events)/took.Seconds()/1000, "kevents/s")
	}
	runtime.KeepAlive(x)
}
