package index

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// This file builds a state from its parts, from an encoding or from the events of a base. An
// inconsistent part is an error, after which the index must not be used. No snapshot of the index
// exists yet.

// indexAssembly is an index that is being built, sliceAssembly a slice of it.
type (
	indexAssembly struct{ *Index }
	sliceAssembly struct{ *slice }
)

// restoreEntity adds an entity. A topic comes before its subscriptions.
func (c *Catalogue) restoreEntity(e *Entity) error {
	if e.ID == 0 || e.ID > c.last || c.at(e.ID) != nil || !c.fits(e) {
		return fmt.Errorf("invalid entity %d", e.ID)
	}
	c.add(e, nil)
	return nil
}

// fits reports whether an entity can be added: its path is free, and it has a topic exactly if it
// is a subscription.
func (c *Catalogue) fits(e *Entity) bool {
	if _, twice := c.byPath[strings.ToLower(e.Path)]; twice {
		return false
	}
	switch e.Kind {
	case event.Queue, event.Topic:
		return e.Topic == 0
	case event.Subscription:
		t := c.at(e.Topic)
		return t != nil && t.Kind == event.Topic
	}
	return false
}

// restoreRule adds a rule of a subscription. Rules are sorted once, when all are there, because
// there may be very many.
func (c *Catalogue) restoreRule(e *Entity, is event.Rule) error {
	name := strings.ToLower(is.Name)
	if e.rules == nil || e.rules.byName[name] != nil {
		return fmt.Errorf("rule %q is a duplicate, or entity %d can have no rules", is.Name, e.ID)
	}
	r := &rule{is, c.versions.now}
	e.added = append(e.added, &r.Rule)
	e.rules.byName[name] = r
	c.countFilter(e, &r.Rule, 1)
	return nil
}

// restoreSlice makes a slice with the newest number it has given out. The slice of its topic, if
// any, already exists, because its number is smaller.
func (x indexAssembly) restoreSlice(id event.Slice, last event.SequenceNumber, topic event.EntityID) (s sliceAssembly, err error) {
	before, end := id.Numbers()
	if last < before || last > end || x.slices.byID[id] != nil {
		return s, fmt.Errorf("sequence number %d is not possible in slice %v, or the slice is a duplicate", last, id)
	}
	s.slice = newSlice(id, x.shared)
	s.last = last
	if topic != 0 {
		t := x.slices.byID[event.Slice{Entity: topic, Partition: id.Partition}]
		if t == nil || t.owner != nil {
			return s, fmt.Errorf("slice %v belongs to %d, which is not the slice of a topic", id, topic)
		}
		s.setOwner(t)
	}
	x.slices.add(s.slice)
	return s, nil
}

// restoreTickets sets how many tickets the sessions of a slice have been given.
func (s sliceAssembly) restoreTickets(n uint64) {
	if n > 0 {
		s.sessions = newSessions(s.slice)
		s.names.tickets = n
	}
}

// restoreSession adds a session after those with smaller ids, so that its slot is its ordinal.
func (s sliceAssembly) restoreSession(r *event.RestoredSession) error {
	if s.sessions == nil {
		s.sessions = newSessions(s.slice)
	}
	t := s.sessions
	if n := len(t.table); n > 0 && t.table[n-1].id >= string(r.ID) {
		return fmt.Errorf("session %q after %q", r.ID, t.table[n-1].id)
	}
	if r.Ticket > s.names.tickets {
		return fmt.Errorf("session %q has ticket %d of %d", r.ID, r.Ticket, s.names.tickets)
	}
	slot := t.slot(r.ID)
	is := t.edit(slot)
	is.ticket = r.Ticket
	if r.Lock != (event.RestoredLock{}) {
		if r.Lock.Until == 0 || s.shared.locks.find(r.Lock.Token) != 0 {
			return fmt.Errorf("invalid lock of session %q", r.ID)
		}
		is.lock = s.shared.locks.add(lock{slice: s.id, session: slot, token: r.Lock.Token, until: r.Lock.Until})
	}
	if r.Set {
		is.set, is.state, is.setAt = true, body{r.State.Position, r.State.Size, r.State.Sum}, r.SetAt
		t.table[slot].set = true
		s.addBytes(int64(r.State.Size))
	}
	return nil
}

