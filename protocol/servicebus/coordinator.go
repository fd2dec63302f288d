package servicebus

import (
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// Texts of refusals by a coordinator.
const (
	distributedText = "Distributed transactions (a declare with a global-id) are not implemented."
	unfinishedText  = "The transaction was discharged while a delivery in it was not finished. It is rolled back."
	rolledBackText  = "The transaction is rolled back because one of its operations was refused."
	outcomeText     = "It is unknown whether the transaction was committed, because the partition stopped."
	notDeclaredText = "Transaction hasn't been declared yet, or has already been discharged"
)

// coordinates reports whether an attach is for a link on which the peer begins and ends
// transactions (7.1).
func coordinates(a *amqp.Attach) bool {
	_, ok := a.Target.(*amqp.Coordinator)
	return ok && a.Role == amqp.RoleSender
}

// resolveCoordinator allows a coordinator to every peer that may have a link: it belongs to no
// entity, and the operations of a transaction come on links that need a claim. One SDK attaches it,
// and declares, before it puts its first token.
func (l *link) resolveCoordinator(a *amqp.Attach) *amqp.Error {
	l.at = address{coordinator: true}
	l.origin = &engine.Origin{
		Connection: l.c.number, RemoteAddress: l.c.remote, ContainerID: l.c.peer.container, Product: l.c.peer.product, Link: a.Name,
	}
	return l.room(a)
}

// coordination lists the coordinator capabilities that the broker has (AMQP 4.5.10).
var coordination = []amqp.Symbol{"amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"}

// coordinatorOf returns the target for the answer to the attach of a coordinator.
func coordinatorOf(a *amqp.Attach) *amqp.Coordinator {
	granted := &amqp.Coordinator{}
	for _, c := range a.Target.(*amqp.Coordinator).Capabilities {
		if slices.Contains(coordination, c) && !slices.Contains(granted.Capabilities, c) {
			granted.Capabilities = append(granted.Capabilities, c)
		}
	}
	return granted
}

// control handles a message to a coordinator (7.2).
func (s *sender) control(body []byte) {
	asked, e := parseControl(body, s.l.c.decoder.Limits)
	if e != nil {
		s.reject(e.Condition, e.Description)
		return
	}
	switch asked := asked.(type) {
	case *amqp.Declare:
		s.declare(asked)
	case *amqp.Discharge:
		s.discharge(asked)
	}
}

func parseControl(b []byte, limits amqp.Limits) (amqp.Control, *amqp.Error) {
	sections, err := amqp.ScanMessage(b, limits)
	if err != nil {
		return nil, message.DecodeError(err)
	}
	_, value, _ := amqp.SectionContent(sections.Body.Of(b))
	asked, err := amqp.DecodeControl(value, limits)
	if err != nil || sections.BodyKind != amqp.BodyValue {
		return nil, refusal(amqp.CondDecodeError, "A message to a coordinator must be a declare or a discharge, as an amqp-value.")
	}
	return asked, nil
}

// declare begins a transaction. Its id is no secret: it means nothing on any other connection.
func (s *sender) declare(asked *amqp.Declare) {
	c := s.l.c
	if asked.GlobalID != nil {
		s.reject(amqp.CondNotImplemented, distributedText)
		return
	}
	x, err := c.transactions.declare(event.TransactionID(c.newUUID()), s.l)
	if err != nil {
		s.refuse(err)
		return
	}
	s.answer(amqp.Declared{TxnID: x.id[:]})
}

// answer settles the current delivery with a state; the link continues.
func (s *sender) answer(state amqp.DeliveryState) {
	if !s.delivery.settled {
		s.l.c.answers.state(s.l.s, amqp.RoleReceiver, s.delivery.id, state)
	}
	s.grant()
}

// discharge ends a transaction. The peer is answered once the partition has answered.
func (s *sender) discharge(asked *amqp.Discharge) {
	c := s.l.c
	x := c.transactions.find(asked.TxnID)
	switch {
	case x == nil:
		s.reject(amqp.CondTransactionUnknownID, notDeclaredText)
	case x.partial > 0: // this requires the link to end (AMQP 4.4.1)
		c.transactions.rollBack(x, event.AbortFailed)
		s.l.end(amqp.CondTransactionRollback, unfinishedText)
	case x.entity == 0: // no partition has operations of it
		c.transactions.end(x)
		if x.failed && !asked.Fail {
			s.reject(amqp.CondTransactionRollback, rolledBackText)
		} else {
			s.answer(amqp.StateAccepted)
		}
	default:
		s.end(x, asked.Fail)
	}
}

// end asks the partition to end a transaction.
func (s *sender) end(x *transaction, fail bool) {
	c := s.l.c
	p := pendingEntry{kind: pendingDischarge, link: s.l, delivery: s.delivery.id, settled: s.delivery.settled, in: x}
	s.credit.submit()
	switch {
	case fail:
		p.ends = rollsBack
		c.transactions.askRollback(x, event.AbortRolledBack, p)
	case x.failed:
		p.ends = rollsBackInstead
		c.transactions.askRollback(x, event.AbortFailed, p)
	default:
		p.ends = commits
		c.transactions.ask(x, &engine.Commit{Transaction: x.id, Slice: x.slice, Origin: s.l.origin}, p)
	}
	s.grant()
}

// endRequest is the request for the end of a transaction that a partition got.
type endRequest uint8

const (
	commits          endRequest = iota + 1
	rollsBack                   // requested by its client
	rollsBackInstead            // its client requested a commit, and an operation had failed
)

// discharged handles the partition's answer to the end of a transaction. If it is unknown whether a
// commit was done, the peer gets no outcome and the link ends: 'rejected' would claim that it was
// not done. A rollback has happened in any case, whatever the partition answers.
func (s *sender) discharged(p *pendingEntry, err error) {
	c := s.l.c
	c.transactions.over(p.in, p.ends == commits && err == nil, err)
	s.credit.answered()
	if s.l.detached {
		return
	}
	var refused *engine.Error
	known := errors.As(err, &refused)
	reject := func(symbol amqp.Symbol, text string) {
		if !p.settled {
			c.answers.reject(s.l.s, amqp.RoleReceiver, p.delivery, symbol, c.texts.suffixed(text, "", c.now))
		}
	}
	switch {
	case p.in.gone, known && refused.Code == engine.UnknownTransaction && p.ends != rollsBackInstead:
		reject(amqp.CondTransactionUnknownID, notDeclaredText)
	case p.ends == rollsBackInstead:
		reject(amqp.CondTransactionRollback, rolledBackText)
	case p.ends == commits && known:
		reject(amqp.CondTransactionRollback, refused.Text)
	case p.ends == commits && err != nil:
		s.l.end(amqp.CondDetachForced, outcomeText)
		return
	case !p.settled:
		c.answers.settle(s.l.s, amqp.RoleReceiver, p.delivery, accepted)
	}
	s.grant()
}
