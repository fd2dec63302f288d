package model

import (
	"cmp"
	"fmt"
	"slices"
)

// Lock hands a message out under a lock (6.1) and returns when that ends. In a session it lives as
// long as the session's.
func (p *Partition) Lock(now int64, q *Queue, seq uint64, token Token) int64 {
	p.record(now, false)
	return p.lock(now, q, seq, token)
}

func (p *Partition) lock(now int64, q *Queue, seq uint64, token Token) int64 {
	m := p.touch(q, seq)
	m.Token, m.Until = token, now+q.Settings.Lock
	if m.State = Locked; m.underSession(q) {
		m.Until = 0
	}
	p.settled(q, m.Session)
	return q.Until(m)
}

// underSession reports whether locks of the message are those of its session.
func (m *Message) underSession(q *Queue) bool { return q.Settings.Sessions && !m.Dead }

// Until is when a message's lock ends.
func (q *Queue) Until(m *Message) int64 {
	if m.locked() && m.Until == 0 {
		return q.Sessions[m.Session].Until
	}
	return m.Until
}

// Outcome is a way to settle.
type Outcome uint8

const (
	Complete Outcome = iota + 1
	Abandon
	Release
	Defer
	DeadLetter
)

// held finds the message of a live lock. A lock that has ended is noticed here, before anybody is
// answered (6.1).
func (p *Partition) held(now int64, q *Queue, sub Sub, t Token) *Message {
	i := slices.IndexFunc(q.Live, func(m *Message) bool { return m.locked() && m.Token == t && m.Sub() == sub })
	if i < 0 {
		return nil
	}
	m := q.Live[i]
	ends := t
	if m.underSession(q) {
		ends = q.Sessions[m.Session].Holder
	}
	if now < q.Until(m) || p.pinned(ends) {
		return m
	}
	p.record(now, true)
	if m.underSession(q) {
		p.endSession(now, q, m.Session, true)
	} else {
		p.failed(now, q, m.Seq, nil, 0)
	}
	return nil
}

// about notes what a refusal would be about.
func (p *Partition) about(q *Queue, t Token) {
	p.About = About{Token: t}
	if i := slices.IndexFunc(q.Live, func(m *Message) bool { return m.locked() && m.Token == t }); i >= 0 {
		p.About.Seq = q.Live[i].Seq
	}
}

// lost is how a token without a live lock is refused.
func (q *Queue) lost(sub Sub) Refusal {
	if q.Settings.Sessions && sub == Main {
		return SessionLost
	}
	return LockLost
}

// returned gives a message back: a deferred one stays deferred (14.1).
func (p *Partition) returned(q *Queue, seq uint64, failures uint32, changes []byte) *Message {
	m := p.touch(q, seq)
	if m.State == DeferredLocked {
		m.State = Deferred
	} else {
		m.State = Active
	}
	m.Token, m.Until = Token{}, 0
	m.change(changes)
	if !m.Dead { // frozen in a dead-letter queue (6.3)
		m.Count += failures
	}
	p.settled(q, m.Session)
	return m
}

// failed gives a message back after a failed delivery.
func (p *Partition) failed(now int64, q *Queue, seq uint64, changes []byte, header int) {
	m := p.returned(q, seq, 1, changes)
	p.tell(q, Returned, m)
	p.after(now, q, m, true, header)
}

// after is what follows when a message came back: it expires at once when its time has passed
// (7.4), or is dead-lettered when it failed once too often (6.4). A deferred one stays deferred
// even when it has expired (3.2), but expiry comes before the failure.
func (p *Partition) after(now int64, q *Queue, m *Message, failed bool, header int) {
	often := failed && m.Count >= q.Settings.MaxDelivery
	switch {
	case m.Dead, m.State == Deferred && !often:
	case m.expired(now):
		p.expire(q, m, header)
	case often:
		p.deadLetter(q, m, header, "MaxDeliveryCountExceeded",
			fmt.Sprintf("Message could not be consumed after %d delivery attempts.", m.Count))
	}
}

// Settle ends locks: those of all tokens or none (5.3). While receiving is disabled only giving
// back is allowed (16.1). Headers are the bytes of the messages beside their bodies; without them a
// caller who makes changes that may not fit is shown the messages first, and nothing happens.
func (p *Partition) Settle(now int64, q *Queue, sub Sub, tokens []Token, how Outcome, c Change, headers []int) ([]*Message, Refusal) {
	found, r := p.mayEnd(now, q, sub, tokens, how)
	if r != Accepted {
		return nil, r
	}
	known := headers
	if headers == nil {
		headers = make([]int, len(found))
	}
	for i, m := range found {
		switch {
		case len(c.Bytes) == 0:
		case known == nil && len(c.Bytes) > m.room(len(m.Body)):
			return found, Accepted
		case sub != Main && len(c.Bytes) > m.room(headers[i]):
			return nil, Invalid // there is nowhere to put it
		}
	}
	p.record(now, true)
	for i, m := range found {
		p.settle(now, q, m, how, c, headers[i])
	}
	return nil, Accepted
}

