package model

import (
	"fmt"
	"slices"
)

const (
	Grain    = 64  // how late the end of a lock may be noticed when nobody uses its token, ms
	MaxFront = 256 // expired messages cleared away in one record
	MaxPurge = 4000
)

// idRoom is how much longer than the limit a stored message may be, bytes: one sent without a
// message-id is stored with one.
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
	Transferring // it is on its way to another queue (13)
)

func (s State) String() string {
	return [...]string{"absent", "active", "locked", "deferred", "deferred-locked", "scheduled", "transferring"}[s]
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
	Published // it was sent to a topic, which keeps nothing but the number
	Forwarded // it is in another queue
	Reserved  // a number that a transaction took, and no message has
)

// Sub is a sub-queue.
type Sub uint8

const (
	Main              Sub = iota
	DeadQueue             // the dead-letter queue
	TransferDeadQueue     // that of what was to move and could not (9.1)
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
	NoEntity     // no such queue any more, or rule
	Invalid      // what cannot be changed, or evaluated
	Exists       // there is one already
	NoMatch      // no rule of any subscription matches
	TooMany      // in one transaction
	UnknownTransaction
	TransactionFailed // something of it was refused
	Busy              // not now
)

func (r Refusal) String() string {
	return [...]string{"accepted", "lock lost", "not allowed", "disabled", "too large", "quota exceeded", "session lock lost",
		"session cannot be locked", "timeout", "message not found", "entity not found", "invalid argument", "already exists", "no matching subscription", "too many",
		"unknown transaction", "transaction failed", "busy"}[r]
}

// Settings are what rules of a queue, topic or subscription depend on.
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
	Topic             bool
	DeadLetterErrors  bool // of a subscription: rules that fail make a dead letter (15.6)
	FilterFirst       bool // of a topic: what no rule matches is refused (15.6)
}

// Message is a live message.
type Message struct {
	Seq        uint64
	Body       []byte
	State      State
	Dead       bool // in a dead-letter queue
	Count      uint32
	EnqueuedAt int64
	ExpiresAt  int64 // 0: never
	OwnTTL     int64 // the sender's, cut once the message is active; 0: none
	Session    string
	// in no session, although the subscription has sessions: it was dead-lettered on arrival
	Loose   bool
	For     int64 // when a scheduled message becomes active
	Token   Token
	Until   int64 // 0 under a session
	Changes [][]byte
	Waited  bool // it was scheduled before it became active
	// number it was sent under first, to a topic or to a queue it was moved from; 0: it was sent
	// here
	From  uint64
	Draft *Draft // it was sent as, where that matters later
	Hops  int    // how often it was moved
	// path of the entity in whose dead-letter queue it was before it was moved; "": in none
	Source       string
	Transfer     *Transfer
	Stays        bool // in the dead-letter queue, although what is there moves on
	TransferDead bool // with Dead: it is in the transfer dead-letter queue
	record       int  // that stored it
	Solid        int  // the newest record about it that is no lock or renewal
}

// Sub is the sub-queue that the message is in.
func (m *Message) Sub() Sub {
	switch {
	case m.TransferDead:
		return TransferDeadQueue
	case m.Dead:
		return DeadQueue
	}
	return Main
}

func (m *Message) bytes() int64 {
	return int64(len(m.Body) + m.changed())
}

// waits reports whether the message can be given to a receiver of the main queue.
func (m *Message) waits() bool { return m.State == Active && !m.Dead }

// locked reports whether somebody holds the message.
func (m *Message) locked() bool { return m.State == Locked || m.State == DeferredLocked }

// expired: nothing expires in a dead-letter queue (7.5), nor before it is active.
func (m *Message) expired(now int64) bool { return !m.Dead && m.ExpiresAt != 0 && now >= m.ExpiresAt }

// Queue is a queue, or a subscription, with its dead-letter queue; or a topic, in which only
// scheduled messages stay.
type Queue struct {
	ID       int
	Settings Settings
	Base     uint64     // number before the first: that of its partition (10.3)
	Last     uint64     // newest sequence number given out
	Live     []*Message // by sequence number
	Gone     map[uint64]Reason
	Sessions map[string]*Session // those with a holder or a state
	// sessions that could be accepted as the next available, in the order in which they became so
	Waiting []string
	Freed   map[string]int // by session, the record in which its lock ended last
	// record in which messages expired, or were deleted in a batch, last
	Cleared   int
	Seen      map[string]Entry  // duplicate history
	Transfers uint64            // newest number of a move away from here
	Over      map[uint64]Over   // moves that are over, by number
	Arrived   map[int]*Arrivals // by the id of the queue that moves came from
	Used      bool              // there is, or was, something in it
	Dropped   bool              // the queue is deleted

	Topic *Queue // of a subscription
	// all subscriptions a topic ever had, in the order in which they were made
	Subscriptions []*Queue
	InForce       bool   // of a subscription: it gets copies
	Rules         []Rule // of a subscription, in force, in the order in which they were added
}

// News is something the partition's loop has to hear of.
type News struct {
	Queue   *Queue
	Kind    NewsKind
	Session string
	Loose   bool  // it belongs to no session
	Expires int64 // of the message, when it waits for receivers of the main queue
}

