package model

import (
	"bytes"
	"slices"
)

// Session is a session that is held or has a state (8.2).
type Session struct {
	Holder   Token // zero: nobody
	Until    int64
	HasState bool
	State    []byte
	SetAt    int64
}

// session finds or makes a session, and keeps what it was before it is changed.
func (p *Partition) session(q *Queue, id string) *Session {
	s := q.Sessions[id]
	if s == nil {
		s = &Session{}
		used := q.Used
		p.changing(func() { delete(q.Sessions, id); q.Used = used })
		q.Sessions[id], q.Used = s, true
		return s
	}
	before := *s
	p.changing(func() { q.Sessions[id] = s; *s = before })
	return s
}

// settled maintains the list of sessions that wait for a receiver: nobody holds them and there is
// something to deliver (8.3).
func (p *Partition) settled(q *Queue, id string) {
	if !q.Settings.Sessions {
		return
	}
	s := q.Sessions[id]
	waits := (s == nil || s.Holder == Token{}) && q.first(Main, &id) != nil
	at := slices.Index(q.Waiting, id)
	if waits == (at >= 0) {
		return
	}
	before := q.Waiting
	p.changing(func() { q.Waiting = before })
	if waits {
		q.Waiting = append(slices.Clip(before), id)
	} else {
		q.Waiting = append(slices.Clip(before[:at]), before[at+1:]...)
	}
}

// Accept gives a session to a receiver: the named one, or without a name the next available. It
// returns which, and false when there is none for now.
func (p *Partition) Accept(now int64, q *Queue, name *string, token Token) (id string, until int64, ok, again bool, r Refusal) {
	id, until, ok, again, r, _ = p.AcceptIf(now, q, name, token, func() bool { return true })
	return id, until, ok, again, r
}

// AcceptIf is Accept for a receiver that may get a session, or a refusal, from another partition,
// too: when there is one for it here, may is asked whether it may still be given. If not, the
// receiver is told nothing from here, and mine is false.
func (p *Partition) AcceptIf(now int64, q *Queue, name *string, token Token, may func() bool) (id string, until int64, ok, again bool, r Refusal, mine bool) {
	for {
		if q.Settings.NoReceive {
			return "", 0, false, false, Disabled, may()
		}
		if name == nil {
			if len(q.Waiting) == 0 {
				return "", 0, false, false, Accepted, true
			}
			id = q.Waiting[0]
			if p.clearFront(now, q, Main, &id) { // what has expired is nothing to wait for
				if p.spent() {
					return "", 0, false, true, Accepted, true
				}
				continue
			}
		} else if s := q.Sessions[*name]; s != nil && s.Holder != (Token{}) {
			if now < s.Until || p.pinned(s.Holder) {
				return "", 0, false, false, SessionTaken, may()
			}
			p.record(now, true)
			p.endSession(now, q, *name, true)
			p.spent()
			continue
		} else {
			id = *name
		}
		if !may() {
			return "", 0, false, false, Accepted, false
		}
		p.record(now, false)
		s := p.session(q, id)
		s.Holder, s.Until = token, now+q.Settings.Lock
		p.settled(q, id)
		return id, s.Until, true, false, Accepted, true
	}
}

