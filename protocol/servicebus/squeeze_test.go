package servicebus

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// scarce is a bench whose broker has 64 MiB of memory in all, and a peer that has taken part of it.
func scarce(t *testing.T, test func(b *bench, memory *budget.Budget, others *budget.Share)) {
	t.Helper()
	scarceWith(t, Limits{}, test)
}

// scarceWith is one with other limits than usual.
func scarceWith(t *testing.T, limits Limits, test func(b *bench, memory *budget.Budget, others *budget.Share)) {
	t.Helper()
	memory := budget.New(128<<20, slog.New(slog.DiscardHandler))
	bubble(t, func(o *Options) { o.Memory, o.Limits = memory, limits }, func(b *bench) {
		memory.Press(func(budget.Level) { b.server.Press() })
		others, ok := memory.Open()
		if !ok {
			t.Fatal("there is no memory for others")
		}
		test(b, memory, others)
	})
}

// most is the memory that others take so that only the guaranteed shares are left.
const most = 64 << 20

// body is a message of that many bytes.
func bodyOf(size int) []byte {
	return amqp.AppendSection(nil, amqp.SectionData, bytes.Repeat([]byte("x"), size))
}

// frames sends a message in frames of that many bytes; the last one comes with ends.
func (p *peerConn) frames(id uint32, message []byte, size int, ends bool) {
	for at := 0; at < len(message); at += size {
		end := min(at+size, len(message))
		tr := &amqp.Transfer{Handle: 1, More: end < len(message) || !ends}
		if at == 0 {
			tr.DeliveryID, tr.DeliveryTag = amqp.Some(id), []byte{1}
		}
		p.write(0, tr, message[at:end])
	}
}

// F22: when others have taken all memory, a connection has its guaranteed share: small messages are
// accepted, and large ones refused as busy, in one frame or many; settlements are accepted. All are
// accepted once there is memory again.
func TestMemoryIsPromised(t *testing.T) {
	scarce(t, func(b *bench, _ *budget.Budget, others *budget.Share) {
		p := b.root()
		p.attachSender(1, "q")
		p.attachReceiver(2, "q", amqp.SenderMixed)
		others.Owe(most)
		id := uint32(0)
		for _, size := range []int{10, 3000, 20_000} {
			p.send(1, id, bodyOf(size))
			id++
		}
		for _, frame := range []int{60_000, 5000} {
			p.frames(id, bodyOf(200_000), frame, true)
			p.rejected(id, amqp.CondServerBusy)
			id++
		}
		p.frames(id, bodyOf(60_000), 64_000, true)
		p.rejected(id, amqp.CondServerBusy)
		id++
		p.credit(2, 0, 1, false)
		m := p.receive()
		p.settle(m.id, amqp.StateAccepted, false)
		p.outcome(m.id, amqp.StateAccepted)
		p.send(1, id, bodyOf(10))
		id++
		others.Give(most)
		p.frames(id, bodyOf(200_000), 60_000, true)
		p.accepted(id)
	})
}

// F22: a frame for which there is no memory and that is no transfer closes its connection.
func TestMemoryForLargeAttach(t *testing.T) {
	scarce(t, func(b *bench, _ *budget.Budget, others *budget.Share) {
		p := b.root()
		others.Owe(most)
		p.write(0, &amqp.Attach{Name: "n", Handle: 1, Role: amqp.RoleSender, Source: &amqp.Source{Address: string(bytes.Repeat([]byte("s"), 64_000))},
			Target: &amqp.Target{Address: "q"}, InitialDeliveryCount: amqp.Some(uint32(0))}, nil)
		p.closedForMemory()
	})
}

// F22: a connection that exceeds its share when memory becomes short frees its incomplete message,
// which is refused as busy when its last frame arrives.
func TestMemoryIsShed(t *testing.T) {
	scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
		p := b.root()
		p.attachSender(1, "q")
		body := bodyOf(200_000)
		p.frames(0, body[:180_000], 60_000, false)
		synctest.Wait()
		before := others.Has()
		others.Owe(most - before)
		if taken := memory.Taken() - int64(others.Has()); taken < 180_000 {
			t.Fatalf("the peer has %d bytes", taken)
		}
		memory.Look(time.Now())
		synctest.Wait()
		if taken := memory.Taken() - int64(others.Has()); memory.Level() != budget.Low || taken > budget.Promised+largeChunk {
			t.Errorf("memory is %v, and the peer has %d bytes", memory.Level(), taken)
		}
		p.write(0, &amqp.Transfer{Handle: 1}, body[180_000:])
		p.rejected(0, amqp.CondServerBusy)
		p.send(1, 1, bodyOf(10))
	})
}

