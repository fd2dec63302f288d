package servicebus

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// emptyBroker is an engine with a queue q, a session queue s, a topic t and its subscription t/subscriptions/u that answers
// everything at once and stores nothing: every message is the same one. A session by its id is granted unless a receiver holds it, the
// next available one never comes.
type emptyBroker struct {
	entities map[string]*engine.Entity
	assigned map[*engine.Receiver]uint32
	waiting  map[*engine.Receiver]engine.Request
	sessions map[string]*engine.Receiver // who holds it
	watchers []func(engine.Change)
	stored   []byte
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

func (b *emptyBroker) Resolve(path string) (engine.Target, error) {
	if e := b.entities[path]; e != nil {
		return engine.Target{Entity: e}, nil
	}
	return engine.Target{}, &engine.Error{Code: engine.NotFound, Text: "no"}
}

func (b *emptyBroker) Submit(_ engine.PartitionID, rs []engine.Request) {
	for _, r := range rs {
		reply := engine.Reply{Tag: r.Tag}
		switch cmd := r.Command.(type) {
		case *engine.Send:
			if cmd.Buffer != nil {
				cmd.Buffer.Release()
			}
			if cmd.Numbers {
				reply.Answer = make(engine.Numbers, len(cmd.Messages))
			}
		case *engine.Attach:
			if want := cmd.Receiver.Session; want != nil {
				if want.Any {
					b.waiting[cmd.Receiver] = r
					continue
				}
				if b.sessions[string(want.ID)] != nil {
					reply.Err = &engine.Error{Code: engine.SessionCannotBeLocked}
					break
				}
				b.sessions[string(want.ID)] = cmd.Receiver
				reply.Answer = &engine.SessionGrant{ID: string(want.ID), Token: event.LockToken{1}, LockedUntil: b.Now()}
			}
		case *engine.Detach:
			b.giveUp(cmd.Receiver)
			if waits, ok := b.waiting[cmd.Receiver]; ok {
				delete(b.waiting, cmd.Receiver)
				waits.Sink.Post([]engine.Reply{{Tag: waits.Tag, Err: &engine.Error{Code: engine.Timeout}}})
			}
		case *engine.Flow:
			b.flow(cmd)
		case *engine.Settle:
			if cmd.Token[0] > 1 {
				reply.Err = &engine.Error{Code: engine.LockLost}
			}
			if cmd.Outcome == engine.Defer && r.Sink != nil { // the session goes
				for receiver := range b.assigned {
					b.giveUp(receiver)
					r.Sink.Post([]engine.Reply{{Tag: receiver.Tag, Kind: engine.ReplyEnded, Err: &engine.Error{Code: engine.SessionLockLost}}})
				}
			}
		case *engine.Renew:
			reply.Answer = make(engine.Times, len(cmd.Tokens))
		case *engine.RenewSession:
			reply.Answer = engine.Times{b.Now()}
		case *engine.Peek:
			reply.Answer = engine.Messages{*b.delivery(), *b.delivery()}
		case *engine.ReceiveDeferred:
			var taken engine.Messages
			for range cmd.Sequences {
				taken = append(taken, *b.delivery())
			}
			reply.Answer = taken
		case *engine.GetSessionState:
			if len(cmd.SessionID) > 0 {
				reply.Answer = engine.SessionState{Blob: &b.delivery().Body}
			}
		case *engine.ListSessions:
			reply.Answer = engine.SessionIDs{"a", ""}[:min(cmd.Top, 2)]
		case *engine.BatchDelete:
			reply.Answer = engine.Deleted(cmd.Count % 2)
		case *engine.CancelScheduled:
			for _, call := range b.watchers {
				call(engine.Change{Entity: cmd.Entity, Deleted: len(cmd.Sequences) > 1})
			}
		}
		if r.Sink != nil {
			r.Sink.Post([]engine.Reply{reply})
		}
	}
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

func (b *emptyBroker) delivery() *engine.Delivery {
	return &engine.Delivery{Sequence: 1, Token: event.LockToken{1}, LockedUntil: b.Now(), Body: event.Blob{Position: 1, Size: uint32(len(b.stored)), Sum: event.Sum(b.stored)}}
}

func (b *emptyBroker) ReadAt(_ engine.PartitionID, at event.Position, dst []byte) (int, error) {
	if at < 1 || int(at) > len(b.stored) {
		return 0, io.EOF
	}
	return copy(dst, b.stored[at-1:]), nil
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

func (b *emptyBroker) ReportDamage(engine.PartitionID, error) {}

func (b *emptyBroker) Watch(call func(engine.Change)) func() {
	b.watchers = append(b.watchers, call)
	return func() {}
}

func (b *emptyBroker) Now() event.Time { return event.TimeOf(time.Now()) }

// FuzzConnection sends a script of frames to a logged-in connection, all at once or one by one: the server answers with whole frames that have all
// their fields, nothing follows a close, and all goroutines end (reliability.md T4).
func FuzzConnection(f *testing.F) {
	frames := func(ps ...amqp.Performative) (b []byte) {
		for _, p := range ps {
			var payload []byte
			if _, ok := p.(*amqp.Transfer); ok {
				payload = newMessage("a", "x")
			}
			b = amqp.AppendFrame(b, 0, p, payload)
		}
		return b
	}
	add := func(script []byte) {
		f.Add(script, false)
		f.Add(script, true)
	}
	attach := &amqp.Attach{Name: "s", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}
	receive := &amqp.Attach{Name: "r", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}}
	add(frames(attach, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0))}, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(1)), More: true}, &amqp.Transfer{Handle: 1, Aborted: true}))
	add(frames(receive, &amqp.Flow{Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(9)), Drain: true}, &amqp.Disposition{Role: true, First: 0, Last: amqp.Some(uint32(5)), State: amqp.Rejected{}}))
	add(frames(attach, attach, &amqp.Detach{Handle: 1}, receive, &amqp.End{}, &amqp.Begin{}))
	add(frames(&amqp.Attach{Name: "c", Handle: 3, Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, &amqp.Transfer{Handle: 3, DeliveryID: amqp.Some(uint32(0))}))
	add(frames(&amqp.Attach{Name: "c", Handle: 3, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q/$management"}}, &amqp.Transfer{Handle: 3, DeliveryID: amqp.Some(uint32(0))}, &amqp.Close{}))
	// topics
	publish := &amqp.Attach{Name: "t", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "t"}}
	add(frames(publish, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0))}))
	batch := amqp.AppendData(amqp.AppendData(nil, newMessage("a", "x")), amqp.AppendData(nil, []byte("y")))
	add(amqp.AppendFrame(frames(publish), 0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0)), MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, batch))
	// message sessions
	filtered := func(handle uint32, value any) *amqp.Attach {
		return &amqp.Attach{Name: fmt.Sprint("f", handle), Handle: handle, Role: amqp.RoleReceiver,
			Source: &amqp.Source{Address: "s", Filter: amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: value}}}}
	}
	credit := &amqp.Flow{Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(9)), IncomingWindow: 100}
	for _, value := range []any{nil, "a", described(nil), described("a"), described(described("a")), amqp.Symbol("a"), int32(1), amqp.List{}} {
		add(frames(filtered(2, value), credit, &amqp.Disposition{Role: true, First: 0, State: amqp.Modified{UndeliverableHere: true}},
			&amqp.Disposition{Role: true, First: 0, State: amqp.StateAccepted}, filtered(3, value), &amqp.Detach{Handle: 2}, &amqp.Detach{Handle: 3}))
	}
	add(frames(filtered(2, nil), &amqp.Flow{Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(9)), Drain: true, Echo: true}, &amqp.Transfer{Handle: 2, DeliveryID: amqp.Some(uint32(0))}))
	add(frames(filtered(2, "a"), filtered(3, "a"), credit, filtered(4, "b"), &amqp.Detach{Handle: 2}, filtered(5, "a"))) // a session that is held, and one that was
	add(frames(filtered(2, nil), &amqp.Attach{Name: "f2", Handle: 4, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}}, &amqp.End{}))
	// all operations
	later := scheduled("x", time.Now().Add(time.Hour))
	bodies := map[string]amqp.Map{
		"renew-lock":                 {{Key: "lock-tokens", Value: uuids(amqp.UUID{1})}},
		"update-disposition":         {{Key: "lock-tokens", Value: uuids(amqp.UUID{1})}, {Key: "disposition-status", Value: "suspended"}, {Key: "deadletter-reason", Value: "r"}, {Key: "session-id", Value: "a"}, {Key: "properties-to-modify", Value: amqp.Map{{Key: "k", Value: "v"}}}},
		"peek-message":               {{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(2)}, {Key: "omit-message-body", Value: true}, {Key: "session-id", Value: "a"}},
		"schedule-message":           scheduleBody(later, amqp.AppendData(nil, []byte("x"))),
		"cancel-scheduled-message":   numbers(int64(1)),
		"receive-by-sequence-number": append(numbers(int64(1), int64(2)), amqp.Pair{Key: "receiver-settle-mode", Value: uint32(1)}),
		"renew-session-lock":         sessionBody("a"),
		"set-session-state":          sessionBody("a", amqp.Pair{Key: "session-state", Value: []byte("x")}),
		"get-session-state":          sessionBody("a"),
		"get-message-sessions":       {{Key: "last-updated-time", Value: amqp.Timestamp(0)}, {Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(9)}},
		"add-rule":                   {{Key: "rule-name", Value: "r"}, {Key: "rule-description", Value: correlationRule("a", amqp.Map{{Key: "n", Value: int32(1)}})}},
		"remove-rule":                {{Key: "rule-name", Value: "r"}},
		"enumerate-rules":            {{Key: "top", Value: int32(9)}, {Key: "skip", Value: int32(0)}},
		"batch-delete-messages":      {{Key: "message-count", Value: int32(9)}, {Key: "enqueued-time-utc", Value: amqp.Timestamp(0)}},
	}
	for name := range operations {
		if bodies[name] == nil {
			f.Fatalf("no seed for %s", name)
		}
		request := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "m"})
		request = amqp.AppendSection(request, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: operationPrefix + name},
			{Key: "server-timeout", Value: uint32(1)}, {Key: keyAssociatedLink, Value: "f2"}})
		request = amqp.AppendSection(request, amqp.SectionValue, bodies[name])
		address := "s/$management"
		switch operations[name].about {
		case ofSent:
			address = "t/$management"
		case ofRules:
			address = "t/subscriptions/u/$management"
		}
		node := func(handle uint32, role amqp.Role) *amqp.Attach {
			return &amqp.Attach{Name: "m", Handle: handle, Role: role, Source: &amqp.Source{Address: address}, Target: &amqp.Target{Address: address}}
		}
		script := frames(filtered(2, "a"), credit, node(5, amqp.RoleSender), node(6, amqp.RoleReceiver), &amqp.Flow{Handle: amqp.Some(uint32(6)), LinkCredit: amqp.Some(uint32(9))})
		add(amqp.AppendFrame(script, 0, &amqp.Transfer{Handle: 5, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte{1}}, request))
	}
	f.Fuzz(func(t *testing.T, script []byte, apart bool) {
		synctest.Test(t, func(t *testing.T) {
			server := &Server{Broker: newEmptyBroker(), Options: Options{Access: testAccess(nil), AllowPlainWithoutTLS: true, Logger: slog.New(slog.DiscardHandler)}}
			client, end := net.Pipe()
			done := make(chan struct{})
			go func() { server.ServeConn(end); close(done) }()
			var answer []byte
			read := make(chan struct{})
			go func() { answer, _ = io.ReadAll(client); close(read) }()
			hello := append([]byte(nil), amqp.ProtocolSASL[:]...)
			hello = amqp.AppendSASLFrame(hello, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00root-key")})
			hello = append(hello, amqp.ProtocolAMQP[:]...)
			hello = amqp.AppendFrame(hello, 0, &amqp.Open{ContainerID: "f"}, nil)
			hello = amqp.AppendFrame(hello, 0, &amqp.Begin{IncomingWindow: 100, OutgoingWindow: 100}, nil)
			client.Write(hello)
			for rest := script; len(rest) > 0; {
				n := len(rest)
				if apart && n >= 4 { // each frame is answered before the next one comes
					n = min(n, max(8, int(binary.BigEndian.Uint32(rest))))
				}
				client.Write(rest[:n])
				rest = rest[n:]
				checkBooks(t, server)
			}
			client.Close()
			<-done
			<-read
			if server.Panics() > 0 {
				t.Error("panic")
			}
			frames := newRecorder(t)
			for len(answer) >= 8 {
				if isProtocolHeader(answer) {
					answer = answer[8:]
					continue
				}
				size := binary.BigEndian.Uint32(answer)
				if size < 8 || int(size) > len(answer) {
					break // cut by the end of the connection
				}
				frames.frame(answer[:size])
				if body := answer[8:size]; len(body) > 0 && answer[5] == amqp.FrameTypeAMQP {
					if _, _, err := amqp.DecodePerformative(body, amqp.DefaultLimits); err != nil {
						t.Error(err)
					}
				}
				answer = answer[size:]
			}
		})
	})
}