// mayEnd finds the messages of locks that somebody wants to end.
func (p *Partition) mayEnd(now int64, q *Queue, sub Sub, tokens []Token, how Outcome) (found []*Message, r Refusal) {
	p.about(q, tokens[0])
	if q.Settings.NoReceive && how != Release {
		return nil, Disabled
	}
	if how == DeadLetter && sub != Main {
		return nil, NotAllowed
	}
	for i, t := range tokens {
		p.about(q, t)
		m := p.held(now, q, sub, t)
		if m == nil || slices.Contains(tokens[:i], t) || p.staged(t) {
			return nil, q.lost(sub)
		}
		found = append(found, m)
	}
	p.about(q, tokens[0])
	return found, Accepted
}

func (p *Partition) settle(now int64, q *Queue, m *Message, how Outcome, c Change, header int) {
	changes, room := c.Bytes, m.room(header)
	switch {
	case len(changes) == 0 || len(changes) <= room:
	case how == DeadLetter:
		if changes = p.cut(c, room); changes == nil {
			changes = headerTooLarge
		}
	default: // its header would be too large (9.2)
		p.TooLarge++
		how, changes = DeadLetter, headerTooLarge
	}
	switch how {
	case Complete:
		p.remove(q, m.Seq, Completed)
	case Abandon:
		p.failed(now, q, m.Seq, changes, header)
	case Release:
		m := p.returned(q, m.Seq, 0, nil)
		p.tell(q, Returned, m)
		p.after(now, q, m, false, header)
	case Defer:
		m := p.touch(q, m.Seq)
		m.State, m.Token, m.Until = Deferred, Token{}, 0
		m.change(changes)
		if !m.Dead {
			m.Count++
		}
		p.settled(q, m.Session)
	case DeadLetter:
		p.bury(q, m.Seq, changes)
	}
}

// Renew moves the ends of locks, of all tokens or none (6.2), and returns the new one. Locks under
// a session are not renewed singly (8.4).
func (p *Partition) Renew(now int64, q *Queue, sub Sub, tokens []Token) (int64, Refusal) {
	p.about(q, tokens[0])
	if q.Settings.Sessions && sub == Main {
		return 0, NotAllowed
	}
	for _, t := range tokens {
		p.about(q, t)
		if p.held(now, q, sub, t) == nil {
			return 0, LockLost
		}
	}
	p.record(now, false)
	until := now + q.Settings.Lock
	for _, t := range tokens {
		p.touch(q, p.held(now, q, sub, t).Seq).Until = until
	}
	return until, Accepted
}

// noticed is when the end of a lock is noticed at the latest.
func noticed(until int64) int64 { return until/Grain*Grain + Grain }

// ending is a lock that runs out: of a message, or of a session.
type ending struct {
	until   int64
	q       *Queue
	seq     uint64 // 0: of a session
	session string
}

func (p *Partition) endings() (all []ending) {
	for _, q := range p.Queues {
		for _, m := range q.Live {
			if m.locked() && m.Until != 0 && !p.pinned(m.Token) {
				all = append(all, ending{m.Until, q, m.Seq, ""})
			}
		}
		for id, s := range q.Sessions {
			if s.Holder != (Token{}) && !p.pinned(s.Holder) {
				all = append(all, ending{s.Until, q, 0, id})
			}
		}
	}
	slices.SortFunc(all, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.q.ID, b.q.ID), cmp.Compare(a.seq, b.seq), cmp.Compare(a.session, b.session))
	})
	return all
}

// Due does what has become due: one record for all locks whose end is noticed at the same time, one
// for every scheduled message. What is due first comes first, until that is enough for now.
func (p *Partition) Due(now int64) {
	for !p.spent() {
		locks, next, late := p.endings(), p.nextScheduled(), p.overdue()
		var at int64
		if len(locks) > 0 {
			at = noticed(locks[0].until)
		}
		switch {
		case next != nil && next.m.For <= now && next.q.Settings.Topic && next.m.record > p.Written && len(next.m.Body) > 0:
			return // it is read back before it is published, and nothing else becomes due meanwhile
		case late != nil && late.until <= now:
			p.abort(now, late, OutOfTime)
		case next != nil && next.m.For <= now && (at == 0 || next.m.For < at):
			p.activate(now, next.q, next.m)
		case at != 0 && at <= now:
			p.record(now, true)
			for _, e := range locks {
				switch {
				case noticed(e.until) != at:
				case e.seq == 0:
					p.endSession(now, e.q, e.session, true)
				default:
					p.failed(now, e.q, e.seq, nil, 0)
				}
			}
		default:
			return
		}
	}
}

// Deadline is when there is something due next; 0 is never.
func (p *Partition) Deadline() (at int64) {
	if locks := p.endings(); len(locks) > 0 {
		at = noticed(locks[0].until)
	}
	if next := p.nextScheduled(); next != nil && (at == 0 || next.m.For < at) {
		at = next.m.For
	}
	if late := p.overdue(); late != nil && (at == 0 || late.until < at) {
		at = late.until
	}
	return at
}

// Locks is the number of locks, those of sessions included.
func (p *Partition) Locks() int {
	n := 0
	for _, q := range p.Queues {
		for _, m := range q.Live {
			n += bit(m.locked())
		}
		for _, s := range q.Sessions {
			n += bit(s.Holder != Token{})
		}
	}
	return n
}
