package servicebus

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// counting is the server's end of a connection that counts its acknowledgements.
type counting struct {
	net.Conn
	n atomic.Int32
}

func (c *counting) Acknowledge() { c.n.Add(1) }

// Data of a peer that uses Nagle's algorithm and may be waiting is acknowledged at once; data that
// gets an answer, such as sends, is not.
func TestAcknowledge(t *testing.T) {
	flow := amqp.AppendFrame(nil, 0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, OutgoingWindow: 5000,
		Handle: amqp.Some(uint32(2)), DeliveryCount: amqp.Some(uint32(0)), LinkCredit: amqp.Some(uint32(1))}, nil)
	echo := amqp.AppendFrame(nil, 0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, OutgoingWindow: 5000, Echo: true}, nil)
	send := func(id uint32, settled bool, m []byte) []byte {
		return amqp.AppendFrame(nil, 0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(id), Settled: amqp.Some(settled)}, m)
	}
	first := amqp.AppendFrame(nil, 0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(4)), More: true}, newMessage("a", "x"))
	last := amqp.AppendFrame(nil, 0, &amqp.Transfer{Handle: 1}, nil)
	var many, settled []byte
	for i := range uint32(200) {
		many = append(many, send(10+i, false, newMessage("a", "x"))...)
		settled = append(settled, send(210+i, true, newMessage("a", "x"))...)
	}
	bubble(t, nil, func(b *bench) {
		client, server := net.Pipe()
		end := &counting{Conn: server}
		go b.server.ServeConn(end)
		p := &peerConn{bench: b, net: client, in: make(chan received, 10000)}
		go p.read()
		b.clients = append(b.clients, client)
		p.open()
		if status := p.putToken("sb://ns/", token("sb://ns/", "root", "root-key", time.Hour), "t"); len(status) == 0 {
			t.Fatal("no answer")
		}
		p.attachSender(1, "q")
		p.attachReceiver(2, "q2", amqp.SenderUnsettled)
		p.attachSender(200, "q/$management")
		p.attachReceiver(201, "q/$management", amqp.SenderUnsettled)
		p.credit(201, 0, 1000, false)
		synctest.Wait()
		for _, step := range []struct {
			what string
			raw  []byte
			want int32
		}{
			{"a frame", flow, 1},
			{"half of a frame", flow[:5], 1}, {"more of it", flow[5:20], 1}, {"the rest of it", flow[20:], 1},
			{"a frame and a half", append(append([]byte(nil), flow...), flow[:9]...), 2}, {"the rest", flow[9:], 1},
			{"a frame that is answered", echo, 0},
			{"a send", send(1, false, newMessage("a", "x")), 0},
			{"a settled send", send(2, true, newMessage("a", "x")), 0},
			{"the first frame of a send", first, 1}, {"the last", last, 0},
			{"many sends", many, 0}, {"many settled sends", settled, 0},
			{"a keep-alive", amqp.AppendEmptyFrame(nil), 1},
		} {
			before := end.n.Load()
			p.raw(step.raw)
			synctest.Wait()
			if got := end.n.Load() - before; got != step.want {
				t.Errorf("%s: acknowledged %d times, want %d", step.what, got, step.want)
			}
		}
		for len(p.in) > 0 {
			p.next()
		}
		before := end.n.Load()
		p.request("m", "com.microsoft:peek-message", amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(1)}})
		answer := expect[*amqp.Transfer](p)
		synctest.Wait()
		if end.n.Load() != before {
			t.Error("a request is acknowledged apart from its answer")
		}
		p.settle(answer.DeliveryID.Value, amqp.StateAccepted, true)
		synctest.Wait()
		if end.n.Load() != before+1 {
			t.Error("what settles an answer is not acknowledged at once")
		}
	})
}
