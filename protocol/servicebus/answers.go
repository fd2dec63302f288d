package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// verdict is an outcome that carries no text, so that equal ones can leave as one range.
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
	deadLettered: amqp.Rejected{}, // with a null error: it did what was asked (0.8)
}

var verdictOf = [...]verdict{
	engine.Complete: accepted, engine.Abandon: abandoned, engine.Release: released,
	engine.Defer: deferred, engine.MoveToDeadLetter: deadLettered,
}

// maxConfirmed bounds a range of confirmed settlements: a go-amqp receiver looks at all of a range once for each delivery
// in it.
const maxConfirmed = 16

// answers joins dispositions of contiguous delivery-ids with the same outcome into one frame.
type answers struct {
	out         *output
	s           *session
	role        amqp.Role
	verdict     verdict
	in          event.TransactionID // that the deliveries are part of; zero: none
	first, last uint32
}

// settle answers one delivery. role is ours: receiver to a sending peer, sender to a receiving one.
func (a *answers) settle(s *session, role amqp.Role, id uint32, v verdict) {
	a.settleIn(event.TransactionID{}, s, role, id, v)
}

// settleIn is settle for a delivery that came as part of a transaction. To one that came without a transaction the answer must not name one:
// the peer could not read it (7.3).
func (a *answers) settleIn(in event.TransactionID, s *session, role amqp.Role, id uint32, v verdict) {
	if a.verdict == v && a.in == in && a.s == s && a.role == role && id == a.last+1 && (role == amqp.RoleReceiver || id-a.first < maxConfirmed) {
		a.last = id
		return
	}
	a.flush()
	a.s, a.role, a.verdict, a.in, a.first, a.last = s, role, v, in, id, id
}

// state answers one delivery with a state of its own.
func (a *answers) state(s *session, role amqp.Role, id uint32, state amqp.DeliveryState) {
	a.flush()
	a.write(s, role, id, id, state)
}

// reject answers one delivery with an error.
func (a *answers) reject(s *session, role amqp.Role, id uint32, symbol amqp.Symbol, text string) {
	a.rejectRange(s, role, id, id, symbol, text)
}

func (a *answers) rejectRange(s *session, role amqp.Role, first, last uint32, symbol amqp.Symbol, text string) {
	a.flush()
	a.write(s, role, first, last, amqp.Rejected{Error: &amqp.Error{Condition: symbol, Description: text}})
}

// flush writes the range that is open.
func (a *answers) flush() {
	if a.verdict == noVerdict {
		return
	}
	state := verdictStates[a.verdict]
	if a.in != (event.TransactionID{}) {
		in := a.in
		state = amqp.TransactionalState{TxnID: in[:], Outcome: state}
	}
	a.verdict = noVerdict
	a.write(a.s, a.role, a.first, a.last, state)
	a.s = nil
}

func (a *answers) write(s *session, role amqp.Role, first, last uint32, state amqp.DeliveryState) {
	if s.ended {
		return
	}
	a.out.disposition(s.channel, &amqp.Disposition{
		Role: role, First: first, Last: amqp.Some(last), Settled: true, State: state,
	})
}
