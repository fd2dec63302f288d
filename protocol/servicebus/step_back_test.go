package servicebus

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// SM-415, WP-253: .NET leaves the credit of a receive that it has given up open, and releases what
// comes for it. With two such receives a message takes two detours, whatever the number of their
// credits, and reaches the one that waits for it. On a partitioned queue a link that has released a
// message of one log steps back in the other one as well.
func TestDotnetAbandonedReceives(t *testing.T) {
	for _, entity := range []string{"q", "wide", "topic/Subscriptions/s"} {
		t.Run(entity, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				keys := b.oneOfEachLog()
				b.topic("topic", nil)
				b.subscription("topic", "s", nil)
				put := func(id string, log int) {
					to := entity
					if entity == "topic/Subscriptions/s" {
						to = "topic"
					}
					b.put(to, keyedMessage(id, "", keys[log]))
				}
				waits := func(credit uint32) *peerConn {
					p := b.root()
					p.attachReceiver(2, entity, amqp.SenderUnsettled)
					p.credit(2, 0, credit, false)
					synctest.Wait()
					return p
				}
				gets := func(p *peerConn, id string) uint32 {
					t.Helper()
					m := p.receive()
					if m.properties.MessageID != id {
						t.Fatalf("%v comes, not %s", m.properties.MessageID, id)
					}
					return m.id
				}
				first, second, honest := waits(25), waits(25), waits(2)
				put("1", 0)
				first.settle(gets(first, "1"), amqp.StateReleased, true)
				second.settle(gets(second, "1"), amqp.StateReleased, true)
				honest.settle(gets(honest, "1"), amqp.StateAccepted, true)
				// it has earlier credit, and is no longer after the others
				put("2", 1)
				honest.settle(gets(honest, "2"), amqp.StateAccepted, true)
				honest.credit(2, 2, 1, false)
				synctest.Wait()
				put("3", 1)
				first.settle(gets(first, "3"), amqp.StateReleased, true)
				second.settle(gets(second, "3"), amqp.StateReleased, true)
				gets(honest, "3")
				for _, p := range []*peerConn{first, second, honest} {
					p.quiet(time.Second)
				}
				put("4", 0) // only these two wait: they get it as before
				for range 2 {
					first.settle(gets(first, "4"), amqp.StateReleased, true)
					second.settle(gets(second, "4"), amqp.StateReleased, true)
				}
			})
		})
	}
}

// SM-415, WP-253: only a release steps back, and one of many deliveries does so once for each log.
// In a message session nothing does.
func TestStepsBackOnce(t *testing.T) {
	const n = 1000
	for _, c := range []struct {
		entity string
		state  amqp.DeliveryState
		steps  int32
	}{
		{"q", amqp.StateReleased, 1},
		{"wide", amqp.StateReleased, 2},
		{"q", amqp.Modified{}, 0},
		{"sessions", amqp.StateReleased, 0},
	} {
		t.Run(fmt.Sprintf("%s %T", c.entity, c.state), func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				b.oneOfEachLog()
				b.queue("sessions", ofSession)
				var batch [][]byte
				for i := range n / 10 {
					batch = append(batch, keyedMessage(fmt.Sprint(i), "s", ""))
				}
				p := &transactor{peerConn: b.root()}
				p.attachSender(1, c.entity)
				for range 10 {
					p.write(0, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(p.next()), DeliveryTag: []byte{1}, MessageFormat: amqp.Some(amqp.MessageFormatBatch)}, batchOf(batch...))
					p.accepted(p.last)
				}
				if c.entity == "sessions" {
					p.acceptSession(2, "sessions", "s")
				} else {
					p.attachReceiver(2, c.entity, amqp.SenderUnsettled)
				}
				p.credit(2, 0, n, false)
				for range n {
					p.receive()
				}
				other := b.root()
				if c.entity != "sessions" {
					p.credit(2, n, n, false)
					synctest.Wait()
					other.attachReceiver(2, c.entity, amqp.SenderUnsettled)
					other.credit(2, 0, n, false)
					synctest.Wait()
				}
				var steps atomic.Int32
				b.broker.refuse(func(cmd engine.Command) error {
					if _, ok := cmd.(*engine.StepBack); ok {
						steps.Add(1)
					}
					return nil
				})
				p.write(0, &amqp.Disposition{Role: amqp.RoleReceiver, Last: amqp.Some(uint32(n - 1)), Settled: true, State: c.state}, nil)
				synctest.Wait()
				if got := steps.Load(); got != c.steps {
					t.Errorf("the link steps back %d times, not %d", got, c.steps)
				}
				if c.steps > 0 {
					for range n {
						other.receive()
					}
					p.quiet(time.Second)
				}
			})
		})
	}
}