// endSession gives a session and everything locked under it back (8.5). After a time-out every
// message counts as failed.
func (p *Partition) endSession(now int64, q *Queue, id string, timedOut bool) {
	var back []*Message
	for _, m := range q.Live {
		if m.locked() && !m.Dead && m.Session == id {
			back = append(back, m)
			p.returned(q, m.Seq, uint32(bit(timedOut)), nil)
			p.tell(q, Silent, m)
		}
	}
	s := p.session(q, id)
	s.Holder, s.Until = Token{}, 0
	if !s.HasState {
		delete(q.Sessions, id)
	}
	p.settled(q, id)
	freed := q.Freed[id]
	p.changing(func() { q.Freed[id] = freed })
	q.Freed[id] = p.Records
	p.News = append(p.News, News{Queue: q, Kind: Ended, Session: id})
	for _, m := range back {
		p.after(now, q, m, timedOut, 0)
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// holder finds the session of a live session lock. One that has ended is noticed here.
func (p *Partition) holder(now int64, q *Queue, token Token) (string, bool) {
	for id, s := range q.Sessions {
		if s.Holder != token || token == (Token{}) {
			continue
		}
		if now < s.Until || p.pinned(token) {
			return id, true
		}
		p.record(now, true)
		p.endSession(now, q, id, true)
		break
	}
	return "", false
}

// NextOf is the message the holder of a session gets now, or nil; lost when the lock has ended,
// again as with [Partition.Next].
func (p *Partition) NextOf(now int64, q *Queue, token Token) (m *Message, lost, again bool) {
	if q.Settings.NoReceive || q.Dropped {
		return nil, false, false
	}
	for {
		id, ok := p.holder(now, q, token)
		if !ok {
			p.spent()
			return nil, true, false
		}
		if !p.clearFront(now, q, Main, &id) {
			return q.first(Main, &id), false, false
		}
		if p.spent() {
			return nil, false, true
		}
	}
}

// Close ends a session lock because its link did. Nothing counts, unless its time had passed.
func (p *Partition) Close(now int64, q *Queue, token Token) {
	if id, ok := p.holder(now, q, token); ok {
		p.record(now, true)
		// which may have passed while a transaction relies on it
		p.endSession(now, q, id, now >= q.Sessions[id].Until)
	}
}

// Restart ends all session locks: the links that held them are gone, and counts stay (4.3 R3, 8.5).
// One record.
func (p *Partition) Restart(now int64) {
	type held struct {
		q  *Queue
		id string
		s  *Session
	}
	var all []held
	for _, q := range p.Queues {
		for id, s := range q.Sessions {
			if s.Holder != (Token{}) {
				all = append(all, held{q, id, s})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b held) int { return bytes.Compare(a.s.Holder[:], b.s.Holder[:]) })
	p.record(now, true)
	for _, h := range all {
		p.endSession(now, h.q, h.id, false)
	}
}

// RenewSession moves the end of a session lock (8.4).
func (p *Partition) RenewSession(now int64, q *Queue, id string, token Token) (int64, Refusal) {
	if held, ok := p.holder(now, q, token); !ok || held != id {
		return 0, SessionLost
	}
	p.record(now, false)
	s := p.session(q, id)
	s.Until = now + q.Settings.Lock
	return s.Until, Accepted
}

// SetState replaces a session's state, or clears it when it is empty (8.4).
func (p *Partition) SetState(now int64, q *Queue, id string, token Token, state []byte) Refusal {
	if r := p.maySet(now, q, id, token, state); r != Accepted {
		return r
	}
	p.record(now, true)
	s := p.session(q, id)
	if t := q.Topic; t != nil && !t.Used { // what is counted with the topic is its, too
		p.changing(func() { t.Used = false })
		t.Used = true
	}
	p.added(q, int64(len(state)-len(s.State)))
	s.HasState, s.State, s.SetAt = len(state) > 0, state, now
	if !s.HasState {
		s.SetAt = 0
	}
	return Accepted
}

func (p *Partition) maySet(now int64, q *Queue, id string, token Token, state []byte) Refusal {
	if held, ok := p.holder(now, q, token); !ok || held != id {
		return SessionLost
	}
	if int64(len(state)) > q.quota().Settings.MaxMessage {
		return TooLarge
	}
	if !p.fits(q, int64(len(state)-len(q.Sessions[id].State))) {
		return QuotaExceeded
	}
	return Accepted
}

// State is a session's state, nil when it has none.
func (q *Queue) State(id string) ([]byte, Refusal) {
	if q.Settings.NoReceive {
		return nil, Disabled
	}
	if s := q.Sessions[id]; s != nil && s.HasState {
		return s.State, Accepted
	}
	return nil, Accepted
}

// List is a page of session ids, in order (8.6): of those whose state was set after a time, or all
// that have active messages, locked ones included (16.2), or a state.
func (q *Queue) List(since int64, all bool, skip, top int) []string {
	ids := map[string]bool{}
	for id, s := range q.Sessions {
		if s.HasState && (all || s.SetAt > since) {
			ids[id] = true
		}
	}
	if all && q.Settings.Sessions {
		for _, m := range q.Live {
			if m.waits() || m.locked() && !m.Dead {
				ids[m.Session] = true
			}
		}
	}
	var sorted []string
	for id := range ids {
		sorted = append(sorted, id)
	}
	slices.Sort(sorted)
	return sorted[min(skip, len(sorted)):min(skip+top, len(sorted))]
}

// Shows is the record of the newest of what the grant of a session shows: the end of the lock
// before and, when it was not asked for by its name, the message that there is.
func (q *Queue) Shows(id string, named bool) int {
	at := q.Freed[id]
	if m := q.first(Main, &id); m != nil && !named {
		at = max(at, m.Solid)
	}
	return at
}
