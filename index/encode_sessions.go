package index

import (
	"math"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	flagHeld  = 1 << 0
	flagState = 1 << 1
)

// sessions appends the sessions of a slice by id. Rows identify a session by its place in that
// order, from 1 on, which are the ordinals by slot. The messages of a session follow from the rows.
func (e *stateEncoder) sessions(t *keptSessions) (ordinals []uint32) {
	if t == nil {
		e.dst = append(e.dst, 0, 0)
		return nil
	}
	e.number(t.tickets)
	e.number(uint64(t.count))
	ordinals = make([]uint32, t.records.end)
	for i, slot := range t.sortedSlots() {
		ordinals[slot] = uint32(i + 1)
		r := t.records.at(slot)
		e.dst = appendText(e.dst, r.id)
		var flags byte
		if r.lock != 0 {
			flags |= flagHeld
		}
		if r.set {
			flags |= flagState
		}
		e.dst = append(e.dst, flags)
		e.number(r.ticket)
		if r.lock != 0 {
			e.dst = e.locks.at(r.lock).append(e.dst)
		}
		if r.set {
			e.dst = appendBody(e.dst, r.state)
			e.number(uint64(r.setAt))
		}
		e.piece()
	}
	return ordinals
}

// history appends the duplicate history, oldest entry first.
func (e *stateEncoder) history(h *keptHistory) {
	if h == nil {
		e.dst = append(e.dst, 0)
		return
	}
	e.number(uint64(h.count))
	for s := range h.entries {
		e.dst = append(e.dst, s.key[:]...)
		e.number(uint64(s.until))
		e.number(uint64(s.original))
		e.piece()
	}
}

// sessions reads the sessions of a slice; their ordinals become their slots.
func (d *stateDecoder) sessions(s sliceAssembly) {
	tickets := d.number(math.MaxUint64)
	n := d.number(uint64(len(d.src)))
	s.restoreTickets(tickets)
	for ; n > 0 && d.err == nil; n-- {
		r := event.RestoredSession{ID: []byte(d.text())}
		flags := d.byte()
		if flags > flagHeld|flagState {
			d.fail("session %q: flags %#x", r.ID, flags)
		}
		r.Ticket = d.number(tickets)
		if flags&flagHeld != 0 {
			if r.Lock = d.lock(); r.Lock.Until == 0 {
				d.fail("invalid lock of session %q", r.ID)
			}
		}
		if flags&flagState != 0 {
			r.Set, r.State, r.SetAt = true, d.body(), event.Time(d.number(uint64(event.EndOfTime)))
		}
		if d.err == nil {
			d.check(s.restoreSession(&r))
		}
	}
}

func (d *stateDecoder) history(s sliceAssembly) {
	for n := d.number(uint64(len(d.src))); n > 0 && d.err == nil; n-- {
		var k idKey
		copy(k[:], d.take(uint64(len(k))))
		e := event.RestoredID{Key: k, Until: event.Time(d.atLeastOne(uint64(event.EndOfTime))), Original: event.SequenceNumber(d.number(math.MaxUint64))}
		if d.err == nil {
			d.check(s.restoreID(&e))
		}
	}
}
