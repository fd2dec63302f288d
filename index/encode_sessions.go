package index

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	flagHeld  = 1 << 0
	flagState = 1 << 1
)

// encode appends the sessions of a slice by id. Rows name a session by its place in that order, from 1 on: those
// are the ordinals by slot. Which messages belong to a session follows from the rows.
func (t *sessions) encode(dst []byte, locks *lockTable) ([]byte, []uint64) {
	if t == nil {
		return append(dst, 0, 0), nil
	}
	dst = binary.AppendUvarint(dst, t.tickets)
	dst = binary.AppendUvarint(dst, uint64(len(t.byID)))
	ordinals, ordinal := make([]uint64, len(t.table)), uint64(0)
	for s := range t.order.all {
		ordinal++
		ordinals[t.byID[s.id]] = ordinal
		dst = appendText(dst, s.id)
		var flags byte
		if s.lock != 0 {
			flags |= flagHeld
		}
		if s.set {
			flags |= flagState
		}
		dst = append(dst, flags)
		dst = binary.AppendUvarint(dst, s.ticket)
		if s.lock != 0 {
			l := locks.at(s.lock)
			dst = append(dst, l.token[:]...)
			dst = binary.AppendUvarint(dst, uint64(l.until))
		}
		if s.set {
			dst = appendBlob(dst, s.state)
			dst = binary.AppendUvarint(dst, uint64(s.setAt))
		}
	}
	return dst, ordinals
}

// encodeHistory appends the duplicate history in the order in which it came about.
func encodeHistory(dst []byte, h *history) []byte {
	if h == nil || mutant.On(mutant.ForgetDuplicates) {
		return append(dst, 0)
	}
	n := uint64(0)
	for range h.entries {
		n++
	}
	dst = binary.AppendUvarint(dst, n)
	for k, s := range h.entries {
		dst = append(dst, k[:]...)
		dst = binary.AppendUvarint(dst, uint64(s.until))
		dst = binary.AppendUvarint(dst, uint64(s.original))
	}
	return dst
}

// sessions reads what encode wrote and returns how many there are: slots are the ordinals.
func (d *decoding) sessions(s *slice) uint64 {
	tickets := d.number(math.MaxUint64)
	n := d.number(uint64(len(d.src)))
	if tickets == 0 && n == 0 {
		return 0
	}
	t := newSessions(&s.rows)
	t.tickets, s.sessions = tickets, t
	before := ""
	for i := uint64(0); i < n && d.err == nil; i++ {
		id := d.text()
		if i > 0 && id <= before {
			d.fail("session %q after %q", id, before)
			return 0
		}
		before = id
		slot := t.slot([]byte(id))
		ses := t.table[slot]
		flags := d.byte()
		if flags > flagHeld|flagState {
			d.fail("session %q: flags %#x", id, flags)
		}
		ses.ticket = d.number(tickets)
		if flags&flagHeld != 0 {
			l := lock{slice: s.id, session: slot}
			copy(l.token[:], d.take(16))
			l.until = event.Time(d.number(uint64(event.EndOfTime)))
			if _, twice := s.shared.locks.byTok[l.token]; twice || d.err != nil || l.until == 0 {
				d.fail("lock of session %q", id)
				return 0
			}
			ses.lock = s.shared.locks.add(l)
		}
		if flags&flagState != 0 {
			ses.set, ses.state = true, d.blob()
			ses.setAt = event.Time(d.number(uint64(event.EndOfTime)))
			s.addBytes(int64(ses.state.Size))
		}
	}
	return n
}

func (d *decoding) history(s *slice) {
	n := d.number(uint64(len(d.src)))
	if n == 0 {
		return
	}
	s.history = newHistory()
	for ; n > 0 && d.err == nil; n-- {
		var k idKey
		copy(k[:], d.take(uint64(len(k))))
		e := seen{event.Time(d.number(uint64(event.EndOfTime))), event.SequenceNumber(d.number(math.MaxUint64))}
		if _, twice := s.history.byKey[k]; twice {
			d.fail("message id %x twice", k)
		}
		s.history.byKey[k] = e
		s.history.order = append(s.history.order, entry{k, e.until})
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
		if (ses.ticket != 0) != (ses.lock == 0 && ses.active > 0) || ses.lock == 0 && !ses.set && len(ses.members) == 0 ||
			ses.lock == 0 && ses.locked > 0 {
			d.fail("session %q", ses.id)
			return
		}
		ses.count()
		if ses.ticket != 0 {
			t.waiting = append(t.waiting, waiting{uint32(n), ses.ticket})
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
