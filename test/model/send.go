package model

// Draft is a message to be sent.
type Draft struct {
	Body       []byte
	ID         string
	Session    string
	HasSession bool
	TTL        int64  // ms; 0: none
	For        int64  // scheduled for; 0: now
	Color      string // application properties that rules look at; "", nil: not there
	N          *int64
	Header     int // bytes beside the body
}

// Send stores messages, all or none (5.1), and numbers them from the queue's next number on (2.2). Duplicates are dropped
// singly; their number is that of the original while it is scheduled, else 0 (11).
func (p *Partition) Send(now int64, q *Queue, drafts []Draft) (numbers []uint64, r Refusal) {
	if q.Settings.NoSend {
		return nil, Disabled
	}
	var size int64
	for _, d := range drafts {
		if int64(len(d.Body)) > q.Settings.MaxMessage+idRoom {
			return nil, TooLarge
		}
		size += int64(len(d.Body))
	}
	for _, d := range drafts {
		if q.Settings.Sessions && !d.HasSession {
			return nil, NotAllowed
		}
	}
	switch {
	case q.Topic != nil:
		return nil, NotAllowed
	case q.Settings.Topic:
		return p.publish(now, q, drafts)
	case !q.fits(size):
		return nil, QuotaExceeded
	}
	p.record(now, true)
	for _, d := range drafts {
		if first, ok := q.duplicate(now, d.ID); ok {
			numbers = append(numbers, q.stillScheduled(first))
			continue
		}
		m := &Message{Seq: q.Last + 1, Body: d.Body, State: Active, EnqueuedAt: now, OwnTTL: d.TTL, For: d.For}
		if q.Settings.Sessions {
			m.Session = d.Session
		}
		p.remember(now, q, d.ID, m.Seq)
		numbers = append(numbers, m.Seq)
		if m.For > now {
			m.State = Scheduled
			p.store(q, m)
			continue
		}
		m.For = 0
		m.live(now, q.Settings.TTL)
		p.store(q, m)
		p.tell(q, Returned, m)
	}
	return numbers, Accepted
}

// fits tells whether there is room for more bytes: a subscription's is that of its topic (16.3).
func (q *Queue) fits(more int64) bool {
	if q.Topic != nil {
		q = q.Topic
	}
	return more <= 0 || q.Bytes()+more <= q.Settings.MaxBytes
}

// stillScheduled is the number a duplicate is answered with.
func (q *Queue) stillScheduled(first uint64) uint64 {
	if m := q.Find(first); m != nil && m.State == Scheduled {
		return first
	}
	return 0
}

// live begins a message's time to live, of which the ceiling is the entity's (7.1).
func (m *Message) live(now, ceiling int64) {
	m.EnqueuedAt = now
	ttl := ceiling
	if m.OwnTTL > 0 {
		ttl = least(ttl, m.OwnTTL)
		m.OwnTTL = ttl // the cut is silent
	}
	if ttl > 0 {
		m.ExpiresAt = now + ttl
	}
}

// least is the shorter of two times to live; 0 is none.
func least(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
