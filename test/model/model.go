package model

import (
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	Grain    = 64  // how late the end of a lock may be noticed when nobody uses its token, ms
	MaxFront = 256 // expired messages cleared away in one record
	MaxPurge = 4000
)

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
	DeferredLocked
	Scheduled
)

func (s State) String() string {
	return [...]string{"absent", "active", "locked", "deferred", "deferred-locked", "scheduled"}[s]
}

// Reason says how a message went.
type Reason uint8

const (
	Completed Reason = iota + 1
	ReceivedAndDeleted
	Expired
	Cancelled
	Activated // it goes on under another number
	Purged    // batch deleted
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
	SessionLost  // the session is not held, or not by the caller
	SessionTaken // another holds the session
	TimedOut     // no session came in time
	NotFound     // no such message, in the state it has to be in
	NoEntity     // no such queue any more
	Invalid      // what cannot be changed
)

func (r Refusal) String() string {
	return [...]string{"accepted", "lock lost", "not allowed", "disabled", "too large", "quota exceeded", "session lock lost",
		"session cannot be locked", "timeout", "message not found", "entity not found", "invalid argument"}[r]
}

// Settings are what rules of a queue depend on.
type Settings struct {
	Lock              int64 // ms
	MaxDelivery       uint32
	TTL               int64 // default and ceiling, ms; 0: none
	DeadLetterExpired bool
	NoSend, NoReceive bool
	MaxMessage        int64 // bytes
	MaxBytes          int64 // of all messages and session states
	Sessions          bool
	Window            int64 // of duplicate detection, ms; 0: none
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
	OwnTTL     int64 // the sender's, cut once the message is active; 0: none
	Session    string
	For        int64 // when a scheduled message becomes active
	Token      Token
	Until      int64 // 0 under a session
	Changes    [][]byte
}

func (m *Message) bytes() (n int64) {
	n = int64(len(m.Body))
	for _, c := range m.Changes {
		n += int64(len(c))
	}
	return n
}

// waits tells whether the message can be given to a receiver of the main queue.
func (m *Message) waits() bool { return m.State == Active && !m.Dead }

// locked tells whether somebody holds the message.
func (m *Message) locked() bool { return m.State == Locked || m.State == DeferredLocked }

// expired: nothing expires in a dead-letter queue (7.5), nor before it is active.
func (m *Message) expired(now int64) bool { return !m.Dead && m.ExpiresAt != 0 && now >= m.ExpiresAt }

// Queue is a queue with its dead-letter queue.
type Queue struct {
	ID       int
	Settings Settings
	Last     uint64     // newest sequence number given out
	Live     []*Message // by sequence number
	Gone     map[uint64]Reason
	Sessions map[string]*Session // those with a holder or a state
	Waiting  []string            // sessions that could be accepted as the next available, in the order in which they became so
	Seen     map[string]Entry    // duplicate history
	Used     bool                // there is, or was, something in it
	Dropped  bool                // the queue is deleted
}

// News is something the partition's loop has to hear of.
type News struct {
	Queue   *Queue
	Kind    NewsKind
	Session string
	Expires int64 // of the message, when it waits for receivers of the main queue
}

type NewsKind uint8

const (
	Returned NewsKind = iota // a message became deliverable, or came back
	Silent                   // the same, under a session that ended: the session is what the loop hears of
	Ended                    // a session lock ended
)

