package index

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Message is what the index knows of a live message.
type Message struct {
	Sequence     event.SequenceNumber
	State        State
	SubQueue     event.SubQueue
	EnqueuedAt   event.Time
	ExpiresAt    event.Time // 0: never
	OwnTTL       bool       // the sender gave a time to live: ExpiresAt - EnqueuedAt is it
	WasScheduled bool       // it was scheduled before it became active
	// of a locked message: when its lock ends, or that of the session it is locked under
	LockedUntil   event.Time
	DeliveryCount uint32 // failed deliveries
	Body          event.Blob
	Changes       []event.Blob // property changes, oldest first; not to be changed
	InSession     bool         // it belongs to the session of SessionID
	SessionID     string
	ScheduledFor  event.Time    // of a scheduled message
	TimeToLive    time.Duration // of a scheduled message: the sender's own, 0 for none
	// EnqueuedSequence is the number that the message had in the topic or entity that it was sent
	// to first; 0 for a message that was sent here.
	EnqueuedSequence event.SequenceNumber
	Hops             uint8 // how many times it has moved
	// path of the entity out of whose dead-letter queue it came here; "": of none
	DeadLetterSource string
	Stays            bool // it is in the dead-letter queue and is not forwarded from there
}

// Lock is a peek-lock or a session lock as stored; it may have ended by time without an event
// saying so yet.
type Lock struct {
	Token    event.LockToken
	Slice    event.Slice
	Sequence event.SequenceNumber // 0: of a session
	Session  string               // id of the session it is the lock of
	Until    event.Time           // 0: of a message that is locked as long as its session
	Held     bool                 // by [Index.Hold]
}

// OfSession reports whether it is the lock of a session.
func (l *Lock) OfSession() bool { return l.Sequence == 0 }

// LastAt is the time of the newest record applied.
func (x *Index) LastAt() event.Time { return x.lastAt }

// NextOrigin is the number of the next origin to be defined.
func (x *Index) NextOrigin() event.OriginID { return x.nextOrigin }

// NextSequence is the sequence number of the next message of a slice.
func (x *Index) NextSequence(id event.Slice) event.SequenceNumber {
	s := x.slices.find(id)
	if s == nil {
		before, _ := id.Numbers()
		return before + 1
	}
	return s.last + 1
}

// Bytes is the size of all live messages of a slice, sub-queues, property changes and session
// states included; of a topic also those of its subscriptions (semantics.md 16.3).
func (x *Index) Bytes(id event.Slice) int64 {
	if s := x.slices.find(id); s != nil {
		return s.bytes + s.owned
	}
	return 0
}

// Count is the number of messages of a sub-queue in a state.
func (x *Index) Count(id event.Slice, q event.SubQueue, st State) int {
	if s := x.slices.find(id); s != nil {
		return int(s.count[q][st])
	}
	return 0
}

// Scheduled is the number of messages of a slice that are to become active.
func (x *Index) Scheduled(id event.Slice) int { return x.Count(id, event.Main, Scheduled) }

// Live is the number of messages there are, in all slices.
func (x *Index) Live() (n int) {
	for _, s := range x.slices.byID {
		n += s.live()
	}
	return n
}

// First is the deliverable message with the smallest sequence number.
func (x *Index) First(id event.Slice, q event.SubQueue) (Message, bool) {
	s := x.slices.find(id)
	if s == nil {
		return Message{}, false
	}
	seq, ok := s.members[q][Active].first()
	if stays, also := s.members[q][staying].first(); also && (!ok || stays < seq) {
		seq, ok = stays, true
	}
	if !ok {
		return Message{}, false
	}
	return s.message(seq), true
}

// Message finds a live message.
func (x *Index) Message(id event.Slice, seq event.SequenceNumber) (Message, bool) {
	s := x.slices.find(id)
	if s == nil {
		return Message{}, false
	}
	p := s.rows.find(seq)
	if p.leaf == nil {
		return Message{}, false
	}
	return s.describe(p), true
}

// message is what is known of a live message.
func (s *slice) message(seq event.SequenceNumber) Message { return s.describe(s.rows.find(seq)) }

func (s *slice) describe(p place) Message {
	return s.keptSlice.describe(p, &s.shared.schedule.slots, &s.shared.locks.slots)
}

