package index

import (
	"cmp"
	"math"
	"slices"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	flagHeld  = 1 << 0
	flagState = 1 << 1
)

// sessions appends the sessions of a slice by id. Rows name a session by its place in that order, from 1 on: those
// are the ordinals by slot. Which messages belong to a session follows from the rows.
func (e *encoding) sessions(t *keptSessions) (ordinals []uint32) {
	if t == nil {
		e.dst = append(e.dst, 0, 0)
		return nil
	}
	e.number(t.tickets)
	e.number(uint64(t.count))
	ordinals = make([]uint32, t.records.end)
	for i, slot := range t.sorted() {
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

// history appends the duplicate history in the order in which it came about.
func (e *encoding) history(h *keptHistory) {
	if h == nil || mutant.On(mutant.ForgetDuplicates) {
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

// sessions reads what the sessions were written as and returns how many there are: slots are the ordinals.
func (d *decoding) sessions(s *slice) uint64 {
	tickets := d.number(math.MaxUint64)
	n := d.number(uint64(len(d.src)))
	if tickets == 0 && n == 0 {
		return 0
	}
	t := newSessions(s)
	s.names.tickets, s.sessions = tickets, t
	before := ""
	for i := uint64(0); i < n && d.err == nil; i++ {
		id := d.text()
		if i > 0 && id <= before {
			d.fail("session %q after %q", id, before)
			return 0
		}
		before = id
		slot := t.slot([]byte(id))
		r := t.edit(slot)
		flags := d.byte()
		if flags > flagHeld|flagState {
			d.fail("session %q: flags %#x", id, flags)
		}
		r.ticket = d.number(tickets)
		if flags&flagHeld != 0 {
			l := lock{slice: s.id, session: slot}
			copy(l.token[:], d.take(16))
			l.until = event.Time(d.number(uint64(event.EndOfTime)))
			if s.shared.locks.find(l.token) != 0 || d.err != nil || l.until == 0 {
				d.fail("lock of session %q", id)
				return 0
			}
			r.lock = s.shared.locks.add(l)
		}
		if flags&flagState != 0 {
			r.set, r.state = true, bodyOf(d.blob())
			t.table[slot].set = true
			r.setAt = event.Time(d.number(uint64(event.EndOfTime)))
			s.addBytes(int64(r.state.size))
		}
	}
	return n
}

func (d *decoding) history(s *slice) {
	n := d.number(uint64(len(d.src)))
	if n == 0 {
		return
	}
	s.history = newHistory(s)
	for ; n > 0 && d.err == nil; n-- {
		var k idKey
		copy(k[:], d.take(uint64(len(k))))
		e := seen{k, event.Time(d.atLeastOne(uint64(event.EndOfTime))), event.SequenceNumber(d.number(math.MaxUint64))}
		if _, twice := s.history.byKey[k]; twice {
			d.fail("message id %x twice", k)
		}
		s.history.enter(e)
	}
}

// waiting makes the row of the sessions that wait, and checks that they are those that should.
func (d *decoding) waiting(s *slice) {
	t := s.sessions
	if t == nil {
		return
	}
	for n, ses := range t.table {
		if ses == nil {
			continue
		}
		r := t.record(uint32(n))
		if (r.ticket != 0) != (r.lock == 0 && ses.active > 0) || r.lock == 0 && !r.set && len(ses.members) == 0 ||
			r.lock == 0 && ses.locked > 0 {
			d.fail("session %q", ses.id)
			return
		}
		ses.count()
		if r.ticket != 0 {
			t.waiting = append(t.waiting, waiting{uint32(n), r.ticket})
		}
	}
	slices.SortFunc(t.waiting, func(a, b waiting) int { return cmp.Compare(a.ticket, b.ticket) })
	for i := range t.waiting[min(1, len(t.waiting)):] {
		if t.waiting[i].ticket == t.waiting[i+1].ticket {
			d.fail("two sessions have one ticket")
			return
		}
	}
}
