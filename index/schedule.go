package index

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// scheduledEntry is the data of a scheduled message besides its row.
type scheduledEntry struct {
	slice    event.Slice
	sequence event.SequenceNumber
	at       event.Time
	ttl      time.Duration // the sender's own as sent; 0: none
}

// schedule finds scheduled messages by slot and by time. A snapshot sees the slots.
type schedule struct {
	slots[scheduledEntry]
	versions *versions
	// every slot in use, and perhaps some that no longer are; the first one is in use
	byAt heapOf[dueSlot]
	live int
}

func newSchedule(v *versions) schedule { return schedule{versions: v} }

func (t *schedule) add(s scheduledEntry) uint32 {
	slot := t.slots.add(t.versions, s)
	t.live++
	t.enter(slot)
	return slot
}

// enter adds a slot in use to the order of times.
func (t *schedule) enter(slot uint32) {
	s := t.at(slot)
	t.byAt.push(dueSlot{s.at, s.sequence, s.slice, slot})
}

func (t *schedule) remove(slot uint32) {
	t.slots.remove(t.versions, slot)
	if t.live--; t.live == 0 {
		t.byAt = nil
		if t.end > peak { // free its memory
			*t = newSchedule(t.versions)
		}
		return
	}
	if len(t.byAt) > 64 && len(t.byAt) > 4*t.live { // most of them cancelled
		kept := t.byAt[:0]
		for _, d := range t.byAt {
			if t.current(d) {
				kept = append(kept, d)
			}
		}
		t.byAt = kept
		t.byAt.order()
	}
	for !t.current(t.byAt[0]) {
		t.byAt.pop()
	}
}

func (t *schedule) current(d dueSlot) bool {
	s := t.at(d.slot)
	return s.sequence == d.sequence && s.slice == d.slice && s.at == d.at
}

// first returns the next one to become active: by time, then by number (semantics.md 7.6).
func (t *schedule) first() (scheduledEntry, bool) {
	if len(t.byAt) == 0 {
		return scheduledEntry{}, false
	}
	return *t.at(t.byAt[0].slot), true
}

type dueSlot struct {
	at       event.Time
	sequence event.SequenceNumber
	slice    event.Slice
	slot     uint32
}

func (d dueSlot) Before(o dueSlot) bool {
	return cmp.Or(cmp.Compare(d.at, o.at), cmp.Compare(d.sequence, o.sequence), compareSlices(d.slice, o.slice)) < 0
}

// schedule makes the row of a scheduled message.
func (s *slice) schedule(at event.Time, ev *event.MessageScheduled) {
	if ev.Reserved {
		takeReserved(s, ev.Sequence)
	} else {
		s.takeNumber(ev.Sequence)
	}
	arrivalsOf{s}.arrive(ev.Arrival, ev)
	r := row{
		position: ev.Body.Position, size: ev.Body.Size, sum: ev.Body.Sum, enqueuedAt: at,
		marks: in(event.Main, Scheduled).with(ownTTL, ev.TimeToLive != 0),
		lock:  s.shared.schedule.add(scheduledEntry{ev.Slice, ev.Sequence, ev.ScheduledFor, ev.TimeToLive}),
	}
	if ev.InSession {
		r.session = s.session(ev.SessionID)
	}
	if ev.Arrival != nil {
		r.marks = r.marks.moves(ev.Arrival.Hops)
	}
	s.store(ev.Sequence, r)
	if ev.Arrival != nil {
		along := arrivalDetails(ev.Arrival)
		along.give(s, ev.Sequence)
	}
	if ev.DuplicateUntil != 0 {
		s.remember(at, ev.Identity(), acceptedID{until: ev.DuplicateUntil, original: ev.Sequence})
	}
}

// activate gives a scheduled message its new number.
func (s *slice) activate(ev *event.ScheduledActivated) {
	old := s.must(ev.Sequence, ev)
	if old.marks.state() != Scheduled {
		panic(fmt.Sprintf("index: %T of message %d in slice %v, which is %v", ev, ev.Sequence, ev.Slice, old.marks.state()))
	}
	s.takeNumber(ev.NewSequence)
	r, along := *old, s.rows.find(ev.Sequence).moveDetails()
	s.shared.schedule.remove(r.lock)
	r.lock = 0
	r.enqueuedAt, r.expiresAt = ev.EnqueuedAt, ev.ExpiresAt
	r.marks = (r.marks.withState(event.Main, Active) | wasScheduled).with(ownTTL, ev.TimeToLive != 0)
	// before the old one is removed: the session must not vanish in between
	s.store(ev.NewSequence, r)
	along.give(s, ev.NewSequence)
	s.remove(ev.Sequence, s.must(ev.Sequence, ev))
}

func (s *slice) cancel(ev *event.ScheduleCancelled) {
	r := s.must(ev.Sequence, ev)
	s.shared.schedule.remove(r.lock)
	s.remove(ev.Sequence, r)
}
