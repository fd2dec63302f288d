package servicebus

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Refusals made here, without asking the engine, are written to the log as those of the engine are.

// noteRefused logs that a settlement was refused. A delivery state that is not a settlement has no
// name in the log and is left out.
func (l *link) noteRefused(token event.LockToken, wanted engine.SettleOutcome, why engine.Code) {
	if wanted == 0 {
		return
	}
	at := l.target.OfToken(token)
	l.c.batch.add(l.target.Host(at), engine.Request{Command: &engine.Note{Origin: l.origin, Fact: &event.SettlementRefused{
		Envelope: event.Envelope{Slice: l.target.Slice(at)}, SubQueue: l.target.SubQueue, Token: token, Wanted: wanted.Wanted(), Why: why.Refusal()}}})
}

// noteUnsent logs that a delivery was refused. It counts as one, whatever the number of its
// messages. The log adds up these counts.
func (l *link) noteUnsent(symbol amqp.Symbol) {
	if l.at.node() {
		return // a request
	}
	why := event.RefusedInvalid
	switch symbol {
	case amqp.CondMessageSizeExceeded:
		why = event.RefusedTooLarge
	case amqp.CondNotAllowed:
		why = event.RefusedNotAllowed
	case amqp.CondNotImplemented:
		why = event.RefusedOther
	}
	l.c.batch.add(l.target.Host(0), engine.Request{Command: &engine.Note{Origin: l.origin, Fact: &event.SendsRefused{
		Envelope: event.Envelope{Slice: l.target.Slice(0)}, Why: why, Count: 1}}})
}
