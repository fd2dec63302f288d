package model

import (
	"cmp"
	"slices"
)

type planned struct {
	q *Queue
	m *Message
}

// nextScheduled is the message to become active next: by time, then by number (7.6).
func (p *Partition) nextScheduled() (next *planned) {
	for _, q := range p.Queues {
		for _, m := range q.Live {
			if m.State == Scheduled && (next == nil ||
				cmp.Or(cmp.Compare(m.For, next.m.For), cmp.Compare(m.Seq, next.m.Seq), cmp.Compare(q.ID, next.q.ID)) < 0) {
				next = &planned{q, m}
			}
		}
	}
	return next
}

// activate makes a scheduled message active: as if it were sent now, under a new number (2.2, 7.6).
func (p *Partition) activate(now int64, q *Queue, old *Message) {
	if q.Settings.Topic {
		p.publishScheduled(now, q, old)
		return
	}
	p.record(now, true)
	m := &Message{Seq: q.Last + 1, Body: old.Body, State: Active, OwnTTL: old.OwnTTL, Session: old.Session, Waited: true,
		Draft: old.Draft, Hops: old.Hops, Source: old.Source, From: old.From, Changes: old.Changes}
	m.live(now, q.Settings.TTL)
	p.store(q, m)
	p.remove(q, old.Seq, Activated)
	p.tell(q, Returned, m)
}

// Cancel ends scheduled messages: all of them or none (7.6).
func (p *Partition) Cancel(now int64, q *Queue, seqs []uint64) Refusal {
	if r := q.mayCancel(seqs); r != Accepted {
		return r
	}
	p.record(now, true)
	for _, seq := range seqs {
		p.remove(q, seq, Cancelled)
	}
	return Accepted
}

func (q *Queue) mayCancel(seqs []uint64) Refusal {
	if q.Settings.NoSend && q.Settings.NoReceive {
		return Disabled
	}
	for i, seq := range seqs {
		if m := q.Find(seq); m == nil || m.State != Scheduled || slices.Contains(seqs[:i], seq) {
			return NotFound
		}
	}
	return Accepted
}
