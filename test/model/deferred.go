package model

import "slices"

// Recall is receive by sequence number: all of the deferred messages or none (14.1). In a session
// only its holder may. One that has expired expires now, and nothing is found (7.4). Without tokens
// the messages are taken for good.
func (p *Partition) Recall(now int64, q *Queue, sub Sub, session Token, seqs []uint64, tokens []Token) (found []*Message, r Refusal) {
	if q.Settings.NoReceive {
		return nil, Disabled
	}
	holds := ""
	if q.Settings.Sessions && sub == Main {
		id, ok := p.holder(now, q, session)
		if !ok {
			return nil, SessionLost
		}
		holds = id
	}
	var expired []*Message
	for i, seq := range seqs {
		m := q.Find(seq)
		switch {
		case m == nil || m.State != Deferred || m.Sub() != sub || slices.Contains(seqs[:i], seq) || sub == Main && m.Session != holds:
			r = NotFound
		case m.expired(now):
			r = NotFound
			expired = append(expired, m)
		default:
			found = append(found, m)
		}
	}
	if len(expired) > 0 {
		p.record(now, true)
		for _, m := range expired {
			p.expire(q, m, 0)
		}
	}
	if r != Accepted {
		return nil, r
	}
	p.record(now, len(tokens) == 0)
	for i, m := range found {
		if len(tokens) == 0 {
			p.remove(q, m.Seq, ReceivedAndDeleted)
			continue
		}
		p.lock(now, q, m.Seq, tokens[i])
		m.State = DeferredLocked
	}
	return found, Accepted
}