// Bytes is what counts against the quota.
func (q *Queue) Bytes() (n int64) {
	for _, m := range q.Live {
		n += m.bytes()
	}
	for _, s := range q.Sessions {
		n += int64(len(s.State))
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
	News    []News
	undo    []undo
}

// undo takes one change of a record back.
type undo struct {
	record int
	back   func()
}

// Add makes a queue of the partition. It is no record of it.
func (p *Partition) Add(id int, s Settings) *Queue {
	q := &Queue{ID: id, Settings: s, Gone: map[uint64]Reason{}, Sessions: map[string]*Session{}, Seen: map[string]Entry{}}
	p.Queues = append(p.Queues, q)
	return q
}

// record begins a record.
func (p *Partition) record(now int64, solid bool) {
	lastAt, solids := p.LastAt, p.Solid
	p.Records++
	p.changing(func() { p.LastAt, p.Solid = lastAt, solids })
	p.LastAt = max(p.LastAt, now)
	if solid {
		p.Solid = p.Records
	}
}

// changing notes how a change that follows is taken back.
func (p *Partition) changing(back func()) { p.undo = append(p.undo, undo{p.Records, back}) }

// touch keeps what a message was before it is changed.
func (p *Partition) touch(q *Queue, seq uint64) *Message {
	m := q.Find(seq)
	before := *m
	p.changing(func() { *m = before })
	return m
}

// store makes a message live.
func (p *Partition) store(q *Queue, m *Message) {
	last, used := q.Last, q.Used
	p.changing(func() {
		at, _ := q.place(m.Seq)
		q.Live, q.Last, q.Used = slices.Delete(q.Live, at, at+1), last, used
	})
	q.Last, q.Used = m.Seq, true
	q.Live = append(q.Live, m)
	p.settled(q, m.Session)
}

// remove ends a message.
func (p *Partition) remove(q *Queue, seq uint64, why Reason) {
	at, _ := q.place(seq)
	m := q.Live[at]
	p.changing(func() {
		at, _ := q.place(seq)
		q.Live = slices.Insert(q.Live, at, m)
		delete(q.Gone, seq)
	})
	q.Live = slices.Delete(q.Live, at, at+1)
	q.Gone[seq] = why
	p.settled(q, m.Session)
}

func (p *Partition) tell(q *Queue, kind NewsKind, m *Message) {
	n := News{Queue: q, Kind: kind, Session: m.Session}
	if m.waits() {
		n.Expires = m.ExpiresAt
	}
	p.News = append(p.News, n)
}

// Rewind takes back all records but the first n.
func (p *Partition) Rewind(n int) {
	for i := len(p.undo) - 1; i >= 0 && p.undo[i].record > n; i-- {
		p.undo[i].back()
		p.Records = p.undo[i].record - 1
		p.undo = p.undo[:i]
	}
	if p.Records > n {
		panic(fmt.Sprintf("model: cannot go back to record %d, only to %d", n, p.Records))
	}
}

// Keep says that nothing up to now is ever taken back.
func (p *Partition) Keep() {
	clear(p.undo)
	p.undo, p.News = p.undo[:0], nil
}

// Catalogued is a record about the catalogue, which the model leaves to its caller.
func (p *Partition) Catalogued(now int64) { p.record(now, true) }

// Drop forgets everything about a queue that was deleted.
func (p *Partition) Drop(now int64, q *Queue) {
	was := *q
	if q.Used {
		p.record(now, true)
		p.changing(func() { *q = was })
	}
	*q = Queue{ID: q.ID, Settings: q.Settings, Gone: map[uint64]Reason{}, Sessions: map[string]*Session{}, Seen: map[string]Entry{}, Dropped: true}
}

// Draft is a message to be sent.
type Draft struct {
	Body       []byte
	ID         string
	Session    string
	HasSession bool
	TTL        int64 // ms; 0: none
	For        int64 // scheduled for; 0: now
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
	if size > 0 && q.Bytes()+size > q.Settings.MaxBytes {
		return nil, QuotaExceeded
	}
	p.record(now, true)
	for _, d := range drafts {
		if first, ok := q.duplicate(now, d.ID); ok {
			if m := q.Find(first); m == nil || m.State != Scheduled {
				first = 0
			}
			numbers = append(numbers, first)
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
		m.live(now, q)
		p.store(q, m)
		p.tell(q, Returned, m)
	}
	return numbers, Accepted
}

// live begins a message's time to live (7.1).
func (m *Message) live(now int64, q *Queue) {
	m.EnqueuedAt = now
	ttl := q.Settings.TTL
	if m.OwnTTL > 0 {
		if ttl == 0 || m.OwnTTL < ttl {
			ttl = m.OwnTTL
		}
		m.OwnTTL = ttl // the cut is silent
	}
	if ttl > 0 {
		m.ExpiresAt = now + ttl
	}
}

// first is the deliverable message with the smallest number (5.2), of any session or of one.
func (q *Queue) first(dead bool, session *string) *Message {
	for _, m := range q.Live {
		if m.State == Active && m.Dead == dead && (session == nil || m.Session == *session) {
			return m
		}
	}
	return nil
}

// Next is the message a receiver with credit gets now, or nil. What expired before it goes its way, the head of the queue
// in one record.
func (p *Partition) Next(now int64, q *Queue, dead bool) *Message {
	if q.Settings.NoReceive || q.Dropped {
		return nil
	}
	for p.clearFront(now, q, dead, nil) {
	}
	return q.first(dead, nil)
}

// clearFront ends expired messages in front of the first that a receiver can get, of any session or of one: a record for
// [MaxFront] of them. It tells whether there were any.
func (p *Partition) clearFront(now int64, q *Queue, dead bool, session *string) bool {
	m := q.first(dead, session)
	if m == nil || !m.expired(now) {
		return false
	}
	p.record(now, true)
	for n := 0; n < MaxFront && m != nil && m.expired(now); n++ {
		p.expire(q, m)
		m = q.first(dead, session)
	}
	return true
}

// Sweep ends what has expired anywhere in the main queue (7.4).
func (p *Partition) Sweep(now int64, q *Queue) {
	begun := false
	for _, m := range slices.Clone(q.Live) {
		if m.waits() && m.expired(now) {
			if !begun {
				p.record(now, true)
				begun = true
			}
			p.expire(q, m)
		}
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
	p.bury(q, seq, properties("DeadLetterReason", reason, "DeadLetterErrorDescription", description))
}

func (p *Partition) bury(q *Queue, seq uint64, changes []byte) {
	m := p.touch(q, seq)
	m.State, m.Dead, m.Token, m.Until = Active, true, Token{}, 0
	m.change(changes)
	p.settled(q, m.Session)
	p.tell(q, Returned, m)
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

// Peek shows what is in a sub-queue from a number on, at most count, ending before limit bytes are passed (14.2): of all
// sessions or of one.
func (q *Queue) Peek(dead bool, session *string, from uint64, count, limit int) (found []*Message, r Refusal) {
	if q.Settings.NoReceive {
		return nil, Disabled
	}
	for _, m := range q.Live {
		if m.Dead != dead || m.Seq < from || session != nil && m.Session != *session {
			continue
		}
		limit -= len(m.Body)
		if len(found) == count || limit < 0 && len(found) > 0 {
			break
		}
		found = append(found, m)
	}
	return found, Accepted
}

// Purge is batch delete: up to count active messages enqueued before a time go, the oldest first (14.3).
func (p *Partition) Purge(now int64, q *Queue, dead bool, session *string, count int, before int64) (n int, r Refusal) {
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
		if m.State == Active && m.Dead == dead && m.EnqueuedAt < before && (session == nil || m.Session == *session) {
			if n++; n == 1 {
				p.record(now, true)
			}
			p.remove(q, m.Seq, Purged)
		}
	}
	return n, Accepted
}
