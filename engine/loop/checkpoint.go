package loop

import (
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// defaultCheckpointBytes is how much log is written at least between two checkpoints.
	defaultCheckpointBytes = 512 << 20
	// checkpointRatio is how many times the size of the last checkpoint the log behind it must have
	// at least, so that checkpoints of a large state stay a small part of what is written.
	checkpointRatio = 16
	// checkpointEvents is the number of events after which a checkpoint is made even if fewer bytes
	// were written: a question about the past has to replay no more than that.
	checkpointEvents = 1_000_000
	// mostPostponed is how many times the usual amount of log is written before a checkpoint is
	// made even though there is no memory for it: a start that has to read it all takes time, too.
	mostPostponed = 2
	// checkpointMemory is what is taken to encode and compress a checkpoint, bytes: two windows of
	// the compression, and a piece of the state.
	checkpointMemory = 10 << 20
)

// checkpointer decides when a checkpoint is made, and encodes and writes it beside the loop, which
// only takes a snapshot. A checkpoint is never the truth: when one cannot be written the next start
// is slower and nothing else.
type checkpointer struct {
	plog   log.Checkpoints
	index  *index.Index
	logger *slog.Logger
	every  int64         // bytes of log; negative: never
	wish   *atomic.Int64 // bytes of log after which history wants one; 0: it is in no hurry
	inline bool
	events int // since the last one
	newest event.LSN
	// that of the group being synced, when a checkpoint is to be made of it; else nil
	state  *index.Snapshot
	at     event.LSN      // and where that ends
	busy   chan struct{}  // closed when the save that runs is over; nil when none was ever started
	size   int64          // of the last state encoded; of the save that runs, while one does
	live   int            // messages that it had; likewise
	copies int            // how much was kept twice meanwhile, bytes; likewise
	memory SnapshotMemory // taken for state, or for the save that runs
}

func newCheckpointer(plog log.Checkpoints, x *index.Index, opts Options) checkpointer {
	s := checkpointer{plog: plog, index: x, logger: opts.Logger, memory: SnapshotMemory{From: opts.Memory}, every: opts.CheckpointBytes, wish: new(atomic.Int64), inline: opts.Inline}
	if s.every == 0 {
		s.every = defaultCheckpointBytes
	}
	for _, c := range plog.Checkpoints() {
		// one of another version is of no use to a start, and no base can be made of it
		if replay.Current(plog, c.LSN) {
			s.newest = c.LSN
			break
		}
	}
	return s
}

// takeSnapshot is called when the sync of everything up to an LSN begins: the state there is what a
// checkpoint is made of.
func (s *checkpointer) takeSnapshot(at event.LSN) {
	if s.state != nil {
		return
	}
	if due, late := s.due(at); due && s.memory.Take(checkpointMemory, s.copies, late) {
		s.at, s.state = at, s.index.Snapshot()
	}
}

// committed is called when that sync is over: only what is synced may be in a checkpoint.
func (s *checkpointer) committed() {
	if s.state != nil {
		s.save(s.at, s.state)
		s.state = nil
	}
}

// due reports whether a checkpoint should be made of the state at an LSN, and whether it has waited
// for memory long enough.
func (s *checkpointer) due(at event.LSN) (due, late bool) {
	if s.every <= 0 || s.running() {
		return false, false
	}
	since, every, size := int64(at-s.newest), s.every, s.size
	if wish := s.wish.Load(); wish > 0 {
		every = min(every, wish)
		if since >= every {
			size = s.estimateSize()
		}
	}
	if since < checkpointRatio*size {
		return false, false
	}
	due = since >= every || s.events >= checkpointEvents
	late = since/mostPostponed >= max(every, checkpointRatio*size) || s.events/mostPostponed >= checkpointEvents
	return due, due && late
}

// estimateSize is about how large the state is now, when messages have gone since it was encoded:
// what they take on the disk goes with a small checkpoint, and there may be no more log for a long
// time.
func (s *checkpointer) estimateSize() int64 {
	const few = 1024 // of which nobody counts how large they are
	then, now := int64(s.live+few), int64(s.index.Live()+few)
	return int64(float64(s.size) * min(1, float64(now)/float64(then)))
}

func (s *checkpointer) running() bool {
	if s.busy == nil {
		return false
	}
	select {
	case <-s.busy:
		return false
	default:
		return true
	}
}

// save writes a checkpoint of the state at an LSN that is committed, and closes the snapshot.
func (s *checkpointer) save(at event.LSN, state *index.Snapshot) {
	s.newest, s.events = at, 0
	if s.inline {
		s.write(at, state)
		return
	}
	s.busy = make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		defer func() {
			if v := recover(); v != nil { // it only read, and nobody changes what it read
				s.logger.Error("checkpoint writer panicked; the next start replays more", "lsn", at, "panic", v, "stack", string(debug.Stack()))
			}
		}()
		s.write(at, state)
	}(s.busy)
}

func (s *checkpointer) write(at event.LSN, state *index.Snapshot) {
	defer s.memory.Give()
	defer state.Close()
	err := s.plog.SaveCheckpoint(at, func(w io.Writer) error {
		size, err := state.Encode(yieldingWriter{w, state, &s.memory})
		if err == nil {
			s.size, s.live = size, state.Live()
		}
		s.copies = s.memory.Follow(state)
		return err
	})
	if err != nil {
		s.logger.Warn("checkpoint not written; the next start replays more", "lsn", at, "error", err)
	}
}

// wait waits until the save that runs is over, and gives up one that waits for a sync.
func (s *checkpointer) wait() {
	if s.busy != nil {
		<-s.busy
	}
	if s.state != nil {
		s.state.Close()
		s.state = nil
		s.memory.Give()
	}
}

// writeLast writes a checkpoint at a clean stop, when there is anything new to save.
func (s *checkpointer) writeLast(at event.LSN) {
	if s.every > 0 && at > s.newest {
		s.memory.Take(checkpointMemory, 0, true)
		s.write(at, s.index.Snapshot())
	}
}

// yieldingWriter lets other goroutines run after each write: what comes in one write takes half a
// millisecond to make and to take in, and the scheduler would let the loop wait for 10 ms. It also
// looks what the snapshot costs by then.
type yieldingWriter struct {
	io.Writer
	state  *index.Snapshot
	memory *SnapshotMemory
}

func (c yieldingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.memory.Follow(c.state)
	runtime.Gosched()
	return n, err
}
