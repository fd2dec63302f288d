package engine

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Semantics 1.1, 9.1: a topic's transfer dead-letter queue has receivers. Messages are locked there
// for the default duration, may fail any number of times, and cannot be dead-lettered further.
func TestTopicTransferDeadLetters(t *testing.T) {
	t.Parallel()
	p := NewPartition(0, 1, index.New())
	at := event.Time(1000)
	apply := func(events ...event.Event) {
		for _, ev := range events {
			p.Apply(at, ev)
		}
	}
	decide := func(cmd Command) Reply {
		out := p.Decide(at, cmd)
		apply(out.Events...)
		return out.Reply
	}
	const queue = 2
	id := event.Slice{Entity: 1}
	p.Configure(&Entity{ID: 1, Kind: event.Topic, Path: "t", Properties: DefaultProperties(event.Topic)})
	in := event.Envelope{Slice: id}
	apply(&event.MessageHandedOver{Envelope: in, Sequence: 1, MessageID: []byte("m"), EnqueuedAt: at, TimeToLive: time.Hour, Body: event.Blob{Size: 9}, Destination: queue, Number: 1},
		&event.TransferFailed{Envelope: in, Number: 1, SubQueue: event.TransferDeadLetter, Reason: "gone"})

	var token event.LockToken
	for round := range 12 { // a queue's own limit is 10
		token = event.LockToken{byte(round + 1)}
		r := decide(&Receive{Slice: id, SubQueue: event.TransferDeadLetter, Token: token})
		given := r.Delivery()
		if given == nil {
			t.Fatalf("round %d: nothing to receive: %+v", round, r)
		}
		if given.LockedUntil != at.Add(time.Minute) || given.DeliveryCount != 0 || given.SubQueue != event.TransferDeadLetter || given.TimeToLive >= 0 {
			t.Errorf("round %d: %+v", round, given)
		}
		if round == 11 {
			break
		}
		if r := decide(&Settle{Slice: id, SubQueue: event.TransferDeadLetter, Token: token, Outcome: Abandon}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	at = at.Add(30 * time.Second)
	if r := decide(&Renew{Slice: id, SubQueue: event.TransferDeadLetter, Tokens: []event.LockToken{token}}); r.Err != nil || r.Answer.(Times)[0] != at.Add(time.Minute) {
		t.Errorf("renewed: %+v", r)
	}
	if r := decide(&Settle{Slice: id, SubQueue: event.TransferDeadLetter, Token: token, Outcome: MoveToDeadLetter}); code(r.Err) != NotAllowed {
		t.Errorf("dead-lettered from there: %v", r.Err)
	}
	if r := decide(&Settle{Slice: id, SubQueue: event.TransferDeadLetter, Token: token, Outcome: Complete}); r.Err != nil || p.index.Live() != 0 {
		t.Errorf("completed: %v, and %d messages are left", r.Err, p.index.Live())
	}
}