func (k *keptSlice) describe(p place, schedule *slots[scheduledEntry], locks *slots[lock]) Message {
	r := p.row()
	m := Message{
		Sequence: p.sequence(), State: r.marks.state(), SubQueue: r.marks.subQueue(),
		EnqueuedAt: r.enqueuedAt, ExpiresAt: r.expiresAt, OwnTTL: r.marks.has(ownTTL), WasScheduled: r.marks.has(wasScheduled),
		DeliveryCount: r.count,
		Body:          event.Blob{Position: r.position, Size: r.size, Sum: r.sum},
	}
	if r.session != 0 {
		m.InSession, m.SessionID = true, k.names.records.at(r.session).id
	}
	switch m.State {
	case Scheduled:
		t := schedule.at(r.lock)
		m.ScheduledFor, m.TimeToLive = t.at, t.ttl
	case Locked, DeferredLocked:
		// it is locked as long as its session
		if m.LockedUntil = locks.at(r.lock).until; m.LockedUntil == 0 {
			m.LockedUntil = locks.at(k.names.records.at(r.session).lock).until
		}
	}
	if r.marks.has(changed) {
		m.Changes = p.changes()
	}
	m.EnqueuedSequence, m.DeadLetterSource = p.origin(), p.source()
	m.Hops, m.Stays = r.marks.hops(), r.marks.class() == staying
	return m
}

// Lock finds a lock by its token.
func (x *Index) Lock(token event.LockToken) (Lock, bool) {
	slot := x.shared.locks.find(token)
	if slot == 0 {
		return Lock{}, false
	}
	return x.slices.lock(slot), true
}

func (t *sliceTable) lock(slot uint32) Lock {
	l := t.shared.locks.at(slot)
	found := Lock{Token: l.token, Slice: l.slice, Sequence: l.sequence, Until: l.until, Held: t.shared.locks.held[slot] > 0}
	if l.sequence == 0 {
		found.Session = t.byID[l.slice].names.records.at(l.session).id
	}
	return found
}

// Locks is the number of locks there are, those of sessions included.
func (x *Index) Locks() int { return x.shared.locks.byToken.len() }

// LockDeadline is when [Index.Due] has something next; 0 is never.
func (x *Index) LockDeadline() event.Time {
	_, at := x.shared.locks.ends.first()
	return at
}

// NextDeadline is when [Index.Due] or [Index.DueScheduled] has something next; 0 is never.
func (x *Index) NextDeadline() event.Time {
	_, at := x.shared.locks.ends.first()
	if s, ok := x.shared.schedule.first(); ok && (at == 0 || s.at < at) {
		return s.at
	}
	return at
}

// ScheduledMessage is a message that is to become active.
type ScheduledMessage struct {
	Slice      event.Slice
	Sequence   event.SequenceNumber
	For        event.Time
	TimeToLive time.Duration // the sender's own as sent; 0: none
}

// DueScheduled is the message to become active next, if it is time for it.
func (x *Index) DueScheduled(now event.Time) (ScheduledMessage, bool) {
	s, ok := x.shared.schedule.first()
	if !ok || s.at > now {
		return ScheduledMessage{}, false
	}
	return ScheduledMessage{s.slice, s.sequence, s.at, s.ttl}, true
}

// Due returns the first locks that have ended at now, of the earliest bucket, at most limit of
// them, in the order in which they ended. The order of slots differs between a state that was
// replayed and one that was read from a checkpoint. It must not show (reliability.md P21), neither
// in the order of the result, nor in which locks are in it.
func (x *Index) Due(now event.Time, limit int) []Lock {
	ends := &x.shared.locks.ends
	b, at := ends.first()
	if b == nil || at > now {
		return nil
	}
	// full: out begins with the first limit of all locks seen so far
	out, full := make([]Lock, 0, min(2*limit, b.count)), false
	for slot := range ends.of(b) {
		l := x.slices.lock(slot)
		if full && compareEnds(l, out[limit-1]) > 0 {
			continue
		}
		if out = append(out, l); len(out) == 2*limit {
			slices.SortFunc(out, compareEnds)
			out, full = out[:limit], true
		}
	}
	slices.SortFunc(out, compareEnds)
	return out[:min(len(out), limit)]
}

// compareEnds orders locks by when they end, and those that end together in an order that is the
// same in every state that has them.
func compareEnds(a, b Lock) int {
	return cmp.Or(cmp.Compare(a.Until, b.Until), compareSlices(a.Slice, b.Slice), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Session, b.Session))
}

// BrowseActive yields the active messages of a sub-queue in sequence order.
func (x *Index) BrowseActive(id event.Slice, q event.SubQueue) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		s := x.slices.find(id)
		if s == nil {
			return
		}
		for c := s.members.active(q, 0); c.hasNext(); {
			if !yield(s.message(c.next())) {
				return
			}
		}
	}
}

// Browse yields the messages of a sub-queue in sequence order from a number on, in every state that
// clients are shown. Messages in transfer from the main queue are not shown.
func (x *Index) Browse(id event.Slice, q event.SubQueue, from event.SequenceNumber) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		s := x.slices.find(id)
		if s == nil {
			return
		}
		var cursors [classes]cursor
		for c := range cursors {
			if isShown(q, State(c)) {
				cursors[c] = s.members[q][c].from(from)
			}
		}
		for {
			var first *cursor
			for i := range cursors {
				if c := &cursors[i]; c.hasNext() && (first == nil || c.peek() < first.peek()) {
					first = c
				}
			}
			if first == nil || !yield(s.message(first.next())) {
				return
			}
		}
	}
}