type NewsKind uint8

const (
	Returned NewsKind = iota // a message became deliverable, or came back
	// the same, under a session that ended: the session is what the loop hears of
	Silent
	Ended // a session lock ended
)

// Bytes is what counts against the quota, with a topic what its subscriptions hold (16.3).
func (q *Queue) Bytes() (n int64) {
	if q.Dropped {
		return 0
	}
	for _, sub := range q.Subscriptions {
		n += sub.Bytes()
	}
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
	Clock   Clock
	Records int // decisions that changed something, since the beginning
	Needed  int // the newest of them that a reply behind it waits for: all but facts
	// the newest of them that may not be lost once anything after it was shown: all but locks and
	// renewals
	Solid   int
	About   About // of the last settlement or renewal that was refused
	News    []News
	Copies  []Copy      // made by the last publish or activation, to be counted
	Written int         // records that can be read back: the others are on their way to the disk
	Spent   func() bool // whether enough that nobody asked for was done for now; nil: never
	// the next UUID of newid(), which is random; in the order in which rules ask
	NewID   func() Token
	NoSends bool // everything that is sent is busy: there is no room for it, or no memory
	undo    []undo

	// Aborted hears of the record of a transaction that was not committed; alone: nothing else is
	// in it.
	Aborted      func(now int64, id TransactionID, why Cause, alone bool)
	transactions []*transaction // that are open, in the order in which they were begun
	ended        map[TransactionID]bool
	committing   *commit

	Cut, TooLarge int // dead letters whose reasons were cut, or did not fit at all
}

// About is the token that a refusal is about, and the message that it had locked until then; 0:
// none.
type About struct {
	Token Token
	Seq   uint64
}

// undo takes one change of a record back.
type undo struct {
	record int
	back   func()
}

// Add makes a queue of the partition, or a subscription of a topic, whose numbers begin behind
// base. That is no record of the partition.
func (p *Partition) Add(id int, s Settings, base uint64, topic *Queue) *Queue {
	q := &Queue{ID: id, Settings: s, Base: base, Last: base, Gone: map[uint64]Reason{}, Sessions: map[string]*Session{}, Freed: map[string]int{}, Seen: map[string]Entry{},
		Topic: topic}
	if topic != nil {
		topic.Subscriptions = append(topic.Subscriptions, q)
	}
	p.Queues = append(p.Queues, q)
	return q
}

// record begins a record, unless a transaction is being committed: then all of it is one.
func (p *Partition) record(now int64, solid bool) {
	if p.committing != nil {
		return
	}
	p.Fact(now)
	needed, solids := p.Needed, p.Solid
	p.changing(func() { p.Needed, p.Solid = needed, solids })
	p.Needed = p.Records
	if solid {
		p.Solid = p.Records
	}
}

// spent reports whether what nobody asked for should be left for later. It is called behind each
// record of it.
func (p *Partition) spent() bool { return p.Spent != nil && p.Spent() }

// Fact is a record that changes nothing and that nobody waits for.
func (p *Partition) Fact(now int64) {
	lastAt := p.LastAt
	p.Records++
	p.changing(func() { p.LastAt = lastAt })
	p.LastAt = max(p.LastAt, now)
}

// changing notes how a change that follows is taken back.
func (p *Partition) changing(back func()) { p.undo = append(p.undo, undo{p.Records, back}) }

// touch keeps what a message was before it is changed.
func (p *Partition) touch(q *Queue, seq uint64) *Message {
	m := q.Find(seq)
	before := *m
	p.changing(func() { *m = before })
	if p.Solid == p.Records {
		m.Solid = p.Records
	}
	return m
}

// store makes a message live.
func (p *Partition) store(q *Queue, m *Message) {
	last, used := q.Last, q.Used
	gone, was := q.Gone[m.Seq] // a number that was reserved
	p.changing(func() {
		at, _ := q.place(m.Seq)
		q.Live, q.Last, q.Used = slices.Delete(q.Live, at, at+1), last, used
		if was {
			q.Gone[m.Seq] = gone
		}
	})
	delete(q.Gone, m.Seq)
	q.Last, q.Used, m.record, m.Solid = max(q.Last, m.Seq), true, p.Records, p.Records
	place, _ := q.place(m.Seq)
	q.Live = slices.Insert(q.Live, place, m)
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
	n := News{Queue: q, Kind: kind, Session: m.Session, Loose: m.Loose}
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
func (p *Partition) Catalogued(now int64, solid bool) { p.record(now, solid) }

// Drop forgets everything about a queue that was deleted.
func (p *Partition) Drop(now int64, q *Queue) {
	was := *q
	if q.Used {
		p.record(now, true)
		p.changing(func() { *q = was })
	}
	*q = Queue{ID: q.ID, Settings: q.Settings, Base: q.Base, Last: q.Base, Gone: map[uint64]Reason{}, Sessions: map[string]*Session{}, Freed: map[string]int{},
		Seen: map[string]Entry{}, Dropped: true, Topic: q.Topic, Subscriptions: q.Subscriptions}
}
