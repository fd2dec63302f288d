package engine

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Bounds of one transaction, and of the open ones of a partition.
const (
	// transactionLimit is the longest time that a transaction may take, from its first operation
	// on.
	transactionLimit = 2 * time.Minute
	// maxStaged is the most messages that its other operations name, and maxStagedBytes the most
	// memory that all of them take: a commit writes one record. Choices.
	maxStaged      = 1 << 14
	maxStagedBytes = 64 << 20
	// stagedOverhead is the count of bytes for an operation in addition to its own.
	stagedOverhead = 256
	// maxTransactions is the most transactions of a partition that may be open, or overdue and not
	// discharged. maxEnded is the number of discharged ones that it remembers, so that an operation
	// still on its way does not begin a new one.
	maxTransactions = 1 << 16
	maxEnded        = 1 << 12
)

// transactions are the transactions of a partition that have not been discharged. They are only in
// memory: staged operations are lost with the process, and the log has nothing of them.
type transactions struct {
	index *index.Index // for the locks
	none  *Error       // why no operation is staged; nil: operations are
	byID  map[event.TransactionID]*transaction
	line  struct{ first, last *transaction } // open transactions in the order of their deadlines
	ended struct {
		ids  map[event.TransactionID]bool
		ring []event.TransactionID
		next int
	}
	pins map[event.LockToken]*transaction // by the locks of messages that they settle
	// bytes that commits may store, by the slice whose quota they count toward
	bytes map[event.Slice]int64
}

// transaction is a list of operations that are carried out together or not at all.
type transaction struct {
	id         event.TransactionID
	slice      event.Slice // of the first operation
	began      event.Time
	over       bool // overdue: it waits for its discharge, which will fail
	failed     bool // an operation was refused
	operations []Command
	sent       int               // messages sent
	named      int               // messages named by the other operations
	size       int               // of the operations in memory, bytes
	pinned     []event.LockToken // by its operations, one by one
	// the first token of each settlement that must come again once its messages were read
	unread []event.LockToken
	final  []event.LockToken // of settlements that are [Settle.Final], including refused ones
	done   scratch           // changes by its operations, besides numbers

	before, behind *transaction // in the line
}

func (t *transaction) end() event.Time { return t.began.Add(transactionLimit) }

func newTransactions(x *index.Index) transactions {
	return transactions{index: x, byID: map[event.TransactionID]*transaction{}, pins: map[event.LockToken]*transaction{}, bytes: map[event.Slice]int64{}}
}

// deadline returns when the next transaction becomes overdue; 0: none is open.
func (t *transactions) deadline() event.Time {
	if t.line.first == nil {
		return 0
	}
	return t.line.first.end()
}

// enter adds a new transaction.
func (t *transactions) enter(tx *transaction) {
	t.byID[tx.id] = tx
	if tx.before = t.line.last; tx.before != nil {
		tx.before.behind = tx
	} else {
		t.line.first = tx
	}
	t.line.last = tx
}

// leave takes a transaction out of the line.
func (t *transactions) leave(tx *transaction) {
	if tx.before != nil {
		tx.before.behind = tx.behind
	} else {
		t.line.first = tx.behind
	}
	if tx.behind != nil {
		tx.behind.before = tx.before
	} else {
		t.line.last = tx.before
	}
	tx.before, tx.behind = nil, nil
}

// reserved returns how many bytes commits may add to the quota of a slice, leaving out one
// transaction.
func (t *transactions) reserved(id event.Slice, but *transaction) int64 {
	if len(t.bytes) == 0 {
		return 0
	}
	n := t.bytes[id]
	if but != nil {
		own, _ := but.done.bytes.get(id)
		n -= own
	}
	return n
}

// hold keeps a lock that a transaction relies on from ending by its time.
func (t *transactions) hold(tx *transaction, token event.LockToken) {
	t.index.Hold(token)
	tx.pinned = append(tx.pinned, token)
}

