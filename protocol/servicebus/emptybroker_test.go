package servicebus

import (
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// emptyBroker is an engine with a queue q, a session queue s, a topic t and its subscription
// t/subscriptions/u that answers everything at once and stores nothing: every message is the same
// one. A session by its id is granted unless a receiver holds it, the next available one never
// comes.
type emptyBroker struct {
	entities map[string]*engine.Entity
	assigned map[*engine.Receiver]uint32
	waiting  map[*engine.Receiver]engine.Request
	sessions map[string]*engine.Receiver // the holder of each session
	watchers []func(engine.Change)
	stored   []byte

	delivered uint64 // so far
}

func newEmptyBroker() *emptyBroker {
	b := &emptyBroker{
		entities: map[string]*engine.Entity{}, assigned: map[*engine.Receiver]uint32{}, waiting: map[*engine.Receiver]engine.Request{},
		sessions: map[string]*engine.Receiver{}, stored: newMessage("stored", "body"),
	}
	for i, path := range []string{"q", "s", "t", "t/subscriptions/u"} {
		kind := [...]event.EntityKind{event.Queue, event.Queue, event.Topic, event.Subscription}[i]
		e := &engine.Entity{ID: event.EntityID(i + 1), Kind: kind, Path: path, Properties: testProperties(kind), Hosts: []engine.PartitionID{0}}
		e.Properties.RequiresSession = path == "s"
		b.entities[path] = e
	}
	return b
}

func (b *emptyBroker) Serves(engine.PartitionID) bool { return true }

func (b *emptyBroker) Resolve(path string) (engine.Target, error) {
	if e := b.entities[path]; e != nil {
		return engine.Target{Entity: e}, nil
	}
	return engine.Target{}, &engine.Error{Code: engine.NotFound, Text: "no"}
}

func (b *emptyBroker) Submit(_ engine.PartitionID, rs []engine.Request) {
	for _, r := range rs {
		answer, refusal, later := b.answer(r)
		if r.Sink != nil && !later {
			r.Sink.Post([]engine.Reply{{Tag: r.Tag, Answer: answer, Err: refusal}})
		}
	}
}

// answer returns the answer to a request; later: there is none yet.
func (b *emptyBroker) answer(r engine.Request) (answer engine.Answer, refusal error, later bool) {
	switch cmd := r.Command.(type) {
	case *engine.Stage:
		return b.answer(engine.Request{Command: cmd.Operation, Sink: r.Sink, Tag: r.Tag})
	case *engine.Commit:
		if cmd.Slice.Entity == 2 { // of the queue with sessions
			refusal = engine.ErrUnknown
		}
	case *engine.Send:
		if cmd.Buffer != nil {
			cmd.Buffer.Release()
		}
		if cmd.Numbers {
			answer = make(engine.Numbers, len(cmd.Messages))
		}
	case *engine.Attach:
		return b.attach(cmd.Receiver, r)
	case *engine.Detach:
		b.detach(cmd.Receiver)
	case *engine.Flow:
		b.flow(cmd)
	case *engine.Settle:
		refusal = b.settle(cmd, r.Sink)
	case *engine.Renew:
		answer = make(engine.Times, len(cmd.Tokens))
	case *engine.RenewSession:
		answer = engine.Times{b.Now()}
	case *engine.Peek:
		answer = engine.Messages{*b.delivery(), *b.delivery()}
	case *engine.ReceiveDeferred:
		var taken engine.Messages
		for range cmd.Sequences {
			taken = append(taken, *b.delivery())
		}
		answer = taken
	case *engine.GetSessionState:
		if len(cmd.SessionID) > 0 {
			answer = engine.SessionState{Blob: &b.delivery().Body}
		}
	case *engine.ListSessions:
		answer = engine.SessionIDs{IDs: []string{"a", ""}[:min(cmd.Top, 2)]}
	case *engine.BatchDelete:
		answer = engine.Deleted(cmd.Count % 2)
	case *engine.CancelScheduled:
		for _, call := range b.watchers {
			call(engine.Change{Entity: cmd.Entity, Deleted: len(cmd.Sequences) > 1})
		}
	}
	return answer, refusal, false
}

// attach grants a message session by its id unless a receiver holds it, and lets one that wants any
// wait.
func (b *emptyBroker) attach(receiver *engine.Receiver, r engine.Request) (answer engine.Answer, refusal error, later bool) {
	want := receiver.Session
	switch {
	case want == nil:
		return nil, nil, false
	case want.Any:
		b.waiting[receiver] = r
		return nil, nil, true
	case b.sessions[string(want.ID)] != nil:
		return nil, &engine.Error{Code: engine.SessionCannotBeLocked}, false
	}
	b.sessions[string(want.ID)] = receiver
	return &engine.SessionGrant{ID: string(want.ID), Token: event.LockToken{1}, LockedUntil: b.Now()}, nil, false
}

func (b *emptyBroker) detach(receiver *engine.Receiver) {
	b.giveUp(receiver)
	if waits, ok := b.waiting[receiver]; ok {
		delete(b.waiting, receiver)
		waits.Sink.Post([]engine.Reply{{Tag: waits.Tag, Err: &engine.Error{Code: engine.Timeout}}})
	}
}

// settle knows the tokens of its own deliveries. A deferral ends all message sessions.
func (b *emptyBroker) settle(cmd *engine.Settle, sink engine.Sink) error {
	if cmd.Outcome == engine.Defer && sink != nil {
		for receiver := range b.assigned {
			b.giveUp(receiver)
			sink.Post([]engine.Reply{{Tag: receiver.Tag, Kind: engine.ReplyEnded, Err: &engine.Error{Code: engine.SessionLockLost}}})
		}
	}
	if cmd.Token[0] > 1 {
		return &engine.Error{Code: engine.LockLost}
	}
	return nil
}

// giveUp ends the session that the receiver holds, if it holds one.
func (b *emptyBroker) giveUp(r *engine.Receiver) {
	maps.DeleteFunc(b.sessions, func(_ string, holder *engine.Receiver) bool { return holder == r })
}

// flow delivers one message for the credit there is.
func (b *emptyBroker) flow(cmd *engine.Flow) {
	r := cmd.Receiver
	if int32(cmd.Limit-b.assigned[r]) > 0 {
		b.assigned[r]++
		r.Sink.Post([]engine.Reply{{Tag: r.Tag, Kind: engine.ReplyDelivery, Answer: b.delivery()}})
	}
	if cmd.Drain {
		b.assigned[r] = cmd.Limit
		r.Sink.Post([]engine.Reply{{Tag: r.Tag, Kind: engine.ReplyDrained}})
	}
}

// delivery is the message with a new token. The first one is that of the seeds.
func (b *emptyBroker) delivery() *engine.Delivery {
	token := event.LockToken{1}
	binary.BigEndian.PutUint64(token[8:], b.delivered)
	b.delivered++
	return &engine.Delivery{Sequence: 1, Token: token, LockedUntil: b.Now().Add(time.Minute), Body: event.Blob{Position: 1, Size: uint32(len(b.stored)), Sum: event.Sum(b.stored)}}
}

func (b *emptyBroker) ReadInto(_ engine.PartitionID, blob event.Blob, dst []byte) (int, error) {
	at := blob.Position
	if blob.Size > 0 && (at < 1 || int(at) > len(b.stored)) {
		return 0, io.EOF
	}
	return copy(dst, b.stored[max(at, 1)-1:]), nil
}

// Manage lists one rule, as often as is asked for, and refuses names that are not those of rules.
func (b *emptyBroker) Manage(r engine.Request) {
	reply := engine.Reply{Tag: r.Tag}
	switch cmd := r.Command.(type) {
	case *engine.PutRule:
		if err := engine.CheckName("Rule", cmd.Rule.Name); err != nil {
			reply.Err = err
		}
	case *engine.ListRules:
		rule := event.Rule{Name: "r", Filter: event.Filter{Kind: event.FilterKind(1 + cmd.Skip%4), Text: "1=1"}}
		reply.Answer = slices.Repeat(engine.Rules{rule}, min(cmd.Top, 3))
	}
	r.Sink.Post([]engine.Reply{reply})
}

func (b *emptyBroker) ReportDamage(engine.PartitionID, event.LockToken, error) {}

func (b *emptyBroker) Watch(call func(engine.Change)) func() {
	b.watchers = append(b.watchers, call)
	return func() {}
}

func (b *emptyBroker) Now() event.Time { return event.TimeOf(time.Now()) }
