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
	// defaultCheckpointBytes is the least amount of log between two checkpoints.
	defaultCheckpointBytes = 512 << 20
	// checkpointRatio bounds checkpoints of a large state to a small part of what is written:
	// between two checkpoints the log grows by at least that many times the size of the last one.
	checkpointRatio = 16
	// checkpointEvents is the number of events after which a checkpoint is made even with less log:
	// a query about the past has to replay no more than that.
	checkpointEvents = 1_000_000
	// mostPostponed is how many times the usual amount of log a checkpoint waits for memory. Then
	// it is made without, because a start that has to read all of that log takes time as well.
	mostPostponed = 2
	// checkpointMemory is the memory, in bytes, to encode and compress a checkpoint: two windows of
	// the compression, and a piece of the state.
	checkpointMemory = 10 << 20
)

// checkpointer decides when to make a checkpoint. It encodes and writes it outside the loop, which
// only takes a snapshot. A checkpoint is never the truth: if it cannot be written, the next start
// is slower, and nothing else happens.
type checkpointer struct {
	plog   log.Checkpoints
	index  *index.Index
	logger *slog.Logger
	every  int64         // bytes of log between checkpoints; negative: none are made
	wish   *atomic.Int64 // bytes of log after which history wants one; 0: it is in no hurry
	inline bool
	events int // since the last checkpoint
	newest event.LSN
	// snapshot at the group being synced, if a checkpoint is to be made of it; else nil
	state  *index.Snapshot
	at     event.LSN      // its end
	busy   chan struct{}  // closed when the current save has ended; nil: no save was ever started
	size   int64          // size of the last encoded state; owned by the save while it runs
	live   int            // messages in it; owned as size is
	copies int            // bytes kept twice in the meantime
	memory SnapshotMemory // taken for state, or for the save that runs
}

func newCheckpointer(plog log.Checkpoints, x *index.Index, opts Options) checkpointer {
	s := checkpointer{plog: plog, index: x, logger: opts.Logger, memory: SnapshotMemory{From: opts.Memory}, every: opts.CheckpointBytes, wish: new(atomic.Int64), inline: opts.Inline}
	if s.every == 0 {
		s.every = defaultCheckpointBytes
	}
	for _, c := range plog.Checkpoints() {
		// a start cannot use one of another version, and no base can be made of it
		if replay.Current(plog, c.LSN) {
			s.newest = c.LSN
			break
		}
	}
	return s
}

// takeSnapshot is called when the sync of everything up to an LSN begins. If a checkpoint is due,
// it is made of the state there.
func (s *checkpointer) takeSnapshot(at event.LSN) {
	if s.state != nil {
		return
	}
	if due, late := s.due(at); due && s.memory.Take(checkpointMemory, s.copies, late) {
		s.at, s.state = at, s.index.Snapshot()
	}
}

// committed is called when that sync has ended: a checkpoint may only contain what is synced.
func (s *checkpointer) committed() {
	if s.state != nil {
		s.save(s.at, s.state)
		s.state = nil
	}
}

// due reports whether to make a checkpoint of the state at an LSN, and whether it has waited for
// memory long enough.
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

// estimateSize returns about how large the state is now, if messages have been removed since it was
// encoded. A small checkpoint frees what they take on the disk, and it may be long before there is
// more log.
func (s *checkpointer) estimateSize() int64 {
	const few = 1024 // messages whose size does not matter
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

// save writes a checkpoint of the state at a committed LSN, and closes the snapshot.
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
			if v := recover(); v != nil { // it only read, and its input is never changed
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

// wait waits until the current save has ended, and gives up one that waits for a sync.
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

// writeLast writes a checkpoint at a clean stop, if there is anything new.
func (s *checkpointer) writeLast(at event.LSN) {
	if s.every > 0 && at > s.newest {
		s.memory.Take(checkpointMemory, 0, true)
		s.write(at, s.index.Snapshot())
	}
}

// yieldingWriter lets other goroutines run after each write. To make and process one write takes
// half a millisecond, and otherwise the scheduler would make the loop wait for 10 ms. The writer
// also measures the cost of the snapshot by then.
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
