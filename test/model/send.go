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

	arrived  *Arriving // nil: it was sent here
	number   uint64    // that it was given when it was staged; 0: none
	dropped  bool      // it was a duplicate when it was staged
	original uint64    // … of this one
}

// Send stores messages, all or none (5.1), and numbers them from the queue's next number on (2.2).
// Duplicates are dropped singly; their number is that of the original while it is scheduled, else 0
// (11).
func (p *Partition) Send(now int64, q *Queue, drafts []Draft) (numbers []uint64, r Refusal) {
	size, r := q.mayStore(drafts)
	switch {
	case p.NoSends:
		return nil, Busy
	case r != Accepted:
		return nil, r
	case q.Topic != nil:
		return nil, NotAllowed
	case q.Settings.Topic:
		return p.publish(now, q, drafts)
	case !p.fits(q, size):
		return nil, QuotaExceeded
	}
	p.record(now, true)
	for _, d := range drafts {
		if first, ok := q.twice(now, &d); ok {
			numbers = append(numbers, q.stillScheduled(first))
			continue
		}
		m := d.message(q, now)
		p.remember(now, q, d.ID, m.Seq)
		numbers = append(numbers, m.Seq)
		if p.store(q, m); m.State == Active {
			p.tell(q, Returned, m)
		}
		p.added(q, int64(len(d.Body)))
	}
	return numbers, Accepted
}

// mayStore looks at messages by themselves, and adds up their bytes.
func (q *Queue) mayStore(drafts []Draft) (size int64, r Refusal) {
	if q.Settings.NoSend {
		return 0, Disabled
	}
	for _, d := range drafts {
		if int64(len(d.Body)) > q.Settings.MaxMessage+idRoom {
			return 0, TooLarge
		}
		size += int64(len(d.Body))
	}
	for _, d := range drafts {
		if q.Settings.Sessions && !d.HasSession {
			return 0, NotAllowed
		}
	}
	return size, Accepted
}

// fits reports whether there is room for more bytes, beside those that open transactions reserve: a
// subscription's is that of its topic (16.3).
func (p *Partition) fits(q *Queue, more int64) bool {
	q = q.quota()
	is := q.Bytes()
	if c := p.committing; c != nil {
		is = c.before[q] + c.added[q]
	}
	return more <= 0 || is+p.reserved(q)+more <= q.Settings.MaxBytes
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
