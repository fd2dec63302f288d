package model

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Grain is how late the end of a lock may be noticed when nobody uses its token, ms.
const Grain = 64

// idRoom is how much longer than the limit a stored message may be, bytes: one sent without a message-id is stored with one.
const idRoom = 64

// Token identifies a lock.
type Token [16]byte

// State is where a live message is in its life.
type State uint8

const (
	Active State = iota + 1
	Locked
	Deferred
)

func (s State) String() string { return [...]string{"absent", "active", "locked", "deferred"}[s] }

// Reason says how a message went.
type Reason uint8

const (
	Completed Reason = iota + 1
	ReceivedAndDeleted
	Expired
)

// Refusal is the class of a negative answer; 0 is none.
type Refusal uint8

const (
	Accepted Refusal = iota
	LockLost
	NotAllowed
	Disabled
	TooLarge
	QuotaExceeded
)

func (r Refusal) String() string {
	return [...]string{"accepted", "lock lost", "not allowed", "disabled", "too large", "quota exceeded"}[r]
}

// Settings are what rules of a queue depend on.
type Settings struct {
	Lock              int64 // ms
	MaxDelivery       uint32
	TTL               int64 // default and ceiling, ms; 0: none
	DeadLetterExpired bool
	NoSend, NoReceive bool
	MaxMessage        int64 // bytes
	MaxBytes          int64 // of all messages
}

// Message is a live message.
type Message struct {
	Seq        uint64
	Body       []byte
	State      State
	Dead       bool // in the dead-letter queue
	Count      uint32
	EnqueuedAt int64
	ExpiresAt  int64 // 0: never
	OwnTTL     int64 // the sender's, cut; 0: none
	Token      Token
	Until      int64
	Changes    [][]byte
}

func (m *Message) bytes() (n int64) {
	n = int64(len(m.Body))
	for _, c := range m.Changes {
		n += int64(len(c))
	}
	return n
}

// Queue is a queue with its dead-letter queue.
type Queue struct {
	ID       int
	Settings Settings
	Last     uint64     // newest sequence number given out
	Live     []*Message // by sequence number
	Gone     map[uint64]Reason
	Returned int // how often a message became deliverable, taken back or not
}

// Bytes is what counts against the quota.
func (q *Queue) Bytes() (n int64) {
	for _, m := range q.Live {
		n += m.bytes()
	}
	return n
}

// Find returns a live message, or nil.
func (q *Queue) Find(seq uint64) *Message {
	if i, ok := q.place(seq); ok {
		return q.Live[i]
	}
	return nil
}

func (q *Queue) place(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(q.Live, seq, func(m *Message, s uint64) int {
		switch {
		case m.Seq < s:
			return -1
		case m.Seq > s:
			return 1
		}
		return 0
	})
}

// Partition is the queues of one log.
type Partition struct {
	Queues  []*Queue
	LastAt  int64 // time of the newest record
	Records int   // decisions that changed something, since the beginning
	Solid   int   // the newest of them that may not be lost once anything after it was shown: all but locks and renewals
	undo    []undo
}

// undo is how one change is taken back.
type undo struct {
	record int
	// of the partition, before the record
	mark   bool
	lastAt int64
	solid  int
	// of a message, before the change
	queue  *Queue
	last   uint64
	seq    uint64
	before *Message // nil: it was not live
}

// Add makes a queue of the partition. It is no record of it.
func (p *Partition) Add(id int, s Settings) *Queue {
	q := &Queue{ID: id, Settings: s, Gone: map[uint64]Reason{}}
	p.Queues = append(p.Queues, q)
	return q
}

// record begins a record.
func (p *Partition) record(now int64, solid bool) {
	p.undo = append(p.undo, undo{record: p.Records + 1, mark: true, lastAt: p.LastAt, solid: p.Solid})
	p.Records++
	p.LastAt = max(p.LastAt, now)
	if solid {
		p.Solid = p.Records
	}
}

// touch keeps what a message was before it is changed or made.
func (p *Partition) touch(q *Queue, seq uint64) *Message {
	u := undo{record: p.Records, queue: q, last: q.Last, seq: seq}
	m := q.Find(seq)
	if m != nil {
		c := *m
		u.before = &c
	}
	p.undo = append(p.undo, u)
	return m
}

// Rewind takes back all records but the first n.
func (p *Partition) Rewind(n int) {
	for i := len(p.undo) - 1; i >= 0 && p.undo[i].record > n; i-- {
		u := p.undo[i]
		p.undo = p.undo[:i]
		switch {
		case u.mark:
			p.LastAt, p.Solid = u.lastAt, u.solid
			p.Records = u.record - 1
		default:
			q := u.queue
			q.Last = u.last
			delete(q.Gone, u.seq)
			at, there := q.place(u.seq)
			switch {
			case u.before == nil && there:
				q.Live = slices.Delete(q.Live, at, at+1)
			case u.before != nil && there:
				q.Live[at] = u.before
			case u.before != nil:
				q.Live = slices.Insert(q.Live, at, u.before)
			}
		}
	}
	if p.Records > n {
		panic(fmt.Sprintf("model: cannot go back to record %d, only to %d", n, p.Records))
	}
}

