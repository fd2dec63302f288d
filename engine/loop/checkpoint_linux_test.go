package loop

import (
	"crypto/sha256"
	"io"
	"log/slog"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// heldLog blocks the writing of a checkpoint.
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

// loopPause is how long a turn kept its loop busy: by the clock, which includes the time of other
// processes, and by the CPU time of its thread.
type loopPause struct{ wall, cpu time.Duration }

func (s *loopPause) include(o loopPause) { s.wall, s.cpu = max(s.wall, o.wall), max(s.cpu, o.cpu) }

type loopPauseStart struct {
	wall   time.Time
	cpu    time.Duration
	thread int
}

func begin() loopPauseStart { return loopPauseStart{time.Now(), threadTime(), syscall.Gettid()} }

func (b loopPauseStart) end() loopPause {
	s := loopPause{time.Since(b.wall), threadTime() - b.cpu}
	if syscall.Gettid() != b.thread {
		s.cpu = 0 // unknown
	}
	return s
}

// threadTime returns the CPU time of the thread, which the kernel may count in ticks of 4 ms.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busy works next to the other goroutines, as one that encodes does, until the function that it
// returns is called.
func busy() (end func()) {
	over := make(chan struct{})
	go func() {
		sum, part := sha256.New(), make([]byte, 512<<10)
		for {
			select {
			case <-over:
				return
			default:
				sum.Write(part)
				runtime.Gosched()
			}
		}
	}()
	return func() { close(over) }
}

// A checkpoint of ten million waiting messages, written to a disk while messages are sent and
// settled as fast as the state takes them; and the same turns without a checkpoint, next to a
// goroutine that is as busy. Run it with -benchtime 1x.
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
	turn := func() loopPause { // one message is sent, another is settled
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
		var quiet, longest loopPause
		end := busy()
		for start := time.Now(); time.Since(start) < time.Second; {
			quiet.include(turn())
		}
		end()
		before := heap()
		held := heldLog{plog, make(chan struct{}), make(chan struct{})}
		s := newCheckpointer(held, x, Options{Logger: slog.Default(), CheckpointBytes: 1, Memory: log.Unbounded{}})
		_, s.at = plog.Bounds()
		events = 0
		start, freeze := time.Now(), begin()
		s.state = x.Snapshot()
		longest.include(freeze.end())
		s.committed()
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
