package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// verdict is an outcome without text, so that several equal ones can be sent as one range.
type verdict uint8

const (
	noVerdict verdict = iota
	accepted
	released
	abandoned
	deferred
	deadLettered
)

var verdictStates = [...]amqp.DeliveryState{
	accepted:     amqp.StateAccepted,
	released:     amqp.StateReleased,
	abandoned:    amqp.Modified{},
	deferred:     amqp.Modified{UndeliverableHere: true},
	deadLettered: amqp.Rejected{}, // with a null error: the request was carried out (0.8)
}

var verdictOf = [...]verdict{
	engine.Complete: accepted, engine.Abandon: abandoned, engine.Release: released,
	engine.Defer: deferred, engine.MoveToDeadLetter: deadLettered,
}

// maxConfirmed bounds a range of confirmed settlements, because a go-amqp receiver goes through the
// whole range once for each delivery in it.
const maxConfirmed = 16

// answers joins dispositions of contiguous delivery-ids with the same outcome into one frame.
type answers struct {
	out         *output
	answer      // the answer to the deliveries first to last
	first, last uint32
}

// answer is a disposition without its range of deliveries.
type answer struct {
	s       *session
	role    amqp.Role
	verdict verdict
	in      event.TransactionID // transaction of the deliveries; zero: none
	open    bool                // the deliveries stay unsettled
}

// settle answers one delivery. role is the broker's: receiver to a sending peer, sender to a
// receiving one.
func (a *answers) settle(s *session, role amqp.Role, id uint32, v verdict) {
	a.settleIn(event.TransactionID{}, s, role, id, v)
}

// settleIn is settle for a delivery that came as part of a transaction. If a delivery came without
// a transaction, the answer must not name one: the peer could not decode it (7.3).
func (a *answers) settleIn(in event.TransactionID, s *session, role amqp.Role, id uint32, v verdict) {
	a.add(id, answer{s: s, role: role, verdict: v, in: in})
}

// stage confirms the outcome that a receiving peer gave to a delivery in a transaction. The
// delivery stays unsettled until the transaction ends (7.3).
func (a *answers) stage(in event.TransactionID, s *session, id uint32, v verdict) {
	a.add(id, answer{s: s, role: amqp.RoleSender, verdict: v, in: in, open: true})
}

func (a *answers) add(id uint32, as answer) {
	if a.answer == as && id == a.last+1 && (as.role == amqp.RoleReceiver || id-a.first < maxConfirmed) {
		a.last = id
		return
	}
	a.flush()
	a.answer, a.first, a.last = as, id, id
}

// state answers one delivery with a state of its own.
func (a *answers) state(s *session, role amqp.Role, id uint32, state amqp.DeliveryState) {
	a.flush()
	a.write(answer{s: s, role: role}, id, id, state)
}

// reject answers one delivery with an error.
func (a *answers) reject(s *session, role amqp.Role, id uint32, symbol amqp.Symbol, text string) {
	a.rejectRange(answer{s: s, role: role}, id, id, symbol, text)
}

func (a *answers) rejectRange(as answer, first, last uint32, symbol amqp.Symbol, text string) {
	a.flush()
	a.write(as, first, last, amqp.Rejected{Error: &amqp.Error{Condition: symbol, Description: text}})
}

// flush writes the open range.
func (a *answers) flush() {
	if a.verdict == noVerdict {
		return
	}
	as := a.answer
	state := verdictStates[as.verdict]
	if a.in != (event.TransactionID{}) {
		in := a.in
		state = amqp.TransactionalState{TxnID: in[:], Outcome: state}
	}
	a.answer = answer{}
	a.write(as, a.first, a.last, state)
}

func (a *answers) write(as answer, first, last uint32, state amqp.DeliveryState) {
	if as.s.ended {
		return
	}
	a.out.disposition(as.s.channel, &amqp.Disposition{
		Role: as.role, First: first, Last: amqp.Some(last), Settled: !as.open, State: state,
	})
}