// release forgets the staged operations of a transaction. Locks end by their times again.
func (t *transactions) release(tx *transaction) {
	if tx.over {
		return
	}
	t.leave(tx)
	for _, token := range tx.pinned {
		t.index.Unhold(token)
		delete(t.pins, token)
	}
	for id, n := range tx.done.bytes.each {
		if t.bytes[id] -= n; t.bytes[id] == 0 {
			delete(t.bytes, id)
		}
	}
	tx.operations, tx.pinned, tx.unread, tx.final, tx.done, tx.over = nil, nil, nil, nil, scratch{}, true
}

// forget ends a discharged transaction. Later operations for it find none.
func (t *transactions) forget(tx *transaction) {
	t.release(tx)
	delete(t.byID, tx.id)
	t.remember(tx.id)
}

// remember keeps a transaction from beginning under an id again.
func (t *transactions) remember(id event.TransactionID) {
	e := &t.ended
	if e.ids == nil {
		e.ids = map[event.TransactionID]bool{}
	}
	if len(e.ring) < maxEnded {
		e.ring = append(e.ring, id)
	} else {
		delete(e.ids, e.ring[e.next])
		e.ring[e.next] = id
		e.next = (e.next + 1) % maxEnded
	}
	e.ids[id] = true
}

// pinned reports whether a transaction relies on a lock, so that it does not end by its time.
func (d *decision) pinned(token event.LockToken) bool {
	l, ok := d.index.Lock(token)
	return ok && l.Held
}

// isStaged reports whether the settlement of a message waits for a commit other than this decision.
func (d *decision) isStaged(token event.LockToken) bool {
	if len(d.transactions.pins) == 0 {
		return false
	}
	tx := d.transactions.pins[token]
	return tx != nil && tx != d.committing
}

// stage decides an operation on the state and the operations staged before it. It writes nothing
// but the numbers that the client learns.
func (p *Partition) stage(d *decision, cmd *Stage) *Error {
	t, staging := &p.transactions, &d.staging
	tx := t.byID[cmd.Transaction]
	staging.operation = measureStage(cmd)
	switch {
	case tx == nil && t.ended.ids[cmd.Transaction], tx != nil && (tx.over || d.now >= tx.end()):
		return NoTransaction(cmd.Transaction[:])
	case tx == nil && (t.none != nil || len(t.byID) >= maxTransactions):
		// the rest must not be committed without this operation
		d.adopt = func() { t.remember(cmd.Transaction) }
		if t.none != nil {
			return t.none
		}
		return Refuse(Busy, "At most %d transactions may be open in a partition.", maxTransactions)
	case tx == nil:
		tx = &transaction{id: cmd.Transaction, slice: staging.operation.slice(), began: d.now, operations: make([]Command, 0, 8)}
	}
	var err *Error
	staging.done, err = p.try(d, tx, &staging.operation)
	staging.in, staging.failed = tx, err != nil
	return err
}

// stagingPlan is an operation that a decision has looked at for a transaction. It is in the
// decision's memory, because there are many.
type stagingPlan struct {
	in           *transaction // nil: there is none
	operation    stagedOperation
	done, failed bool
}

// adopt applies the staging of an operation to its transaction.
func (t *transactions) adopt(s *stagingPlan, done *scratch) {
	tx := s.in
	if t.byID[tx.id] == nil {
		t.enter(tx)
	}
	if settle, ok := s.operation.cmd.(*Settle); ok && settle.Final && len(tx.final) < maxStaged {
		tx.final = append(append(tx.final, settle.Token), settle.More...)
	}
	switch {
	case s.failed:
		tx.failed = true
	case s.done:
		t.keep(tx, &s.operation, done)
	default:
		tx.awaits(&s.operation)
	}
}

// try decides an operation; done is false if the caller has to read messages first.
func (p *Partition) try(d *decision, tx *transaction, op *stagedOperation) (done bool, _ *Error) {
	if err := tx.room(op); err != nil {
		return false, err
	}
	d.scratch.several, d.scratch.before = true, &tx.done
	if err := p.decide(d, op.cmd); err != nil {
		return false, err
	}
	d.events, d.named, d.early = d.events[:0], d.named[:0], false
	if settle, ok := op.cmd.(*Settle); ok && settle.Unread && d.reply.Answer != nil {
		return false, nil
	}
	op.find(d)
	if send, ok := op.cmd.(*Send); ok {
		d.reserve(send, op.found)
	}
	return true, nil
}

