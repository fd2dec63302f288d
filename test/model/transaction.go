package model

import "slices"

// TransactionID names a transaction.
type TransactionID [16]byte

// Operation is what a client asks for in a transaction (12.1): one of the kinds below, of one
// queue.
type Operation struct {
	Kind  OperationKind
	Queue *Queue

	Drafts   []Draft // Sends
	Numbered bool    // … that are answered with their numbers
	// … that are for the queue of this id, and go there through Queue (12.5); 0: they stay
	Via     int
	Largest int64 // … which takes messages up to this size, bytes

	Sub     Sub // Settles
	Tokens  []Token
	How     Outcome
	Change  Change
	Headers []int
	Final   bool // their client cannot settle them again

	Seqs []uint64 // Cancels

	Session string // SetsState
	Token   Token
	State   []byte
}

// OperationKind is what an [Operation] does.
type OperationKind uint8

const (
	Sends OperationKind = iota + 1
	Settles
	Cancels
	SetsState
)

// Cause is why a transaction ended without a trace.
type Cause uint8

const (
	RolledBack Cause = iota + 1
	OutOfTime
	ClientLost
	Failed // its client wanted to commit
)

const (
	// how long a transaction may take from its first operation on (12.2), ms
	transactionLimit = 120_000
	transactionSends = 100 // messages
)

// transaction is work that waits for its commit. It lives in memory only: after a crash there is
// nothing of it (4.3 R8).
type transaction struct {
	id     TransactionID
	until  int64
	over   bool // its time is: it waits for its discharge, in vain
	failed bool
	staged []Operation
	sent   int     // messages
	pins   []Token // of messages that it is going to settle: nobody else may
	final  []Token // of messages that nobody can settle when it is not committed
	// of sessions that it relies on: like the pinned locks they do not end by their time
	holds  []Token
	bytes  map[*Queue]int64           // reserved, by the queue whose quota it is
	states map[*Session]int           // bytes of the states that it sets
	named  map[*Queue]map[uint64]bool // of scheduled messages: that they will be there, or gone
}

// commit is what a commit has done so far, of which the quota is judged: nothing that it frees
// counts.
type commit struct {
	of     *transaction
	before map[*Queue]int64
	added  map[*Queue]int64
}

// transactionOf finds a transaction that is open at a time; known tells that there is one, open or
// not.
func (p *Partition) transactionOf(now int64, id TransactionID) (t *transaction, known bool) {
	for _, t := range p.transactions {
		if t.id != id {
			continue
		}
		if t.over || now >= t.until {
			return nil, true
		}
		return t, true
	}
	return nil, p.ended[id]
}

// pinnedBy is the transaction that is going to settle the message of a lock, or nil.
func (p *Partition) pinnedBy(lock Token) *transaction {
	for _, t := range p.transactions {
		if slices.Contains(t.pins, lock) {
			return t
		}
	}
	return nil
}

// staged reports whether the message of a lock waits for a commit other than this one.
func (p *Partition) staged(lock Token) bool {
	t := p.pinnedBy(lock)
	return t != nil && (p.committing == nil || p.committing.of != t)
}

// pinned reports whether a lock does not end by its time, because a transaction relies on it
// (12.4).
func (p *Partition) pinned(lock Token) bool {
	return slices.ContainsFunc(p.transactions, func(t *transaction) bool {
		return slices.Contains(t.pins, lock) || slices.Contains(t.holds, lock)
	})
}

// reserved is how many bytes open transactions are going to store where a quota counts.
func (p *Partition) reserved(q *Queue) (n int64) {
	for _, t := range p.transactions {
		if p.committing == nil || p.committing.of != t {
			n += t.bytes[q]
		}
	}
	return n
}

// added notes bytes that are stored, or are to be.
func (p *Partition) added(q *Queue, n int64) {
	if p.committing != nil {
		p.committing.added[q.quota()] += n
	}
}

// release lets go of what a transaction reserved, and of its locks.
func (t *transaction) release() {
	t.staged, t.pins, t.final, t.holds, t.bytes, t.states, t.named, t.over = nil, nil, nil, nil, nil, nil, nil, true
}