// restoreID adds an entry to the duplicate history.
func (s sliceAssembly) restoreID(r *event.RestoredID) error {
	if s.history == nil {
		s.history = newHistory(s.slice)
	}
	if _, twice := s.history.byKey[r.Key]; twice || r.Until == 0 {
		return fmt.Errorf("message id %x is a duplicate or has no end", r.Key)
	}
	s.history.enter(acceptedID{r.Key, r.Until, r.Original})
	return nil
}

// restoreSource adds arrivals from a slice, or more of them.
func (s sliceAssembly) restoreSource(r *event.RestoredSource) error {
	if s.arrived == nil {
		s.arrived = &arrivals{made: s.made}
	}
	all := s.arrived.sources
	order := 1
	if n := len(all); n > 0 {
		order = compareSlices(r.Source, all[n-1].slice)
	}
	if order < 0 || order == 0 && r.Floor != all[len(all)-1].floor {
		return fmt.Errorf("arrivals from slice %v after %v", r.Source, all[len(all)-1].slice)
	}
	if order > 0 {
		s.arrived.sources = append(all, source{slice: r.Source, made: s.made, floor: r.Floor})
	}
	src := &s.arrived.sources[len(s.arrived.sources)-1]
	for _, n := range r.Numbers {
		if src.numbers == nil {
			src.numbers = roaring64.New()
		}
		if n < r.Floor || !src.numbers.IsEmpty() && uint64(n) <= src.numbers.Maximum() {
			return fmt.Errorf("invalid arrival of transfer %d", n)
		}
		src.numbers.Add(uint64(n))
	}
	return nil
}

// restoreRow adds a message. Its session already exists.
func (s sliceAssembly) restoreRow(r *event.RestoredRow) error {
	if err := s.fits(r); err != nil {
		return fmt.Errorf("message %d: %w", r.Sequence, err)
	}
	is := row{
		position: r.Body.Position, size: r.Body.Size, sum: r.Body.Sum,
		enqueuedAt: r.EnqueuedAt, expiresAt: r.ExpiresAt, count: r.DeliveryCount, session: r.Session,
		marks: in(r.SubQueue, State(r.State)).with(ownTTL, r.OwnTTL).with(wasScheduled, r.WasScheduled).with(stays, r.Stays).moves(r.Way.Hops),
	}
	switch State(r.State) {
	case Locked, DeferredLocked:
		is.lock = s.shared.locks.add(lock{slice: s.id, sequence: r.Sequence, token: r.Lock.Token, until: r.Lock.Until})
	case Scheduled:
		is.lock = s.shared.schedule.add(scheduledEntry{s.id, r.Sequence, r.ScheduledFor, r.TimeToLive})
	}
	at := s.rows.insert(&s.shared.versions, r.Sequence)
	*at = is
	s.addBytes(int64(is.size))
	s.enter(r.Sequence, is.marks)
	along := moveDetails{origin: r.Way.First, source: r.Way.DeadLetterSource}
	along.give(s.slice, r.Sequence)
	if is.session != 0 {
		s.sessions.addMessage(r.Sequence, at)
	}
	s.noteExpiry(at)
	for _, b := range r.Changes {
		s.change(r.Sequence, at, event.Blob{Position: b.Position, Size: b.Size, Sum: b.Sum})
	}
	if t := r.Transfer; t.Number != 0 {
		at.lock = departures(s).openTransfer(transfer{s.id, r.Sequence, t.Number, t.Destination, t.Trigger}, departures(s).storedBytes(r.Sequence, at))
	}
	return nil
}