// reserve adds the event that assigns the numbers with which a staged send is answered. No other
// message ever gets them, whatever happens to the transaction and to this process.
func (d *decision) reserve(cmd *Send, found []stagedMessage) {
	var given uint32
	for i := range found {
		if found[i].number != 0 {
			given++
		}
	}
	if given == 0 {
		return
	}
	first, origin := d.index.NextSequence(cmd.Slice), d.origin(cmd.Origin)
	ev := add[*event.NumbersReserved](d, event.KindNumbersReserved)
	ev.Envelope, ev.First, ev.Count = event.Envelope{Slice: cmd.Slice, Origin: origin}, first, given
}

// room refuses an operation that exceeds the bounds of a transaction.
func (tx *transaction) room(op *stagedOperation) *Error {
	switch {
	case tx.sent+op.sent > MaxTransactionMessages:
		return Refuse(QuotaExceeded, TooManySentText)
	case tx.named+op.named > maxStaged:
		return Refuse(QuotaExceeded, "Cannot settle or cancel more than %d messages in a single transaction.", maxStaged)
	case tx.size+op.size > maxStagedBytes:
		return Refuse(QuotaExceeded, "The transaction has too many bytes; at most %d are allowed.", maxStagedBytes)
	}
	return nil
}

// keep adds an operation to a transaction, with the findings of the decision about it.
func (t *transactions) keep(tx *transaction, op *stagedOperation, done *scratch) {
	tx.sent, tx.named, tx.size = tx.sent+op.sent, tx.named+op.named, tx.size+op.size
	op.keep()
	tx.arrives(op)
	tx.operations = append(tx.operations, op.cmd)
	for _, token := range op.locks() {
		t.hold(tx, token)
		l, _ := t.index.Lock(token)
		if !l.OfSession() {
			t.pins[token] = tx
		}
		if session, under := t.sessionOf(&l); under {
			t.hold(tx, session)
		}
	}
	for id, n := range done.bytes.each {
		if n > 0 { // a decrease comes after the operations that need the room
			own, _ := tx.done.bytes.get(id)
			tx.done.bytes.set(id, own+n)
			t.bytes[id] += n
		}
	}
	op.merge(&tx.done, done)
}

// awaits notes that a settlement must come again, and arrives notes that it has come: a commit in
// between would leave it out.
func (tx *transaction) awaits(op *stagedOperation) {
	if token := op.cmd.(*Settle).Token; !slices.Contains(tx.unread, token) {
		tx.unread = append(tx.unread, token)
	}
}

func (tx *transaction) arrives(op *stagedOperation) {
	if settle, ok := op.cmd.(*Settle); ok {
		tx.unread = slices.DeleteFunc(tx.unread, func(t event.LockToken) bool { return t == settle.Token })
	}
}

// sessionOf returns the lock of the session under which a message is locked.
func (t *transactions) sessionOf(l *index.Lock) (_ event.LockToken, under bool) {
	if l.OfSession() || l.Until != 0 {
		return event.LockToken{}, false
	}
	m, _ := t.index.Message(l.Slice, l.Sequence)
	held, _ := t.index.Session(l.Slice, []byte(m.SessionID))
	return held.Token, true
}

// commit decides all operations of a transaction in the order in which they were staged, as one
// record.
func (p *Partition) commit(d *decision, cmd *Commit) *Error {
	tx, err := p.discharge(d, cmd.Transaction)
	if err != nil {
		return err
	}
	switch {
	case tx.failed:
		err = Refuse(TransactionFailed, "The transaction was rolled back: one of its operations was refused.")
	case len(tx.unread) > 0:
		err = Refuse(TransactionFailed, "The transaction was rolled back: one of its operations was not finished.")
	default:
		err = p.enact(d, tx, cmd)
	}
	if err != nil {
		d.events, d.named, d.early, d.reply, d.note = d.events[:0], d.named[:0], false, Reply{}, nil
		d.abort(tx, event.AbortFailed, cmd.Origin)
	}
	return err
}

