package index

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Message is the state of a live message.
type Message struct {
	Sequence     event.SequenceNumber
	State        State
	SubQueue     event.SubQueue
	EnqueuedAt   event.Time
	ExpiresAt    event.Time // 0: never
	OwnTTL       bool       // the sender set a time to live, which is ExpiresAt - EnqueuedAt
	WasScheduled bool       // it was scheduled before it became active
	// of a locked message: the end of its lock, or of the session lock above it
	LockedUntil   event.Time
	DeliveryCount uint32 // failed deliveries
	Body          event.Blob
	Changes       []event.Blob // property changes, oldest first; read-only
	InSession     bool         // it belongs to the session SessionID
	SessionID     string
	ScheduledFor  event.Time    // of a scheduled message
	TimeToLive    time.Duration // of a scheduled message: the sender's own, 0 for none
	// EnqueuedSequence is the message's number in the topic or entity where it was first sent; 0
	// for a message that was sent here.
	EnqueuedSequence event.SequenceNumber
	Hops             uint8 // number of moves
	// path of the entity from whose dead-letter queue it came here; "": of none
	DeadLetterSource string
	Stays            bool // it is in the dead-letter queue and is not forwarded from there
}

// Lock is a stored peek-lock or session lock. It may have ended by time without an event about it
// yet.
type Lock struct {
	Token    event.LockToken
	Slice    event.Slice
	Sequence event.SequenceNumber // 0: of a session
	Session  string               // id of the locked session
	Until    event.Time           // 0: of a message that is locked as long as its session
	Held     bool                 // by [Index.Hold]
}

// OfSession reports whether it is the lock of a session.
func (l *Lock) OfSession() bool { return l.Sequence == 0 }

// LastAt returns the time of the newest record applied.
func (x *Index) LastAt() event.Time { return x.lastAt }

// NextOrigin returns the number of the next origin.
func (x *Index) NextOrigin() event.OriginID { return x.nextOrigin }

// NextSequence returns the sequence number of the next message of a slice.
func (x *Index) NextSequence(id event.Slice) event.SequenceNumber {
	s := x.slices.find(id)
	if s == nil {
		before, _ := id.Numbers()
		return before + 1
	}
	return s.last + 1
}

// Bytes returns the size of all live messages of a slice, including sub-queues, property changes
// and session states. For a topic it includes its subscriptions (semantics.md 16.3).
func (x *Index) Bytes(id event.Slice) int64 {
	if s := x.slices.find(id); s != nil {
		return s.bytes + s.owned
	}
	return 0
}

// Count returns the number of messages of a sub-queue in a state.
func (x *Index) Count(id event.Slice, q event.SubQueue, st State) int {
	if s := x.slices.find(id); s != nil {
		return int(s.count[q][st])
	}
	return 0
}

// Scheduled returns the number of scheduled messages of a slice.
func (x *Index) Scheduled(id event.Slice) int { return x.Count(id, event.Main, Scheduled) }

// Live returns the number of live messages in all slices.
func (x *Index) Live() (n int) {
	for _, s := range x.slices.byID {
		n += s.live()
	}
	return n
}

// First returns the deliverable message with the smallest sequence number.
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

// message returns the state of a live message.
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

// Locks returns the number of locks, including those of sessions.
func (x *Index) Locks() int { return x.shared.locks.byToken.len() }

// LockDeadline returns when [Index.Due] next has a result; 0 is never.
func (x *Index) LockDeadline() event.Time {
	_, at := x.shared.locks.ends.first()
	return at
}

// NextDeadline returns when [Index.Due] or [Index.DueScheduled] next has a result; 0 is never.
func (x *Index) NextDeadline() event.Time {
	_, at := x.shared.locks.ends.first()
	if s, ok := x.shared.schedule.first(); ok && (at == 0 || s.at < at) {
		return s.at
	}
	return at
}

// ScheduledMessage is a message that will become active.
type ScheduledMessage struct {
	Slice      event.Slice
	Sequence   event.SequenceNumber
	For        event.Time
	TimeToLive time.Duration // the sender's own as sent; 0: none
}

// DueScheduled returns the next message to become active, if its time has come.
func (x *Index) DueScheduled(now event.Time) (ScheduledMessage, bool) {
	s, ok := x.shared.schedule.first()
	if !ok || s.at > now {
		return ScheduledMessage{}, false
	}
	return ScheduledMessage{s.slice, s.sequence, s.at, s.ttl}, true
}

// Due returns locks of the earliest bucket that have ended at now, at most limit of them, in the
// order in which they ended. The order of slots differs between a state that was replayed and one
// that was read from a checkpoint. Neither the order nor the selection of the result depends on it
// (reliability.md P21).
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

// compareEnds orders locks by their ends. Locks that end together are in an order that is the same
// in every state with these locks.
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
// is shown to clients. Messages in transfer from the main queue are not shown.
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
