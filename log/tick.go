package log

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// tick does the work of each second, see [ManualWriter.Tick].
func (w *writer) tick() {
	w.mu.Lock()
	if w.err != nil || w.closed {
		w.mu.Unlock()
		return
	}
	w.wanted = max(w.wanted, w.writ.LSN)
	if w.appends != w.seen {
		w.seen = w.appends
	} else if w.dirty && !w.placed {
		b := newBatch(w.where, Skip)
		b.lsn, b.level = w.next, Durable
		w.next += event.LSN(b.Len())
		w.wanted = w.next
		w.queue = append(w.queue, queuedBatch{Batch: b})
		w.dirty = false
	}
	w.mu.Unlock()
	w.p.store.reserve.look()
	w.p.store.blocks.spare()
	w.short.tryAgain()
	poke(w.wake)
	if err := w.note(); err != nil {
		w.fail(fmt.Errorf("progress note: %w", err))
	}
}

// note writes how far the log is durable, if that has changed.
func (w *writer) note() error {
	w.noting.Lock()
	defer w.noting.Unlock()
	w.mu.Lock()
	m, err := w.synced, w.err
	w.mu.Unlock()
	if err != nil || m.LSN <= w.p.noted {
		return nil
	}
	w.calls[notes].begin()
	defer w.calls[notes].end()
	err = w.progress.Put(format.Progress.Encode(w.p.id, w.p.store.tag, m))
	if disk.OutOfDescriptors(err) || errors.Is(err, disk.ErrNoRoom) {
		return nil // the old note stays; the next one follows in a second
	}
	if err != nil {
		return err
	}
	w.p.noted = m.LSN
	return nil
}