// Keep says that nothing up to now is ever taken back.
func (p *Partition) Keep() { p.undo = p.undo[:0] }

// Catalogued is a record about the catalogue, which the model leaves to its caller.
func (p *Partition) Catalogued(now int64) { p.record(now, true) }

// remove ends a message.
func (p *Partition) remove(q *Queue, seq uint64, why Reason) {
	p.touch(q, seq)
	at, _ := q.place(seq)
	q.Live = slices.Delete(q.Live, at, at+1)
	q.Gone[seq] = why
}

// Draft is a message to be sent.
type Draft struct {
	Body []byte
	TTL  int64 // ms; 0: none
}

// Send stores messages, all or none (5.1), and numbers them from the queue's next number on (2.2).
func (p *Partition) Send(now int64, q *Queue, drafts []Draft) Refusal {
	if q.Settings.NoSend {
		return Disabled
	}
	var size int64
	for _, d := range drafts {
		if int64(len(d.Body)) > q.Settings.MaxMessage+idRoom {
			return TooLarge
		}
		size += int64(len(d.Body))
	}
	if q.Bytes()+size > q.Settings.MaxBytes {
		return QuotaExceeded
	}
	p.record(now, true)
	for _, d := range drafts {
		p.touch(q, q.Last+1)
		q.Last++
		m := &Message{Seq: q.Last, Body: d.Body, State: Active, EnqueuedAt: now, OwnTTL: d.TTL}
		ttl := q.Settings.TTL
		if d.TTL > 0 && (ttl == 0 || d.TTL < ttl) { // the cut is silent (7.1)
			ttl = d.TTL
		}
		if d.TTL > 0 {
			m.OwnTTL = ttl
		}
		if ttl > 0 {
			m.ExpiresAt = now + ttl
		}
		q.Live = append(q.Live, m)
		q.Returned++
	}
	return Accepted
}

// first is the deliverable message with the smallest number (5.2).
func (q *Queue) first(dead bool) *Message {
	for _, m := range q.Live {
		if m.State == Active && m.Dead == dead {
			return m
		}
	}
	return nil
}

// expired: nothing expires in a dead-letter queue (7.5).
func (m *Message) expired(now int64) bool { return !m.Dead && m.ExpiresAt != 0 && now >= m.ExpiresAt }

// Next is the message a receiver with credit gets now, or nil. What expired before it goes its way, one record each.
func (p *Partition) Next(now int64, q *Queue, dead bool) *Message {
	if q.Settings.NoReceive {
		return nil
	}
	for {
		m := q.first(dead)
		if m == nil || !m.expired(now) {
			return m
		}
		p.record(now, true)
		p.expire(q, m)
	}
}

// expire is what the end of a time to live does (7.5).
func (p *Partition) expire(q *Queue, m *Message) {
	if q.Settings.DeadLetterExpired {
		p.deadLetter(q, m.Seq, "TTLExpiredException", "The message expired and was dead lettered.")
		return
	}
	p.remove(q, m.Seq, Expired)
}

// deadLetter moves a message to the dead-letter queue for a reason of the broker's (9.2).
func (p *Partition) deadLetter(q *Queue, seq uint64, reason, description string) {
	m := p.touch(q, seq)
	m.State, m.Dead, m.Token, m.Until = Active, true, Token{}, 0
	q.Returned++
	m.Changes = append(slices.Clip(m.Changes), properties("DeadLetterReason", reason, "DeadLetterErrorDescription", description))
}

// properties is an AMQP map of short strings.
func properties(words ...string) []byte {
	var items []byte
	for _, w := range words {
		items = append(append(items, 0xa1, byte(len(w))), w...)
	}
	p := binary.BigEndian.AppendUint32([]byte{0xd1}, uint32(len(items)+4))
	p = binary.BigEndian.AppendUint32(p, uint32(len(words)))
	return append(p, items...)
}

// Lock hands a message out under a lock (6.1) and returns when that ends.
func (p *Partition) Lock(now int64, q *Queue, seq uint64, token Token) int64 {
	p.record(now, false)
	m := p.touch(q, seq)
	m.State, m.Token, m.Until = Locked, token, now+q.Settings.Lock
	return m.Until
}

