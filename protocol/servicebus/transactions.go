package servicebus

import (
	"bytes"
	"container/list"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// transactions holds the open transactions of a connection, by id (7). The staged operations are in
// the partition of the first one. Here is the state that allows checks without the partition, and
// the work after the end of a transaction.
type transactions struct {
	// set once in newTransactions
	c *conn

	open     map[event.TransactionID]*transaction
	line     list.List // transactions with operations, in the order in which they began
	occupied int       // transactions that a partition knows
}

// transaction is an open transaction.
type transaction struct {
	id          event.TransactionID
	coordinator *link // that it was declared on
	failed      bool  // an operation was refused: it can only be rolled back
	gone        bool  // the partition has ended it by time-out
	partial     int   // deliveries in it with missing frames

	// from the first operation on
	//
	// the top-level entity of all operations; 0: no operation yet
	entity event.EntityID
	slice  event.Slice
	host   engine.PartitionID
	one    oneKey // shared by the messages of a partitioned entity
	began  time.Time
	inLine *list.Element // in the line; nil: not there
	sent   int           // messages
	bytes  int           // staged
	memory stagingMemory // of its sends

	// deliveries that the peer gave an outcome to. They stay unsettled until the transaction ends:
	// after a rollback they are locked as before.
	settled []sentDelivery
	tokens  []event.LockToken // by a request
	lost    []lostDelivery
}

// lostDelivery is a delivery that the peer has settled in a transaction, and whose settlement was
// refused before its partition was asked. The peer cannot settle it again.
type lostDelivery struct {
	on    *receiver
	token event.LockToken
}

// Bytes of memory that staged data takes in addition to its own bytes until its transaction ends.
const (
	transactionCost = 512 // a declared transaction
	stagedCost      = 512 // an operation
	lostCost        = 64  // a delivery that is released at the end of the transaction
)

// Texts that refuse operations in a transaction.
const (
	spanText   = "Local transactions cannot span multiple top-level entities such as queue or topic."
	failedText = "The transaction has failed because one of its operations was refused. It can only be rolled back."
	noPartText = "Messages sent on this link cannot be part of a transaction."
)

// Texts for limits of all transactions of a connection, or of all connections.
const (
	declaredText = "At most %d transactions may be declared on the connection and not discharged."
	heldText     = "The sessions, links and transactions of the connection take too much memory; at most %d bytes are allowed."
	occupiedText = "At most %d transactions with operations may be open on a connection (limits.transactions)."
	allText      = "At most %d transactions with operations may be open on all connections together (limits.all-transactions)."
	stagedText   = "At most %d bytes may be staged in the transactions of a connection (limits.transaction-bytes)."
	allBytesText = "At most %d bytes may be staged in the transactions of all connections together (limits.all-transaction-bytes)."
)

func newTransactions(c *conn) transactions {
	return transactions{c: c, open: make(map[event.TransactionID]*transaction)}
}

// declare begins a transaction, or refuses to.
func (t *transactions) declare(id event.TransactionID, on *link) (*transaction, *engine.Error) {
	switch most := t.c.allowed.declared(); {
	case len(t.open) >= most:
		return nil, engine.Refuse(engine.QuotaExceeded, declaredText, most)
	case !t.c.memory.hasRoom(transactionCost):
		return nil, engine.Refuse(engine.QuotaExceeded, heldText, t.c.allowed.held())
	case !t.c.memory.reserve(transactionCost):
		return nil, errNoMemory
	}
	x := &transaction{id: id, coordinator: on}
	t.open[id] = x
	if on.sender.declared == nil {
		on.sender.declared = make(map[event.TransactionID]*transaction)
	}
	on.sender.declared[id] = x
	t.c.memory.hold(transactionCost)
	return x, nil
}

// find returns the open transaction with an id, nil if there is none: it was never one of this
// connection, or has ended.
func (t *transactions) find(id []byte) *transaction {
	if len(id) != len(event.TransactionID{}) {
		return nil
	}
	return t.open[event.TransactionID(id)]
}

// stagedOperation describes an operation that will be part of a transaction.
type stagedOperation struct {
	on        engine.Target // target of the operation
	partition uint8         // of the target
	messages  int           // number to send
	bytes     int           // to keep
	key       oneKey        // of messages of a partitioned entity
	ask       *engine.Stage // space for the command; nil: it is allocated
}

// stage registers an operation in a transaction, and returns the command for its partition. If it
// refuses the operation, it marks the transaction as failed.
func (t *transactions) stage(x *transaction, operation engine.Command, s stagedOperation, now time.Time) (engine.Command, *engine.Error) {
	s.bytes += stagedCost
	if !t.c.memory.reserve(s.bytes) {
		x.failed = true
		return nil, errNoMemory
	}
	if err := t.check(x, &s); err != nil {
		x.failed = true
		return nil, err
	}
	if x.entity == 0 {
		x.entity, x.slice, x.host, x.began = topLevel(s.on.Entity), s.on.Slice(s.partition), s.on.Host(s.partition), now
		t.occupied++
		x.inLine = t.line.PushBack(x)
		t.c.timers.by(t.c, now.Add(overtime))
	}
	x.one.join(&s.key)
	x.sent += s.messages
	x.bytes += s.bytes
	t.c.memory.stage(s.bytes)
	if s.ask == nil {
		s.ask = new(engine.Stage)
	}
	*s.ask = engine.Stage{Transaction: x.id, Operation: operation, Bytes: s.bytes}
	return s.ask, nil
}

// check refuses an invalid operation. It counts an accepted one among those of all connections.
func (t *transactions) check(x *transaction, s *stagedOperation) *engine.Error {
	switch {
	case t.open[x.id] != x: // it was discharged while the operation was not complete
		return engine.NoTransaction(x.id[:])
	case x.failed:
		return &engine.Error{Code: engine.TransactionFailed, Text: failedText}
	case x.entity == 0 && t.occupied >= t.c.limits.Transactions:
		return engine.Refuse(engine.QuotaExceeded, occupiedText, t.c.limits.Transactions)
	case x.entity != 0 && x.entity != topLevel(s.on.Entity):
		return &engine.Error{Code: engine.NotAllowed, Text: spanText}
	case len(s.on.Entity.Hosts) > 1 && x.spreads(s) != "":
		return &engine.Error{Code: engine.NotAllowed, Text: x.spreads(s)}
	case x.sent+s.messages > engine.MaxTransactionMessages:
		return &engine.Error{Code: engine.QuotaExceeded, Text: engine.TooManySentText}
	case !t.c.memory.mayStage(s.bytes):
		return engine.Refuse(engine.QuotaExceeded, stagedText, t.c.limits.TransactionBytes)
	case !t.c.staged.take(s.bytes):
		return engine.Refuse(engine.QuotaExceeded, allBytesText, t.c.limits.AllStagedBytes)
	case x.entity == 0 && !t.c.occupied.take(1):
		t.c.staged.give(s.bytes)
		return engine.Refuse(engine.QuotaExceeded, allText, t.c.limits.AllTransactions)
	}
	return nil
}

// name returns the id of a transaction; zero if x is nil.
func (x *transaction) name() event.TransactionID {
	if x == nil {
		return event.TransactionID{}
	}
	return x.id
}

// refused notes the partition's refusal of an operation, if that is part of a transaction.
func (x *transaction) refused(err error) {
	x.fail()
	var e *engine.Error
	if x != nil && errors.As(err, &e) {
		x.gone = x.gone || e.Code == engine.UnknownTransaction
	}
}

// fail notes that an operation was refused, if it is part of a transaction.
func (x *transaction) fail() {
	if x != nil {
		x.failed = true
	}
}

// part says which transaction an operation is part of, according to its delivery state (7.3).
type part struct {
	marked  bool          // the delivery state names a transaction
	in      *transaction  // nil: none
	unknown *engine.Error // why there is none although marked is set
	unended bool          // frames are missing
}

// partOf reads a delivery state.
func (t *transactions) partOf(state amqp.DeliveryState) part {
	marked, ok := state.(amqp.TransactionalState)
	if !ok {
		return part{}
	}
	p := part{marked: true, in: t.find(marked.TxnID)}
	if p.in == nil {
		p.unknown = engine.NoTransaction(marked.TxnID)
	}
	return p
}

// same checks the state of a further frame, which may only repeat that of the first one.
func (p *part) same(state amqp.DeliveryState) {
	if marked, ok := state.(amqp.TransactionalState); ok && (p.in == nil || !bytes.Equal(p.in.id[:], marked.TxnID)) {
		p.in.fail()
		p.marked, p.unknown = true, engine.NoTransaction(marked.TxnID)
	}
}

// goesOn notes whether frames are missing: a transaction may not be discharged before they have
// arrived.
func (p *part) goesOn(more bool) {
	if p.in == nil || more == p.unended {
		return
	}
	p.unended = more
	if more {
		p.in.partial++
	} else {
		p.in.partial--
	}
}

// lose keeps a delivery until the end of the transaction. Otherwise its client would get it again
// at once, in a transaction that has failed. If there is no memory for that, its lock expires.
func (t *transactions) lose(x *transaction, of lostDelivery) {
	if t.c.memory.mayHold(lostCost) {
		t.c.memory.hold(lostCost)
		x.lost = append(x.lost, of)
	}
}

// end removes a transaction: its id is unknown from now on. Its staged data counts until the
// partition has released it. Lost deliveries are released: a transaction that has any is not
// committed.
func (t *transactions) end(x *transaction) {
	if t.open[x.id] != x {
		return
	}
	delete(t.open, x.id)
	delete(x.coordinator.sender.declared, x.id)
	if x.inLine != nil {
		t.line.Remove(x.inLine)
		x.inLine = nil
	}
	for _, of := range x.lost {
		of.on.unlock(of.token, engine.Abandon)
	}
	t.c.memory.hold(-transactionCost - len(x.lost)*lostCost)
	x.lost = nil
}

// release frees the staged data of a transaction once it is not needed any more.
func (t *transactions) release(x *transaction) {
	if x.entity != 0 {
		t.occupied--
		t.c.occupied.give(1)
	}
	t.c.memory.stage(-x.bytes)
	t.c.staged.give(x.bytes)
	x.bytes, x.entity = 0, 0
}

// topLevel returns the entity that has to be the same for all operations of a transaction: a queue,
// or a topic with its subscriptions.
func topLevel(e *engine.Entity) event.EntityID {
	if e.Kind == event.Subscription {
		return e.Topic
	}
	return e.ID
}

// ceiling is a limit, of bytes or transactions, that all connections of a server share. It is safe
// for concurrent use.
type ceiling struct {
	most int64
	used atomic.Int64
}

// take takes n and reports whether that was available.
func (b *ceiling) take(n int) bool {
	if b.used.Add(int64(n)) <= b.most {
		return true
	}
	b.give(n)
	return false
}

// give returns n.
func (b *ceiling) give(n int) { b.used.Add(-int64(n)) }
