package servicebus

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// conn is the server's end of the only connection there is.
func (b *bench) conn() *conn {
	b.Helper()
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	for c := range b.server.conns {
		return c
	}
	b.Fatal("no connection")
	return nil
}

// reliability.md 8: the name of a link has 1,024 bytes at most. A longer one ends that link alone.
func TestLinkNames(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		for i, test := range []struct {
			length  int
			address string
			role    amqp.Role
			refused bool
		}{
			{1023, "q", amqp.RoleSender, false}, {1024, "q", amqp.RoleSender, false}, {1025, "q", amqp.RoleSender, true},
			{1024, "q", amqp.RoleReceiver, false}, {1025, "q", amqp.RoleReceiver, true}, {1025, "q/$management", amqp.RoleSender, true},
			{60_000, "q", amqp.RoleReceiver, true},
		} {
			name := strings.Repeat("n", test.length)
			p.write(0, &amqp.Attach{Name: name, Handle: uint32(i), Role: test.role,
				Source: &amqp.Source{Address: test.address}, Target: &amqp.Target{Address: test.address}}, nil)
			a := expect[*amqp.Attach](p)
			if a.Name != name {
				t.Errorf("%+v: the answer has a name of %d bytes", test, len(a.Name))
			}
			if !test.refused {
				if a.Target == nil {
					t.Errorf("%+v: refused", test)
				}
				if test.role == amqp.RoleSender {
					expect[*amqp.Flow](p)
				}
				p.detach(uint32(i))
				continue
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondResourceLimit {
				t.Errorf("%+v: %+v; want d.Error.Condition == amqp.CondResourceLimit", test, d.Error)
			}
		}
		p.attachSender(99, "q")
	})
}

// A peer's name for itself is clipped on arrival, and the bytes of a link are freed when the link
// is gone.
func TestTextsAreClipped(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		p := b.dial()
		p.raw(amqp.ProtocolAMQP[:])
		p.next()
		long := strings.Repeat("x", 15_000)
		p.write(0, &amqp.Open{ContainerID: long, Hostname: long, Properties: amqp.Map{
			{Key: amqp.Symbol("product"), Value: long}, {Key: amqp.Symbol("version"), Value: long}}}, nil)
		expect[*amqp.Open](p)
		p.begin(0)
		p.tokenAnswer(p.putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "1"), 202, "")
		synctest.Wait()
		c := b.conn()
		if len(c.peer.container) > maxPeerText || len(c.peer.product) > maxPeerText {
			t.Errorf("%d and %d bytes are kept", len(c.peer.container), len(c.peer.product))
		}
	})
}

// reliability.md P23: the memory of links is bounded as well. Links that are refused, and links
// that wait for a session with a long attach, count as well; links that are gone do not.
func TestLinksTakeNoMoreThanTheyMay(t *testing.T) {
	const limit = 200 << 10
	bubble(t, func(o *Options) { o.Limits.Held = limit }, func(b *bench) {
		b.queue("s", func(p *event.Properties) { p.RequiresSession = true })
		p := b.root()
		for round := range 3 {
			attached := uint32(0)
			for ; ; attached++ {
				p.write(0, &amqp.Attach{Name: fmt.Sprint(strings.Repeat("n", 1000), attached), Handle: 10 + attached, Role: amqp.RoleSender,
					Source: &amqp.Source{}, Target: &amqp.Target{Address: "q"}}, nil)
				if a := expect[*amqp.Attach](p); a.Target == nil {
					break
				}
				expect[*amqp.Flow](p)
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondResourceLimit {
				t.Errorf("%+v; want d.Error.Condition == amqp.CondResourceLimit", d.Error)
			}
			p.write(0, &amqp.Detach{Handle: 10 + attached, Closed: true}, nil)
			if most := uint32(limit / (linkCost + 1000)); attached < most/2 || attached > most {
				t.Errorf("round %d: %d links", round, attached)
			}
			for handle := range attached {
				p.detach(10 + handle)
			}
		}
		waiting := 0
		for ; waiting < 100; waiting++ { // attaches that wait have no answer
			p.write(0, &amqp.Attach{Name: fmt.Sprint("w", waiting), Handle: uint32(1000 + waiting), Role: amqp.RoleReceiver,
				Source: &amqp.Source{Address: "s", Filter: amqp.Map{{Key: amqp.Symbol(keySessionFilter), Value: nil}}}, Target: &amqp.Target{},
				Properties: amqp.Map{{Key: amqp.Symbol(keyTimeout), Value: uint32(math.MaxInt32)}, {Key: amqp.Symbol("more"), Value: strings.Repeat("x", 20_000)}}}, nil)
			p.write(0, &amqp.Flow{IncomingWindow: 100, OutgoingWindow: 100, Echo: true}, nil)
			if _, refused := p.next().p.(*amqp.Attach); refused {
				break
			}
		}
		if waiting < 4 || waiting > limit/20_000 {
			t.Errorf("%d links wait", waiting)
		}
	})
}

// A peer that asks for many messages in a few bytes, again and again, is not read from until the
// answers have come.
func TestAskedForIsBounded(t *testing.T) {
	if size := unsafe.Sizeof(engine.Delivery{}); size > deliveryCost {
		t.Errorf("a delivery takes %d bytes", size)
	}
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.attachManagement("q")
		c := b.conn()
		b.broker.hold(func() {
			go func() { // it is blocked once the peer no longer reads
				var all []byte
				for i := range 200 {
					m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: fmt.Sprint(i), ReplyTo: amqp.Some("reply201")})
					m = amqp.AppendSection(m, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: "com.microsoft:peek-message"}})
					m = amqp.AppendSection(m, amqp.SectionValue, amqp.Map{
						{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(maxPeek)}})
					all = amqp.AppendFrame(all, 0, &amqp.Transfer{Handle: 200, DeliveryID: amqp.Some(uint32(i)), DeliveryTag: []byte{1}, Settled: amqp.Some(true)}, m)
				}
				p.raw(all) // few reads
			}()
			synctest.Wait()
			if most := c.limits.BufferedOut/(maxPeek*deliveryCost) + 10; c.pendings.requests < 10 || c.pendings.requests > most {
				t.Errorf("%d requests are taken at a time", c.pendings.requests)
			}
		})
		for range 200 {
			p.next()
		}
		synctest.Wait()
		if c.pendings.expected != 0 || c.pendings.requests != 0 {
			t.Errorf("%d bytes of %d requests are still expected", c.pendings.expected, c.pendings.requests)
		}
	})
}
