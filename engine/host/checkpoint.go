package host

import (
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	// defaultCheckpointBytes is how much log is written at least between two checkpoints.
	defaultCheckpointBytes = 512 << 20
	// checkpointRatio is how many times the size of the last checkpoint that must be at least, so that checkpoints of a
	// large state stay a small part of what is written.
	checkpointRatio = 16
)

// saver decides when a checkpoint is made, and encodes and writes it beside the loop, which only takes a snapshot. A checkpoint is never
// the truth: when one cannot be written the next start is slower and nothing else.
type saver struct {
	plog   log.Checkpoints
	index  *index.Index
	logger *slog.Logger
	memory memory
	every  int64 // bytes of log; negative: never
	inline bool
	newest event.LSN
	state  *index.Snapshot // that of the group being synced, when a checkpoint is to be made of it; else nil
	at     event.LSN       // and where that ends
	busy   chan struct{}   // closed when the save that runs is over; nil when none was ever started
	size   int64           // of the last state encoded; of the save that runs, while one does
}

func newSaver(plog log.Checkpoints, x *index.Index, opts LoopOptions) saver {
	s := saver{plog: plog, index: x, logger: opts.Logger, memory: opts.NoMemory, every: opts.CheckpointBytes, inline: opts.Inline}
	if s.every == 0 {
		s.every = defaultCheckpointBytes
	}
	if cs := plog.Checkpoints(); len(cs) > 0 {
		s.newest = cs[0].LSN
	}
	return s
}

// sealed is called when the sync of everything up to an LSN begins: the state there is what a checkpoint is made of.
func (s *saver) sealed(at event.LSN) {
	if s.state == nil && s.due(at) {
		s.at, s.state = at, s.index.Snapshot()
	}
}

// landed is called when that sync is over: only what is synced may be in a checkpoint.
func (s *saver) landed() {
	if s.state != nil {
		s.save(s.at, s.state)
		s.state = nil
	}
}

// due tells whether a checkpoint should be made of the state at an LSN.
func (s *saver) due(at event.LSN) bool {
	if s.memory.refuses(growth) != nil {
		return false // what changes meanwhile would be there twice
	}
	return s.every > 0 && int64(at-s.newest) >= s.every && !s.running() && int64(at-s.newest) >= checkpointRatio*s.size
}

func (s *saver) running() bool {
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
func (s *saver) save(at event.LSN, state *index.Snapshot) {
	s.newest = at
	if s.inline {
		s.write(at, state)
		return
	}
	s.busy = make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		defer func() {
			if v := recover(); v != nil { // it only read, what nobody changes
				s.logger.Error("checkpoint writer panicked; the next start replays more", "lsn", at, "panic", v, "stack", string(debug.Stack()))
			}
		}()
		s.write(at, state)
	}(s.busy)
}

func (s *saver) write(at event.LSN, state *index.Snapshot) {
	defer state.Close()
	err := s.plog.SaveCheckpoint(at, func(w io.Writer) error {
		size, err := state.Encode(considerate{w})
		if err == nil {
			s.size = size
		}
		return err
	})
	if err != nil {
		s.logger.Warn("checkpoint not written; the next start replays more", "lsn", at, "error", err)
	}
}

// considerate lets other goroutines run after each write: what comes in one write takes half a millisecond to make and to take in, and the
// scheduler would let the loop wait for 10 ms.
type considerate struct{ io.Writer }

func (c considerate) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	runtime.Gosched()
	return n, err
}

func (s *saver) wait() {
	if s.busy != nil {
		<-s.busy
	}
}

// last writes a checkpoint at a clean stop, when there is anything new to save.
func (s *saver) last(at event.LSN) {
	if s.every > 0 && at > s.newest {
		s.write(at, s.index.Snapshot())
	}
}
