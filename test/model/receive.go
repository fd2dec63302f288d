package model

import "slices"

// first is the deliverable message with the smallest number (5.2), of any session or of one.
func (q *Queue) first(sub Sub, session *string) *Message {
	for _, m := range q.Live {
		if m.State == Active && m.Sub() == sub && (session == nil || m.Session == *session) {
			return m
		}
	}
	return nil
}

// Deliverable is what a receiver with credit would get of a sub-queue, or of one of its sessions;
// nil: nothing.
func (q *Queue) Deliverable(sub Sub, session *string) *Message { return q.first(sub, session) }

// Next is the message a receiver with credit gets now, or nil. What has expired in front of it is
// ended first, up to [MaxFront] messages in a record. Again is true when so much has expired that
// others have their turn first.
func (p *Partition) Next(now int64, q *Queue, sub Sub) (m *Message, again bool) {
	if q.Settings.NoReceive || q.Dropped {
		return nil, false
	}
	for p.clearFront(now, q, sub, nil) {
		if p.spent() {
			return nil, true
		}
	}
	return q.first(sub, nil), false
}

// clearFront ends expired messages in front of the first that a receiver can get, of any session or
// of one: a record for [MaxFront] of them. It reports whether there were any.
func (p *Partition) clearFront(now int64, q *Queue, sub Sub, session *string) bool {
	m := q.first(sub, session)
	if m == nil || !m.expired(now) {
		return false
	}
	p.record(now, true)
	for n := 0; n < MaxFront && m != nil && m.expired(now); n++ {
		p.expire(q, m, 0)
		m = q.first(sub, session)
	}
	return true
}

// How much one step of a sweep looks at, and ends.
const (
	sweepLooks = 8192
	sweepEnds  = 1024
)

// Sweep is a search for what has expired anywhere in a main queue (7.4).
type Sweep struct {
	next    uint64 // message to look at
	Soonest int64  // when the first of those that are left expires; 0: none does
}

// Sweep takes a step of a search, one record, and reports whether there is nothing more to look at.
func (p *Partition) Sweep(now int64, q *Queue, s *Sweep) (done bool) {
	looks, ends := 0, 0
	for _, m := range slices.Clone(q.Live) {
		if !m.waits() || m.Seq < s.next {
			continue
		}
		if looks == sweepLooks || ends == sweepEnds {
			return false
		}
		looks++
		s.next = m.Seq + 1
		switch {
		case m.expired(now):
			if ends++; ends == 1 {
				p.record(now, true)
			}
			p.expire(q, m, 0)
		case m.ExpiresAt != 0 && (s.Soonest == 0 || m.ExpiresAt < s.Soonest):
			s.Soonest = m.ExpiresAt
		}
	}
	return true
}

// expire is what the end of a time to live does (7.5), to a message with that many bytes beside its
// body, as far as the broker knows.
func (p *Partition) expire(q *Queue, m *Message, header int) {
	p.cleared(q)
	if q.Settings.DeadLetterExpired {
		p.deadLetter(q, m, header, "TTLExpiredException", "The message expired and was dead lettered.")
		return
	}
	p.remove(q, m.Seq, Expired)
}

// cleared notes that messages have gone that nobody need have received: those behind them are the
// next.
func (p *Partition) cleared(q *Queue) {
	before := q.Cleared
	p.changing(func() { q.Cleared = before })
	q.Cleared = p.Records
}

// deadLetter moves a message to the dead-letter queue for a reason of the broker's (9.2).
func (p *Partition) deadLetter(q *Queue, m *Message, header int, reason, description string) {
	p.bury(q, m.Seq, p.told(m.room(header), reason, description))
}

func (p *Partition) bury(q *Queue, seq uint64, changes []byte) {
	m := p.touch(q, seq)
	m.State, m.Dead, m.Token, m.Until = Active, true, Token{}, 0
	m.change(changes)
	p.settled(q, m.Session)
	p.tell(q, Returned, m)
}

func (m *Message) change(c []byte) {
	if len(c) > 0 {
		m.Changes = append(slices.Clip(m.Changes), c)
	}
}

// Take hands a message out for good (receive-and-delete).
func (p *Partition) Take(now int64, q *Queue, seq uint64) {
	p.record(now, true)
	p.remove(q, seq, ReceivedAndDeleted)
}

// Peek shows what is in a sub-queue from a number on, at most count, ending before limit bytes are
// passed (14.2): of all sessions or of one.
func (q *Queue) Peek(sub Sub, session *string, from uint64, count, limit int) (found []*Message, r Refusal) {
	if q.Settings.NoReceive {
		return nil, Disabled
	}
	for _, m := range q.Live {
		if m.Sub() != sub || m.State == Transferring && sub == Main || m.Seq < from || session != nil && !m.in(*session) {
			continue
		}
		limit -= len(m.Body)
		for _, c := range m.Changes {
			limit -= len(c)
		}
		if len(found) == count || limit < 0 && len(found) > 0 {
			break
		}
		found = append(found, m)
	}
	return found, Accepted
}

// Purge is batch delete: up to count active messages enqueued before a time go, the oldest first
// (14.3).
func (p *Partition) Purge(now int64, q *Queue, sub Sub, session *string, count int, before int64) (n int, r Refusal) {
	if q.Settings.NoReceive {
		return 0, Disabled
	}
	if before == 0 {
		before = now
	}
	for _, m := range slices.Clone(q.Live) {
		if n == min(count, MaxPurge) {
			break
		}
		if m.State == Active && m.Sub() == sub && m.EnqueuedAt < before && (session == nil || m.in(*session)) {
			if n++; n == 1 {
				p.record(now, true)
				p.cleared(q)
			}
			p.remove(q, m.Seq, Purged)
		}
	}
	return n, Accepted
}
