package log

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// This file handles a disk without room for a frame, or for the frame's file (docs/decisions/0039).
// The frame was decided on and applied, and others may follow from it, so it cannot be taken back.
// It has not been acknowledged either. So it stays at the head of the queue, and the part of it
// that got into the file is cut off durably. The reserve makes room, and the frame is written as it
// was sealed. When the reserve is empty, the frame waits and is tried once a second. Meanwhile
// frames that are written are synced and answered.

// roomState is what the writer knows about room for the first batch of the queue.
type roomState uint8

const (
	roomFound   roomState = iota
	roomMissing           // there was no room; the reserve has not been asked
	roomAwaited           // the reserve has no room either
)

// sealedFrame is a frame as it is written to the log.
type sealedFrame struct {
	head  format.Header
	entry []byte // nil: there is none
}

// seal makes the frame of a batch. A second attempt to write it writes the same bytes.
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

// shortage is the part of a writer that handles a disk without room.
type shortage struct {
	w     *writer // set once in newWriter
	stuck bool    // the reserve counts this writer as waiting; guarded by the writer's io
}

// putBack puts a batch that found no room back at the head of the queue.
func (s *shortage) putBack(b queuedBatch) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil { // the writer failed meanwhile
		if b.ticket != nil {
			b.ticket.complete(w.err)
		}
		return
	}
	w.queue = append([]queuedBatch{b}, w.queue...)
	w.room = roomMissing
	poke(w.wake)
}

// find repairs the file after a batch found no room, and asks the reserve for room. The caller
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

// tryAgain makes the writer try a batch again that waits for room.
func (s *shortage) tryAgain() {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room == roomAwaited {
		w.room = roomFound
	}
}

// noteWritten notes that a frame was written, so there is room. The caller holds io.
func (s *shortage) noteWritten() {
	w := s.w
	if s.stuck {
		s.stuck = false
		w.p.store.reserve.wait(-1)
	}
}

// finish does the remaining work of a writer that is being closed. A frame that has just found no
// room is written once more, after the reserve was asked.
func (s *shortage) finish() {
	for range 2 {
		s.tryAgain()
		for s.w.work() {
		}
	}
	s.giveUp()
}

// giveUp fails a writer that is being closed if there is still no room for its queue.
func (s *shortage) giveUp() {
	w := s.w
	w.mu.Lock()
	left := len(w.queue) > 0 && w.err == nil
	w.mu.Unlock()
	if left {
		_ = w.fail(fmt.Errorf("close: %w", disk.ErrNoRoom)) // Close returns the error
	}
	w.io.Lock()
	defer w.io.Unlock()
	s.noteWritten() // it does not wait any more
}

// insist repeats an action that fails for lack of room as long as the reserve has some. The caller
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

// mend cuts off the part of a frame that found no room. That can also fail for lack of room; then
// it is done before the frame is written again. The caller holds io.
func (s *shortage) mend() error {
	if s.w.tail == nil {
		return nil
	}
	return s.w.tail.mend()
}
