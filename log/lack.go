package log

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// What a writer does when the disk has no room for a frame, or for the file that it goes to
// (docs/decisions/0039). The frame was decided on and applied, others may follow from it: it cannot
// be taken back. Nobody was told of it either. So it stays at the head of the queue; what of it got
// into the file is cut off, durably; the reserve gives room, and it is written as it was sealed.
// When the reserve has nothing left it waits, and is tried once a second. What is written already
// is synced and answered meanwhile.

// roomState is what is known of room for the first batch of the queue.
type roomState uint8

const (
	roomFound   roomState = iota
	roomMissing           // there was none; the reserve has not been asked
	roomAwaited           // the reserve has none either
)

// sealedFrame is a frame as it goes into the log.
type sealedFrame struct {
	head  format.Header
	entry []byte // nil: there is none
}

// seal makes the frame of a batch. A second attempt at writing it writes the same bytes.
func (f *sealedFrame) seal(w *writer, b *Batch) {
	w.mu.Lock()
	f.head = format.Header{Partition: w.p.id, Tag: w.p.store.tag, Epoch: w.epoch, Chapter: w.chapter.ID, Durable: w.synced.LSN, Chain: w.writ.Chain}
	end := w.writ.LSN
	w.mu.Unlock()
	if b.lsn != end {
		panic(fmt.Sprintf("log: frame of LSN %d written at %d", b.lsn, end))
	}
	f.entry = b.Seal(&f.head)
}

// shortage is the part of a writer that copes with a disk without room.
type shortage struct {
	w     *writer // set once in newWriter
	stuck bool    // the reserve counts us among those who wait; guarded by the writer's io
}

// putBack puts a batch back to the head of the queue that found no room.
func (s *shortage) putBack(b queuedBatch) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil { // it failed while we were writing
		if b.ticket != nil {
			b.ticket.complete(w.err)
		}
		return
	}
	w.queue = append([]queuedBatch{b}, w.queue...)
	w.room = roomMissing
	poke(w.wake)
}

// find mends the file for a batch that found no room, and asks the reserve for some. The caller
// holds io.
func (s *shortage) find() error {
	w := s.w
	w.mu.Lock()
	asks := w.room == roomMissing && w.err == nil
	need := 0
	if asks {
		need = w.queue[0].Len()
	}
	w.mu.Unlock()
	if !asks {
		return nil
	}
	mended := s.mend()
	if mended != nil && !errors.Is(mended, disk.ErrNoRoom) {
		return fmt.Errorf("mend: %w", mended)
	}
	found := w.p.store.reserve.give(int64(need))
	if !found && !s.stuck {
		s.stuck = true
		w.p.store.reserve.wait(1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room = roomFound; !found {
		w.room = roomAwaited
	}
	return nil
}

// tryAgain has a batch that waits for room be written: there may be some now.
func (s *shortage) tryAgain() {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room == roomAwaited {
		w.room = roomFound
	}
}

// noteWritten notes that a frame was written: there is room. The caller holds io.
func (s *shortage) noteWritten() {
	w := s.w
	if s.stuck {
		s.stuck = false
		w.p.store.reserve.wait(-1)
	}
}

// finish has the writer that is being closed do what is left. A frame that has just found no room is
// written once more, when the reserve has been asked.
func (s *shortage) finish() {
	for range 2 {
		s.tryAgain()
		for s.w.work() {
		}
	}
	s.giveUp()
}

// giveUp fails the writer that is being closed if there is still no room for what was appended.
func (s *shortage) giveUp() {
	w := s.w
	w.mu.Lock()
	left := len(w.queue) > 0 && w.err == nil
	w.mu.Unlock()
	if left {
		_ = w.fail(fmt.Errorf("close: %w", disk.ErrNoRoom)) // Close says so
	}
	w.io.Lock()
	defer w.io.Unlock()
	s.noteWritten() // it does not wait any more
}

// insist repeats what fails for want of room as long as the reserve has some to give. The caller
// holds io.
func (s *shortage) insist(try func() error) error {
	w := s.w
	for {
		err := try()
		if !errors.Is(err, disk.ErrNoRoom) {
			return err
		}
		if err := s.mend(); err != nil && !errors.Is(err, disk.ErrNoRoom) {
			return err
		}
		if !w.p.store.reserve.give(0) {
			return err
		}
	}
}

// mend cuts off what the file has of a frame that found no room. That may find none either; then it
// is done before the frame is written again. The caller holds io.
func (s *shortage) mend() error {
	if s.w.tail == nil {
		return nil
	}
	return s.w.tail.mend()
}