// fits checks a message before any of it is stored.
func (s sliceAssembly) fits(r *event.RestoredRow) error {
	before, _ := s.id.Numbers()
	state, way := State(r.State), &r.Way
	switch {
	case r.Sequence <= before || r.Sequence > s.last || s.rows.find(r.Sequence).row() != nil:
		return fmt.Errorf("a duplicate, or not a number of slice %v, whose newest is %d", s.id, s.last)
	case state == Gone || int(state) >= states || int(r.SubQueue) >= subQueues,
		state == Scheduled && (r.SubQueue != event.Main || r.WasScheduled || way.First != 0 && way.Hops == 0),
		way.Hops > event.MaxHops || way.DeadLetterSource != "" && way.Hops == 0:
		return fmt.Errorf("invalid state %d, sub-queue %d or %d hops", r.State, r.SubQueue, way.Hops)
	case r.Session != 0 && (s.sessions == nil || int(r.Session) >= len(s.sessions.table)):
		return fmt.Errorf("unknown session %d", r.Session)
	case state != Scheduled && (r.ScheduledFor != 0 || r.TimeToLive != 0):
		return fmt.Errorf("unexpected schedule")
	case slices.ContainsFunc(r.Changes, func(b event.BodyRef) bool { return b.Size == 0 }):
		return fmt.Errorf("empty change")
	}
	return cmp.Or(s.fitsLock(r), s.fitsTransfer(r))
}

func (s sliceAssembly) fitsLock(r *event.RestoredRow) error {
	state := State(r.State)
	if state != Locked && state != DeferredLocked {
		if r.Lock != (event.RestoredLock{}) {
			return fmt.Errorf("unexpected lock")
		}
		return nil
	}
	held := r.Session != 0 && r.SubQueue == event.Main && s.sessions.record(r.Session).lock != 0
	if s.shared.locks.find(r.Lock.Token) != 0 || r.Lock.Until == 0 != held {
		return fmt.Errorf("invalid lock")
	}
	return nil
}

func (s sliceAssembly) fitsTransfer(r *event.RestoredRow) error {
	t := r.Transfer
	if State(r.State) != Transferring {
		if t != (event.RestoredTransfer{}) {
			return fmt.Errorf("unexpected transfer")
		}
		return nil
	}
	q := event.Main
	if t.Trigger == event.TriggerDeadLetter {
		q = event.DeadLetter
	}
	if t.Number == 0 || s.moving.find(t.Number) != 0 || t.Trigger == 0 || int(t.Trigger) >= triggers ||
		r.SubQueue != q || r.Stays || r.Way.Hops >= event.MaxHops {
		return fmt.Errorf("invalid transfer %d", t.Number)
	}
	return nil
}

// complete derives the data that follows from all parts together, and checks that they are
// consistent.
func (x indexAssembly) complete() error {
	for _, e := range x.Catalogue.kept.all() {
		if r := (*e).rules; r != nil {
			r.sorted = slices.Clone((*e).added)
			slices.SortFunc(r.sorted, byLowerName)
		}
	}
	for _, s := range x.slices.byID {
		if s.sessions != nil {
			if err := s.sessions.complete(); err != nil {
				return fmt.Errorf("slice %v: %w", s.id, err)
			}
		}
		if s.given == 0 && s.arrived != nil && len(s.arrived.sources) == 0 {
			return fmt.Errorf("empty moves of slice %v", s.id)
		}
	}
	for _, t := range x.shared.transfers.all() {
		if given := x.slices.byID[t.slice].given; t.number > given {
			return fmt.Errorf("transfer %d of slice %v, whose newest is %d", t.number, t.slice, given)
		}
	}
	return nil
}

// complete sorts the waiting sessions, and checks that exactly the right ones wait.
func (t *sessions) complete() error {
	for n, ses := range t.table {
		if ses == nil {
			continue
		}
		r := t.record(uint32(n))
		if (r.ticket != 0) != (r.lock == 0 && ses.active > 0) || r.lock == 0 && !r.set && len(ses.members) == 0 ||
			r.lock == 0 && ses.locked > 0 {
			return fmt.Errorf("session %q is inconsistent", ses.id)
		}
		ses.count()
		if r.ticket != 0 {
			t.waiting = append(t.waiting, waitingSession{uint32(n), r.ticket})
		}
	}
	slices.SortFunc(t.waiting, func(a, b waitingSession) int { return cmp.Compare(a.ticket, b.ticket) })
	for i := range t.waiting[min(1, len(t.waiting)):] {
		if t.waiting[i].ticket == t.waiting[i+1].ticket {
			return fmt.Errorf("two sessions have the same ticket")
		}
	}
	return nil
}
