package ledger

import (
	"context"
	"io"
	"iter"
	"runtime"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// stateFactor is the approximate number of bytes of memory for one byte of a stored state,
// including the encoded bytes that are read first.
const stateFactor = 3

// lookEvery is the number of frames after which the memory level is checked again.
const lookEvery = 256

// A lowPriorityLog is a log that is read only while memory suffices, and that yields the processor
// to everything else.
type lowPriorityLog struct {
	log.Partition
	log.Finder
	log.Bases
	from *source
	// refused is set when there was no memory for a state. A replay from an older one would need as
	// much.
	refused bool
}

// wholeLog replaces the indexes or the base that a log does not have: each search returns the
// whole log.
type wholeLog struct {
	log.Partition
	log.Bases
}

// Find implements [log.Finder].
func (e wholeLog) Find(log.Search) ([]log.Stretch, error) {
	first, end := e.Partition.Bounds()
	return []log.Stretch{{From: first, To: end}}, nil
}

// Base implements [log.Bases].
func (wholeLog) Base() (log.BaseInfo, bool) { return log.BaseInfo{}, false }

func newLowPriorityLog(p log.Partition, from *source) *lowPriorityLog {
	s := &lowPriorityLog{Partition: p, from: from}
	var ok bool
	if s.Finder, ok = p.(log.Finder); !ok {
		s.Finder = wholeLog{Partition: p}
	}
	if s.Bases, ok = p.(log.Bases); !ok {
		s.Bases = wholeLog{Partition: p}
	}
	return s
}

// Read implements [log.Reader].
func (s *lowPriorityLog) Read(ctx context.Context, from event.LSN) iter.Seq2[log.Frame, error] {
	return func(yield func(log.Frame, error) bool) {
		if s.refused {
			yield(log.Frame{}, errMemory)
			return
		}
		n := 0
		for f, err := range s.Partition.Read(ctx, from) {
			if n++; n%lookEvery == 0 && err == nil && s.from.share.Level() > budget.Enough {
				yield(log.Frame{}, errMemory)
				return
			}
			runtime.Gosched() // lets a waiting loop have the processor
			if !yield(f, err) {
				return
			}
			s.from.rest(ctx, len(f.Records))
		}
	}
}

// Volumes implements [log.Sizer].
func (s *lowPriorityLog) Volumes(ctx context.Context, from, until event.Time, each func(log.Volume) error) error {
	return log.Volumes(ctx, s.Partition, from, until, each)
}

// OpenCheckpoint implements [log.Checkpoints].
func (s *lowPriorityLog) OpenCheckpoint(at event.LSN) (io.ReadCloser, error) {
	for _, c := range s.Checkpoints() {
		if c.LSN == at && !s.take(c.Size) {
			return nil, errMemory
		}
	}
	return s.Partition.OpenCheckpoint(at)
}

// OpenBase implements [log.Bases].
func (s *lowPriorityLog) OpenBase() (io.ReadCloser, error) {
	if b, ok := s.Base(); ok && !s.take(b.Size) {
		return nil, errMemory
	}
	return s.Bases.OpenBase()
}

// take reserves memory for a state of that many stored bytes. It is freed once the question has
// been answered.
func (s *lowPriorityLog) take(stored int64) bool {
	s.refused = s.refused || !s.from.share.Take(int(stored)*stateFactor)
	return !s.refused
}
