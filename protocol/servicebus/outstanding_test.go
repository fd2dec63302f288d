package servicebus

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Limits of unsettled deliveries (reliability.md 8): they stop further ones until some are settled.
func TestLockedLimit(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Locked = 2; o.Limits.ReceiverCredit = 2 }, func(b *bench) {
		p := b.loaded(5)
		p.credit(2, 0, 5, false)
		p.receive()
		p.receive()
		p.quiet(time.Second)
		for i := range uint32(3) {
			p.settle(i, amqp.StateAccepted, true)
			p.receive()
		}
		p.quiet(time.Second)
	})
}

// Deliveries of a link that is gone no longer count as unsettled.
func TestLockedOfAGoneLink(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Locked = 2; o.Limits.ReceiverCredit = 2 }, func(b *bench) {
		p := b.loaded(6)
		for handle := range uint32(3) {
			handle += 2
			if handle > 2 {
				p.attachReceiver(handle, "q", amqp.SenderUnsettled)
			}
			p.credit(handle, 0, 5, false)
			p.receive()
			p.receive()
			p.quiet(time.Second)
			p.detach(handle)
		}
	})
}