// Take hands a message out for good (receive-and-delete).
func (p *Partition) Take(now int64, q *Queue, seq uint64) {
	p.record(now, true)
	p.remove(q, seq, ReceivedAndDeleted)
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

// held finds the message of a live lock. A lock that has ended is noticed here, before anybody is answered (6.1).
func (p *Partition) held(now int64, q *Queue, dead bool, t Token) *Message {
	i := slices.IndexFunc(q.Live, func(m *Message) bool { return m.State == Locked && m.Token == t && m.Dead == dead })
	if i < 0 {
		return nil
	}
	m := q.Live[i]
	if now >= m.Until {
		p.record(now, true)
		p.failed(now, q, m.Seq, nil)
		return nil
	}
	return m
}

// failed gives a message back after a failed delivery (6.3, 6.4): one more failure, frozen in a dead-letter queue; it
// expires at once when its time has passed, or is dead-lettered when it failed too often.
func (p *Partition) failed(now int64, q *Queue, seq uint64, changes []byte) {
	m := p.touch(q, seq)
	m.State, m.Token, m.Until = Active, Token{}, 0
	q.Returned++
	m.change(changes)
	if m.Dead {
		return
	}
	m.Count++
	switch {
	case m.expired(now):
		p.expire(q, m)
	case m.Count >= q.Settings.MaxDelivery:
		p.deadLetter(q, seq, "MaxDeliveryCountExceeded",
			fmt.Sprintf("Message could not be consumed after %d delivery attempts.", m.Count))
	}
}

func (m *Message) change(c []byte) {
	if len(c) > 0 {
		m.Changes = append(slices.Clip(m.Changes), c)
	}
}

// Settle ends locks: those of all tokens or none (5.3).
func (p *Partition) Settle(now int64, q *Queue, dead bool, tokens []Token, how Outcome, changes []byte) Refusal {
	if how == DeadLetter && dead {
		return NotAllowed
	}
	var seqs []uint64
	for i, t := range tokens {
		m := p.held(now, q, dead, t)
		if m == nil || slices.Contains(tokens[:i], t) {
			return LockLost
		}
		seqs = append(seqs, m.Seq)
	}
	p.record(now, true)
	for _, seq := range seqs {
		p.settle(now, q, seq, how, changes)
	}
	return Accepted
}

func (p *Partition) settle(now int64, q *Queue, seq uint64, how Outcome, changes []byte) {
	switch how {
	case Complete:
		p.remove(q, seq, Completed)
		return
	case Abandon:
		p.failed(now, q, seq, changes)
		return
	}
	m := p.touch(q, seq)
	m.Token, m.Until = Token{}, 0
	switch how {
	case Release:
		m.State = Active
		q.Returned++
		if m.expired(now) {
			p.expire(q, m)
		}
	case Defer:
		m.State = Deferred
		m.change(changes)
		if !m.Dead {
			m.Count++
		}
	case DeadLetter:
		m.State, m.Dead = Active, true
		q.Returned++
		m.change(changes)
	}
}

// Renew moves the ends of locks, of all tokens or none (6.2), and returns the new one.
func (p *Partition) Renew(now int64, q *Queue, dead bool, tokens []Token) (int64, Refusal) {
	for _, t := range tokens {
		if p.held(now, q, dead, t) == nil {
			return 0, LockLost
		}
	}
	p.record(now, false)
	until := now + q.Settings.Lock
	for _, t := range tokens {
		p.touch(q, p.held(now, q, dead, t).Seq).Until = until
	}
	return until, Accepted
}

// noticed is when the end of a lock is noticed at the latest.
func noticed(until int64) int64 { return until/Grain*Grain + Grain }

// EndLocks ends the locks whose end is to be noticed by now: a record for those that are noticed at the same time.
func (p *Partition) EndLocks(now int64) {
	for {
		var first int64
		for _, q := range p.Queues {
			for _, m := range q.Live {
				if at := noticed(m.Until); m.State == Locked && at <= now && (first == 0 || at < first) {
					first = at
				}
			}
		}
		if first == 0 {
			return
		}
		p.record(now, true)
		for _, q := range p.Queues {
			for _, m := range slices.Clone(q.Live) {
				if m.State == Locked && noticed(m.Until) == first {
					p.failed(now, q, m.Seq, nil)
				}
			}
		}
	}
}

// Peek shows what is in a sub-queue from a number on, at most count, ending before limit bytes are passed (14.2).
func (q *Queue) Peek(dead bool, from uint64, count, limit int) (found []*Message) {
	for _, m := range q.Live {
		if m.Dead != dead || m.Seq < from {
			continue
		}
		limit -= len(m.Body)
		if len(found) == count || limit < 0 && len(found) > 0 {
			break
		}
		found = append(found, m)
	}
	return found
}

// Locks is the number of locked messages.
func (p *Partition) Locks() (n int) {
	for _, q := range p.Queues {
		for _, m := range q.Live {
			if m.State == Locked {
				n++
			}
		}
	}
	return n
}
