package servicebus

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/budget"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// interleave sends a message on each of the handles from first on, a frame of each in turn, and
// returns how each was answered: accepted, or the condition of its refusal. Each message has the
// handle as its delivery-id, plus id. between is called after each round of frames.
func (p *peerConn) interleave(id uint32, handles []uint32, message []byte, frame int, between func(round int)) map[uint32]string {
	p.Helper()
	for at := 0; at < len(message); at += frame {
		end := min(at+frame, len(message))
		for _, h := range handles {
			tr := &amqp.Transfer{Handle: h, More: end < len(message)}
			if at == 0 {
				tr.DeliveryID, tr.DeliveryTag = amqp.Some(id+h), []byte{1}
			}
			p.write(0, tr, message[at:end])
		}
		between(at / frame)
	}
	outcomes := map[uint32]string{}
	for len(outcomes) < len(handles) {
		d := expect[*amqp.Disposition](p)
		for n := d.First; n <= d.Last.Or(d.First); n++ {
			if r, ok := d.State.(amqp.Rejected); ok && r.Error != nil {
				outcomes[n-id] = string(r.Error.Condition)
			} else {
				outcomes[n-id] = fmt.Sprint(d.State)
			}
		}
	}
	return outcomes
}

// WP-248, SM-397: unfinished deliveries are bounded by four times the largest message that a
// connection may send. The oldest one continues, and one without room is refused as busy when its
// last frame has arrived. Its link stays.
func TestUnfinishedDeliveries(t *testing.T) {
	for name, test := range map[string]struct {
		links, size, refused int
	}{
		"larger than what is buffered": {1, 250_000, 0},
		"four of the largest":          {4, 261_000, 0},
		"more small ones":              {9, 90_000, 0},
		"more than there is room for":  {7, 250_000, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(o *Options) { o.Limits.BufferedIn = 64 << 10 }, func(b *bench) {
				p := b.root()
				var handles []uint32
				for h := range uint32(test.links) {
					p.attachSender(h, "q") // 256 KiB
					handles = append(handles, h)
				}
				outcomes, refused := p.interleave(0, handles, bodyOf(test.size), 10_000, func(int) {}), 0
				for h, outcome := range outcomes {
					if outcome == string(amqp.CondServerBusy) {
						refused++
					} else if outcome != fmt.Sprint(amqp.StateAccepted) {
						t.Errorf("link %d: %s", h, outcome)
					}
				}
				if refused != test.refused || outcomes[0] != fmt.Sprint(amqp.StateAccepted) {
					t.Errorf("%d are refused, not %d: %v", refused, test.refused, outcomes)
				}
				for _, h := range handles {
					p.send(h, 100+h, bodyOf(test.size)) // fails on a detach
				}
			})
		})
	}
}

// WP-248: the bound follows the links. Links to a smaller entity do not have the bound of an entity
// whose link is gone.
func TestBoundOfUnfinishedDeliveries(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.BufferedIn = 64 << 10 }, func(b *bench) {
		b.queue("large", func(p *event.Properties) { p.MaxMessageSizeKilobytes = 2048 })
		p := b.root()
		handles := []uint32{0, 1, 2, 3, 4, 5, 6}
		for _, h := range handles {
			p.attachSender(h, "q")
		}
		refused := func(id uint32) (n int) {
			for _, outcome := range p.interleave(id, handles, bodyOf(250_000), 10_000, func(int) {}) {
				if outcome == string(amqp.CondServerBusy) {
					n++
				}
			}
			return n
		}
		if n := refused(0); n != 3 {
			t.Errorf("%d are refused", n)
		}
		p.attachSender(7, "large")
		if n := refused(100); n != 0 {
			t.Errorf("%d are refused beside a link to a larger entity", n)
		}
		p.write(0, &amqp.Detach{Handle: 7, Closed: true}, nil)
		expect[*amqp.Detach](p)
		if n := refused(200); n != 3 {
			t.Errorf("%d are refused when that link is gone", n)
		}
	})
}

// WP-249, SM-398, F22: four large messages that come frame by frame in turn while there is memory
// for one of them. The one that began first arrives, the others are refused as busy, small ones of
// another client are taken all the time, and sent again one by one they all arrive.
func TestLargeMessagesWithLittleMemory(t *testing.T) {
	memory := budget.New(128<<20, slog.New(slog.DiscardHandler)) // 64 MiB of it may be in use
	bubble(t, func(o *Options) { o.Memory = memory }, func(b *bench) {
		b.queue("large", func(p *event.Properties) { p.MaxMessageSizeKilobytes = 8 << 10 })
		p, other := b.root(), b.root()
		other.attachSender(1, "q")
		handles := []uint32{0, 1, 2, 3}
		for _, h := range handles {
			p.attachSender(h, "large")
		}
		body, sent := bodyOf(8<<20-1<<10), uint32(0)
		outcomes := p.interleave(0, handles, body, 60_000, func(round int) {
			if round%10 == 0 {
				other.send(1, sent, bodyOf(100))
				sent++
			}
		})
		for h, outcome := range outcomes {
			switch {
			case outcome == fmt.Sprint(amqp.StateAccepted):
			case outcome != string(amqp.CondServerBusy):
				t.Errorf("link %d: %s", h, outcome)
			case h == 0:
				t.Error("the oldest delivery is refused")
			default:
				p.interleave(100, []uint32{h}, body, 60_000, func(int) {})
				p.interleave(200, []uint32{h}, body, 60_000, func(int) {})
			}
		}
		if !bytes.Contains([]byte(fmt.Sprint(outcomes)), []byte("busy")) {
			t.Errorf("nothing is refused: %v", outcomes)
		}
	})
}
