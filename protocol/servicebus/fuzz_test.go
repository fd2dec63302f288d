package servicebus

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// emptyBroker is an engine with one queue that answers everything at once and stores nothing.
type emptyBroker struct{ entity *engine.Entity }

func newEmptyBroker() *emptyBroker {
	return &emptyBroker{&engine.Entity{ID: 1, Kind: event.Queue, Path: "q", Properties: testQueue, Hosts: []engine.PartitionID{0}}}
}

func (b *emptyBroker) Resolve(path string) (engine.Target, error) {
	if path != "q" {
		return engine.Target{}, &engine.Error{Code: engine.NotFound, Text: "no"}
	}
	return engine.Target{Entity: b.entity}, nil
}

func (b *emptyBroker) Submit(_ engine.PartitionID, rs []engine.Request) {
	for _, r := range rs {
		reply := engine.Reply{Tag: r.Tag}
		switch cmd := r.Command.(type) {
		case *engine.Send:
			if cmd.Buffer != nil {
				cmd.Buffer.Release()
			}
		case *engine.Settle, *engine.Renew:
			reply.Err = &engine.Error{Code: engine.LockLost}
		case *engine.Flow:
			if cmd.Drain {
				r.Sink.Post([]engine.Reply{{Tag: cmd.Receiver.Tag, Kind: engine.ReplyDrained}})
			}
		}
		if r.Sink != nil {
			r.Sink.Post([]engine.Reply{reply})
		}
	}
}

func (b *emptyBroker) ReadAt(engine.PartitionID, event.Position, []byte) (int, error) {
	return 0, io.EOF
}
func (b *emptyBroker) ReportDamage(engine.PartitionID, error) {}
func (b *emptyBroker) Watch(func(engine.Change)) func()       { return func() {} }
func (b *emptyBroker) Now() event.Time                        { return event.TimeOf(time.Now()) }

// FuzzConnection sends a script of frames to a logged-in connection: the server answers with whole frames that have all
// their fields, nothing follows a close, and all goroutines end (reliability.md T4).
func FuzzConnection(f *testing.F) {
	frames := func(ps ...amqp.Performative) (b []byte) {
		for _, p := range ps {
			b = amqp.AppendFrame(b, 0, p, message("a", "x"))
		}
		return b
	}
	attach := &amqp.Attach{Name: "s", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}
	receive := &amqp.Attach{Name: "r", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}}
	f.Add(frames(attach, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0))}, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(1)), More: true}, &amqp.Transfer{Handle: 1, Aborted: true}))
	f.Add(frames(receive, &amqp.Flow{Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(9)), Drain: true}, &amqp.Disposition{Role: true, First: 0, Last: amqp.Some(uint32(5)), State: amqp.Rejected{}}))
	f.Add(frames(attach, attach, &amqp.Detach{Handle: 1}, receive, &amqp.End{}, &amqp.Begin{}))
	f.Add(frames(&amqp.Attach{Name: "c", Handle: 3, Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, &amqp.Transfer{Handle: 3, DeliveryID: amqp.Some(uint32(0))}))
	f.Add(frames(&amqp.Attach{Name: "c", Handle: 3, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q/$management"}}, &amqp.Transfer{Handle: 3, DeliveryID: amqp.Some(uint32(0))}, &amqp.Close{}))
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) {
			server := &Server{Broker: newEmptyBroker(), Options: Options{Development: true, Rules: testRules, AllowPlainWithoutTLS: true, Logger: slog.New(slog.DiscardHandler)}}
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
			client.Write(append(hello, script...))
			synctest.Wait()
			client.Close()
			<-done
			<-read
			if server.Panics() > 0 {
				t.Error("panic")
			}
			closed := false
			for len(answer) >= 8 {
				if isProtocolHeader(answer) {
					answer = answer[8:]
					continue
				}
				size := binary.BigEndian.Uint32(answer)
				if size < 8 || int(size) > len(answer) {
					break // cut by the end of the connection
				}
				body := answer[8:size]
				if closed {
					t.Errorf("% x after close", body)
				}
				if len(body) > 0 && answer[5] == 0 {
					checkFields(t, body)
					p, _, err := amqp.DecodePerformative(body, amqp.DefaultLimits)
					if err != nil {
						t.Error(err)
					}
					_, closed = p.(*amqp.Close)
				}
				answer = answer[size:]
			}
		})
	})
}