// F22: when a connection cannot free the memory beyond its share, its windows are closed while
// memory is short, and opened again afterwards. Its settlements are accepted meanwhile.
func TestMemoryClosesWindows(t *testing.T) {
	scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
		p := b.root()
		b.put("q", newMessage("1", "x"))
		p.attachReceiver(2, "q", amqp.SenderMixed)
		for handle := range uint32(100) {
			p.attachSender(10+handle, "q2")
		}
		p.credit(2, 0, 1, false)
		m := p.receive()
		window := func(want uint32) {
			t.Helper()
			for {
				if f, ok := p.next().p.(*amqp.Flow); ok && !f.Handle.Set {
					if f.IncomingWindow != want {
						t.Errorf("the window is %d, not %d", f.IncomingWindow, want)
					}
					return
				}
			}
		}
		others.Owe(most)
		memory.Look(time.Now())
		window(0)
		p.settle(m.id, amqp.StateAccepted, false)
		p.outcome(m.id, amqp.StateAccepted)
		others.Give(most)
		memory.Look(time.Now())
		time.Sleep(5 * time.Second)
		memory.Look(time.Now())
		if memory.Level() != budget.Enough {
			t.Errorf("memory is %v", memory.Level())
		}
		window(5000)
	})
}

// F22: frames of a peer that continues while the window of its session is closed are accepted as
// long as they may have been on their way. After that its session ends, and if that does not stop
// it, its connection.
func TestMemoryWindowIgnored(t *testing.T) {
	const window = 10
	scarceWith(t, Limits{Window: window}, func(b *bench, memory *budget.Budget, others *budget.Share) {
		p := b.root()
		for handle := range uint32(100) {
			p.attachSender(10+handle, "q2")
		}
		others.Owe(most)
		memory.Look(time.Now())
		synctest.Wait()
		goOn := func(first uint32) {
			for id := range uint32(2 * window) {
				// asks for more, and gets none
				p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(uint32(1)), IncomingWindow: 5000, OutgoingWindow: 5000, Echo: true}, nil)
				p.transfer(10, first+id, bodyOf(10))
			}
		}
		ends := func() (condition amqp.Symbol, closed *amqp.Close) {
			synctest.Wait()
			for len(p.in) > 0 {
				switch f := p.next().p.(type) {
				case *amqp.End:
					condition = f.Error.Condition
				case *amqp.Close:
					closed = f
				}
			}
			return condition, closed
		}
		goOn(0)
		if condition, closed := ends(); condition != "" || closed != nil {
			t.Fatalf("the session ends with %q, and the connection with %+v, after what may have been on its way", condition, closed)
		}
		p.transfer(10, 2*window, bodyOf(10))
		if condition, closed := ends(); condition != amqp.CondWindowViolation || closed != nil {
			t.Fatalf("the session ends with %q, want %q; the connection with %+v", condition, amqp.CondWindowViolation, closed)
		}
		goOn(2*window + 1)
		if condition, closed := ends(); condition != "" || closed != nil {
			t.Fatalf("another end with %q; the connection closes with %+v, want it open", condition, closed)
		}
		p.transfer(10, 4*window+1, bodyOf(10))
		if _, closed := ends(); closed == nil || closed.Error.Condition != amqp.CondNotAllowed {
			t.Errorf("the connection closes with %+v, want %q", closed, amqp.CondNotAllowed)
		}
	})
}

// F22: a connection for which there is no memory is told so.
func TestMemoryForConnections(t *testing.T) {
	scarce(t, func(b *bench, _ *budget.Budget, others *budget.Share) {
		others.Owe(2 * most)
		p := b.dial()
		p.raw(amqp.ProtocolAMQP[:])
		p.write(0, &amqp.Open{ContainerID: "late"}, nil)
		p.closedForMemory()
	})
}

// F22: the memory of a connection is freed when the connection is gone, whatever it was doing.
func TestMemoryIsGivenBack(t *testing.T) {
	scarce(t, func(b *bench, memory *budget.Budget, others *budget.Share) {
		for range 3 {
			p := b.root()
			p.attachSender(1, "q")
			p.attachReceiver(2, "q", amqp.SenderMixed)
			p.credit(2, 0, 10, false)
			for id := range uint32(4) {
				p.frames(id, bodyOf(100_000), 30_000, id < 3)
			}
			bringForward[*amqp.Transfer](p)
			p.net.Close()
			synctest.Wait()
		}
		if taken := memory.Taken(); taken != 0 {
			t.Errorf("%d bytes are taken when nobody is there", taken)
		}
	})
}

// F22: memory that a connection no longer needs is freed while the connection lives.
func TestMemoryFollows(t *testing.T) {
	scarce(t, func(b *bench, memory *budget.Budget, _ *budget.Share) {
		p := b.root()
		for handle := range uint32(100) {
			p.attachSender(10+handle, "q")
		}
		synctest.Wait()
		before := memory.Taken()
		for handle := range uint32(100) {
			p.detach(10 + handle)
		}
		synctest.Wait()
		if after := memory.Taken(); before-after < 90*linkCost {
			t.Errorf("%d bytes are taken when the links are gone, %d before", after, before)
		}
	})
}

// closedForMemory waits for the connection's end, whose reason must be lack of memory.
func (p *peerConn) closedForMemory() {
	p.Helper()
	for {
		r := p.next()
		if r.err != nil {
			p.Fatal(r.err)
		}
		if c, ok := r.p.(*amqp.Close); ok {
			if c.Error == nil || c.Error.Condition != amqp.CondConnectionForced {
				p.Errorf("%+v; want c.Error != nil && c.Error.Condition == amqp.CondConnectionForced", c.Error)
			}
			return
		}
	}
}