// enact adds the events of a transaction. It refuses if one of its operations cannot be carried out
// any more.
func (p *Partition) enact(d *decision, tx *transaction, cmd *Commit) *Error {
	d.scratch.several, d.committing = true, tx
	origin := d.origin(cmd.Origin)
	ev := add[*event.TransactionCommitted](d, event.KindTransactionCommitted)
	ev.Envelope = event.Envelope{Slice: cmd.Slice, Origin: origin}
	ev.ID, ev.Operations, ev.DeclaredAt = tx.id, uint32(len(tx.operations)), tx.began
	for _, op := range tx.operations {
		if err := p.decide(d, op); err != nil {
			return Refuse(TransactionFailed, "The transaction was rolled back: %s", err.Text)
		}
	}
	if tx.size+d.fan.size() > maxPublish {
		return Refuse(TransactionFailed, "The transaction was rolled back: its messages and their copies would take more than %d bytes.", maxPublish)
	}
	d.early, d.reply = false, Reply{}
	return nil
}

// rollback forgets a transaction.
func (p *Partition) rollback(d *decision, cmd *Rollback) *Error {
	tx, err := p.discharge(d, cmd.Transaction)
	if err == nil {
		d.abort(tx, cmd.Cause, cmd.Origin)
	}
	return err
}

// discharge ends a transaction by commit or rollback. It refuses with UnknownTransaction; an
// overdue transaction has also ended then.
func (p *Partition) discharge(d *decision, id event.TransactionID) (*transaction, *Error) {
	tx := p.transactions.byID[id]
	if tx != nil {
		d.adopt = func() { p.transactions.forget(tx) }
		if !tx.over && d.now < tx.end() {
			return tx, nil
		}
		if !tx.over {
			d.abort(tx, event.AbortTimedOut, nil)
		}
	}
	return nil, Refuse(UnknownTransaction, "Transaction hasn't been declared yet, or has already been discharged")
}

// abort adds the fact that a transaction was not committed, and returns the messages that no client
// can settle any more.
func (d *decision) abort(tx *transaction, cause event.AbortCause, by *Origin) {
	origin := d.origin(by)
	ev := add[*event.TransactionAborted](d, event.KindTransactionAborted)
	ev.Envelope, ev.ID, ev.Cause = event.Envelope{Slice: tx.slice, Origin: origin}, tx.id, cause
	before := len(d.events)
	d.giveBack(tx, origin)
	d.lazy = len(d.events) == before
}

// giveBack abandons the messages of final settlements. A lock that is no longer live ends by
// itself, and one that another transaction relies on belongs to that.
func (d *decision) giveBack(tx *transaction, origin event.OriginID) {
	seen := make(map[event.LockToken]bool, len(tx.final))
	for _, token := range tx.final {
		l, known := d.index.Lock(token)
		if by := d.transactions.pins[token]; !known || seen[token] || by != nil && by != tx {
			continue
		}
		seen[token] = true
		s := settleDecision{slice: d.formerSlice(l.Slice), cmd: &Settle{Outcome: Abandon}}
		m, _ := d.index.Message(l.Slice, l.Sequence)
		if _, _, live := s.live(m.SubQueue, token); live {
			s.enactOne(origin, &m, token, changesSize(&m), nil)
		}
	}
}

// abortOverdue ends the transaction with the earliest deadline if that has passed, and reports
// whether there was one.
func (d *decision) abortOverdue() bool {
	t := d.transactions
	if at := t.deadline(); at == 0 || d.now < at {
		return false
	}
	tx := t.line.first
	d.abort(tx, event.AbortTimedOut, nil)
	d.adopt = func() { t.release(tx) }
	return true
}