// discharged is a transaction that its client ends, if it is open.
func (p *Partition) discharged(now int64, id TransactionID) *transaction {
	i := slices.IndexFunc(p.transactions, func(t *transaction) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	t := p.transactions[i]
	switch p.ended[id] = true; {
	case t.over:
		p.forget(id)
	case now >= t.until:
		p.forget(id)
		p.abort(now, t, OutOfTime)
	default:
		return t
	}
	return nil
}

func (p *Partition) forget(id TransactionID) {
	p.transactions = slices.DeleteFunc(p.transactions, func(t *transaction) bool { return t.id == id })
}

// Lost forgets what only lived in memory.
func (p *Partition) Lost() {
	p.transactions, p.committing, p.ended = nil, nil, map[TransactionID]bool{}
}

// abort ends a transaction without a trace but a record. Nobody waits for that, unless messages
// come back with it that no client can settle.
func (p *Partition) abort(now int64, t *transaction, why Cause) {
	var back []locked
	for i, token := range t.final {
		if at, ok := p.liveLock(now, t, token); ok && !slices.Contains(t.final[:i], token) {
			back = append(back, at)
		}
	}
	if t.release(); len(back) == 0 {
		p.Fact(now)
	} else {
		p.record(now, true)
	}
	p.Aborted(now, t.id, why, len(back) == 0)
	for _, at := range back {
		p.failed(now, at.q, at.seq, nil, 0)
	}
}

// locked is a message that is.
type locked struct {
	q   *Queue
	seq uint64
}

// liveLock finds the message of a lock, unless that is over or of another transaction.
func (p *Partition) liveLock(now int64, t *transaction, token Token) (at locked, ok bool) {
	if other := p.pinnedBy(token); other != nil && other != t {
		return at, false
	}
	for _, q := range p.Queues {
		for _, m := range q.Live {
			if !m.locked() || m.Token != token {
				continue
			}
			ends := token
			if m.underSession(q) {
				ends = q.Sessions[m.Session].Holder
			}
			return locked{q, m.Seq}, slices.Contains(t.pins, token) || now < q.Until(m) || p.pinned(ends)
		}
	}
	return at, false
}

// Rollback ends a transaction: what it staged vanishes, and its locks are as they were (12.4), but
// those of final settlements.
func (p *Partition) Rollback(now int64, id TransactionID, why Cause) Refusal {
	t := p.discharged(now, id)
	if t == nil {
		return UnknownTransaction
	}
	p.forget(id)
	p.abort(now, t, why)
	return Accepted
}

// Commit carries out what was staged, in that order: all in one record, or nothing (12.4).
func (p *Partition) Commit(now int64, id TransactionID) Refusal {
	t := p.discharged(now, id)
	if t == nil {
		return UnknownTransaction
	}
	if t.failed || !p.enact(now, t) {
		p.forget(id)
		p.abort(now, t, Failed)
		return TransactionFailed
	}
	p.forget(id)
	return Accepted
}

// enact carries out a transaction, or leaves everything as it is.
func (p *Partition) enact(now int64, t *transaction) bool {
	before, news, copies := p.Records, len(p.News), p.Copies
	p.record(now, true)
	p.committing = &commit{t, map[*Queue]int64{}, map[*Queue]int64{}}
	for _, q := range p.Queues {
		p.committing.before[q] = q.Bytes()
	}
	defer func() { p.committing = nil }()
	for i := range t.staged {
		if p.perform(now, &t.staged[i]) != Accepted {
			p.Rewind(before)
			p.News, p.Copies = p.News[:news], copies
			return false
		}
	}
	return true
}

// perform carries out a staged operation.
func (p *Partition) perform(now int64, op *Operation) (r Refusal) {
	switch q := op.Queue; {
	case q.Dropped:
		return NoEntity
	case op.Kind == Sends && op.Via != 0:
		_, r = p.HandOver(now, q, op.Drafts, op.Via, op.Largest)
	case op.Kind == Sends:
		_, r = p.Send(now, q, op.Drafts)
	case op.Kind == Settles:
		_, r = p.Settle(now, q, op.Sub, op.Tokens, op.How, op.Change, op.Headers)
	case op.Kind == Cancels:
		r = p.Cancel(now, q, op.Seqs)
	default:
		r = p.SetState(now, q, op.Session, op.Token, op.State)
	}
	return r
}

// Stage takes an operation into a transaction, which the first one begins. Everything that would
// refuse it now does, with what is staged before it taken into account; nothing of it is seen
// (12.4). After a refusal the transaction can only be rolled back. Messages whose sender wants
// their numbers have them reserved, which is a record.
func (p *Partition) Stage(now int64, id TransactionID, op Operation) (numbers []uint64, r Refusal) {
	t, known := p.transactionOf(now, id)
	switch {
	case t == nil && known:
		return nil, UnknownTransaction
	case t == nil:
		t = &transaction{id: id, until: now + transactionLimit, bytes: map[*Queue]int64{}, states: map[*Session]int{},
			named: map[*Queue]map[uint64]bool{}}
		p.transactions = append(p.transactions, t)
	}
	switch q := op.Queue; {
	case t.sent+len(op.Drafts) > transactionSends:
		r = TooMany
	case op.Kind == Sends && p.NoSends:
		r = Busy
	case q.Dropped:
		r = NoEntity
	case op.Kind == Sends:
		numbers, r = p.stageSend(now, t, &op)
	case op.Kind == Settles:
		r = p.stageSettle(now, t, &op)
	case op.Kind == Cancels:
		r = t.stageCancel(&op)
	default:
		r = p.stageState(now, t, &op)
	}
	if op.Final {
		t.final = append(t.final, op.Tokens...)
	}
	if r != Accepted {
		t.failed = true
		return nil, r
	}
	t.sent += len(op.Drafts)
	t.staged = append(t.staged, op)
	return numbers, r
}

// quota is the queue whose limit counts for what is in another.
func (q *Queue) quota() *Queue {
	if q.Topic != nil {
		return q.Topic
	}
	return q
}

// stageSend reserves room for messages: for those of a topic what they would come to now. A
// duplicate is one, whatever happens until the commit.
func (p *Partition) stageSend(now int64, t *transaction, op *Operation) (numbers []uint64, r Refusal) {
	q := op.Queue
	if op.Via != 0 {
		size, r := p.mayHandOver(q, op.Drafts, op.Largest)
		t.bytes[q.quota()] += size
		return nil, r
	}
	op.Drafts = slices.Clone(op.Drafts)
	size, r := q.mayStore(op.Drafts)
	switch {
	case r != Accepted:
		return nil, r
	case q.Topic != nil:
		return nil, NotAllowed
	case !q.Settings.Topic && !p.fits(q, size):
		return nil, QuotaExceeded
	}
	before, scheduled, number := t.accepted(q), map[uint64]bool{}, q.Last
	size = 0
	for i := range op.Drafts {
		d := &op.Drafts[i]
		original, twice := q.duplicate(now, d.ID)
		if d.dropped, d.original = twice, original; twice {
			d.Body = nil // nobody will ever read it
		}
		if n, also := before[d.ID]; also && q.Settings.Window > 0 {
			original, twice = n, true
		}
		if twice && scheduled[original] {
			numbers = append(numbers, original)
			continue
		} else if twice {
			numbers = append(numbers, t.stillScheduled(q, original))
			continue
		}
		number++
		if op.Numbered {
			d.number, scheduled[number] = number, d.For > now
		}
		before[d.ID] = d.number
		numbers = append(numbers, number)
		if !q.Settings.Topic || d.For > now {
			size += int64(len(d.Body))
			continue
		}
		copies, r := p.copies(now, q, d, number, q.Settings.FilterFirst)
		if r != Accepted {
			return nil, r
		}
		for _, c := range copies {
			size += c.Message.bytes()
		}
	}
	if q.Settings.Topic && !p.fits(q, size) {
		return nil, QuotaExceeded
	}
	t.bytes[q.quota()] += size
	if op.Numbered && number > q.Last {
		p.reserve(now, q, number)
		for n, is := range scheduled {
			if is {
				t.name(q, n, true)
			}
		}
	}
	return numbers, Accepted
}

// accepted are the ids of what is staged for a queue, with the numbers that the messages have been
// given.
func (t *transaction) accepted(q *Queue) map[string]uint64 {
	ids := map[string]uint64{}
	for _, op := range t.staged {
		for i := range op.Drafts {
			if d := &op.Drafts[i]; op.Kind == Sends && op.Queue == q && op.Via == 0 && !d.dropped {
				if _, twice := ids[d.ID]; !twice {
					ids[d.ID] = d.number
				}
			}
		}
	}
	return ids
}

// reserve gives out all numbers up to upto: no other message ever gets them.
func (p *Partition) reserve(now int64, q *Queue, upto uint64) {
	p.record(now, true)
	last, used := q.Last, q.Used
	p.changing(func() {
		for n := last + 1; n <= upto; n++ {
			delete(q.Gone, n)
		}
		q.Last, q.Used = last, used
	})
	for n := last + 1; n <= upto; n++ {
		q.Gone[n] = Reserved
	}
	q.Last, q.Used = upto, true
}

// name notes that a scheduled message will be there, or gone.
func (t *transaction) name(q *Queue, seq uint64, there bool) {
	if t.named[q] == nil {
		t.named[q] = map[uint64]bool{}
	}
	t.named[q][seq] = there
}

// stillScheduled is the number a duplicate is answered with.
func (t *transaction) stillScheduled(q *Queue, seq uint64) uint64 {
	if there, is := t.named[q][seq]; is && there {
		return seq
	} else if is {
		return 0
	}
	return q.stillScheduled(seq)
}

// stageSettle pins the locks of messages, and those of their sessions.
func (p *Partition) stageSettle(now int64, t *transaction, op *Operation) Refusal {
	q := op.Queue
	found, r := p.mayEnd(now, q, op.Sub, op.Tokens, op.How)
	if r != Accepted {
		return r
	}
	for i, m := range found {
		if op.Sub != Main && len(op.Change.Bytes) > 0 && len(op.Change.Bytes) > m.room(op.Headers[i]) {
			return Invalid
		}
	}
	for _, m := range found {
		t.pins = append(t.pins, m.Token)
		if m.underSession(q) {
			t.holds = append(t.holds, q.Sessions[m.Session].Holder)
		}
	}
	return Accepted
}

// stageCancel notes that scheduled messages will be gone.
func (t *transaction) stageCancel(op *Operation) Refusal {
	q := op.Queue
	if q.Settings.NoSend && q.Settings.NoReceive {
		return Disabled
	}
	for i, seq := range op.Seqs {
		if t.stillScheduled(q, seq) == 0 || slices.Contains(op.Seqs[:i], seq) {
			return NotFound
		}
	}
	for _, seq := range op.Seqs {
		t.name(q, seq, false)
	}
	return Accepted
}

// stageState keeps a session's lock, and reserves room for its state.
func (p *Partition) stageState(now int64, t *transaction, op *Operation) Refusal {
	q := op.Queue
	if held, ok := p.holder(now, q, op.Token); !ok || held != op.Session {
		return SessionLost
	}
	s := q.Sessions[op.Session]
	before, staged := t.states[s]
	if !staged {
		before = len(s.State)
	}
	switch more := int64(len(op.State) - before); {
	case int64(len(op.State)) > q.quota().Settings.MaxMessage:
		return TooLarge
	case !p.fits(q, more):
		return QuotaExceeded
	case more > 0: // what becomes less comes behind what needs the room
		t.bytes[q.quota()] += more
	}
	t.states[s] = len(op.State)
	t.holds = append(t.holds, op.Token)
	return Accepted
}

// overdue is the open transaction whose time is over first, or nil.
func (p *Partition) overdue() (first *transaction) {
	for _, t := range p.transactions {
		if !t.over && (first == nil || t.until < first.until) {
			first = t
		}
	}
	return first
}
