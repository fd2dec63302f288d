package servicebus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// begins writes the first frame of a delivery that has more frames.
func (p *peerConn) begins(handle, id uint32, change func(*amqp.Transfer)) {
	t := &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(id), DeliveryTag: []byte("tag"), MessageFormat: amqp.Some(uint32(0)), More: true}
	if change != nil {
		change(t)
	}
	p.write(0, t, newMessage("begun", "x"))
}

// WP-236: a later frame of a delivery may repeat the fields of the first one. A frame that
// contradicts it ends the link, and nothing is stored.
func TestLaterFrames(t *testing.T) {
	for name, test := range map[string]struct {
		first, later func(*amqp.Transfer)
		want         string // part of the error; empty: the message is accepted
	}{
		"says nothing": {nil, func(*amqp.Transfer) {}, ""},
		"says the same": {nil, func(t *amqp.Transfer) {
			t.DeliveryID, t.DeliveryTag, t.MessageFormat = amqp.Some(uint32(7)), []byte("tag"), amqp.Some(uint32(0))
		}, ""},
		"the format that is meant where none is said": {func(t *amqp.Transfer) { t.MessageFormat = amqp.Opt[uint32]{} },
			func(t *amqp.Transfer) { t.MessageFormat = amqp.Some(uint32(0)) }, ""},
		"another id":     {nil, func(t *amqp.Transfer) { t.DeliveryID = amqp.Some(uint32(8)) }, "another delivery-id"},
		"another tag":    {nil, func(t *amqp.Transfer) { t.DeliveryTag = []byte("other") }, "another delivery-tag"},
		"a tag, at last": {func(t *amqp.Transfer) { t.DeliveryTag = nil }, func(t *amqp.Transfer) { t.DeliveryTag = []byte("tag") }, "another delivery-tag"},
		"another format": {nil, func(t *amqp.Transfer) { t.MessageFormat = amqp.Some(uint32(amqp.MessageFormatBatch)) }, "another message-format"},
		"is resumed":     {nil, func(t *amqp.Transfer) { t.Resume = true }, "another resume flag"},
		"aborts another": {nil, func(t *amqp.Transfer) { t.DeliveryID, t.Aborted = amqp.Some(uint32(8)), true }, "another delivery-id"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				p := b.root()
				p.attachSender(1, "q")
				p.attachSender(2, "q2")
				p.begins(1, 7, test.first)
				last := &amqp.Transfer{Handle: 1}
				test.later(last)
				p.write(0, last, nil)
				if test.want == "" {
					if d := expect[*amqp.Disposition](p); d.First != 7 || d.State != amqp.StateAccepted {
						t.Errorf("%+v; want delivery 7 accepted", d)
					}
					b.shows("q", "[begun]")
					return
				}
				d := expect[*amqp.Detach](p)
				if d.Handle != 1 || !d.Closed || d.Error.Condition != amqp.CondInvalidField || !strings.Contains(d.Error.Description, "delivery 7 has "+test.want) {
					t.Errorf("%+v, %v; want %q", d, d.Error, test.want)
				}
				p.tracked(d.Error.Description)
				p.write(0, last, nil) // the peer does not know yet
				p.write(0, &amqp.Detach{Handle: 1, Closed: true}, nil)
				p.send(2, 9, newMessage("a", "x")) // other links are not affected
				b.shows("q", "[]")
			})
		})
	}
}

// WP-237: no two deliveries of a session that are not settled have one delivery-id. Which links
// they are on does not matter, nor does the order of the ids, and one that is settled may be used
// again.
func TestDeliveryIDTwice(t *testing.T) {
	for name, test := range map[string]struct {
		second func(p *peerConn)
		want   string // dispositions, or the end of the session
	}{
		"as it is":          {func(p *peerConn) { p.transfer(1, 7, newMessage("b", "x")) }, "end"},
		"on another link":   {func(p *peerConn) { p.transfer(2, 7, newMessage("b", "x")) }, "end"},
		"settled":           {func(p *peerConn) { p.write(0, settled(2, 7), newMessage("b", "x")) }, "end"},
		"of a frame":        {func(p *peerConn) { p.begins(2, 7, nil) }, "end"},
		"of an unended one": {func(p *peerConn) { p.begins(1, 4, nil); p.transfer(2, 4, newMessage("b", "x")) }, "end"},
		"after larger ones": {func(p *peerConn) { p.transfer(2, 9, newMessage("b", "x")); p.transfer(1, 7, newMessage("c", "x")) }, "end"},
		"another":           {func(p *peerConn) { p.transfer(1, 8, newMessage("b", "x")) }, "7 8"},
		"a smaller one":     {func(p *peerConn) { p.transfer(1, 3, newMessage("b", "x")) }, "3 7"},
		"of one that was aborted": {func(p *peerConn) {
			p.begins(1, 8, nil)
			p.write(0, &amqp.Transfer{Handle: 1, Aborted: true}, nil)
			p.transfer(1, 8, newMessage("b", "x"))
		}, "7 8"},
		"of one that came settled": {func(p *peerConn) {
			p.write(0, settled(1, 8), newMessage("b", "x"))
			p.transfer(1, 8, newMessage("c", "x"))
		}, "7 8"},
		"of another session": {func(p *peerConn) {
			p.begin(3)
			p.write(3, &amqp.Attach{Name: "3", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}, nil)
			expect[*amqp.Attach](p)
			p.write(3, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(7)), DeliveryTag: []byte{1}}, newMessage("b", "x"))
		}, "7 7"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				p := b.root()
				p.attachSender(1, "q")
				p.attachSender(2, "q2")
				b.broker.hold(func() {
					p.transfer(1, 7, newMessage("a", "x"))
					test.second(p)
					synctest.Wait()
				})
				synctest.Wait()
				if got := p.answers(); got != test.want {
					t.Errorf("answered with %q, not %q", got, test.want)
				}
			})
		})
	}
}

// settled is a delivery in one frame that needs no answer.
func settled(handle, id uint32) *amqp.Transfer {
	return &amqp.Transfer{Handle: handle, DeliveryID: amqp.Some(id), DeliveryTag: []byte{2}, Settled: amqp.Some(true)}
}

// answers returns the received answers: the numbers of the accepted deliveries, in their order, or
// the end of the session.
func (p *peerConn) answers() string {
	p.Helper()
	var ids []string
	for {
		select {
		case r := <-p.in:
			switch f := r.p.(type) {
			case *amqp.Flow:
			case *amqp.Disposition:
				for id := f.First; id <= f.Last.Or(f.First) && f.State == amqp.StateAccepted; id++ {
					ids = append(ids, fmt.Sprint(id))
				}
			case *amqp.End:
				if f.Error == nil || f.Error.Condition != amqp.CondInvalidField || !strings.Contains(f.Error.Description, "is that of another delivery") {
					p.Errorf("%+v", f.Error)
				}
				return "end"
			default:
				p.Errorf("%T %+v, %v", r.p, r.p, r.err)
			}
		default:
			slices.Sort(ids)
			return strings.Join(ids, " ")
		}
	}
}

// WP-238: no delivery is unsettled where a link is attached, so one that is resumed is ignored
// whole, whatever it carries. The link and its credit go on.
func TestResumedDelivery(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.SenderCredit = 4 }, func(b *bench) {
		p := b.root()
		p.attachSender(1, "q")
		for id := range uint32(20) {
			first := &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(id), DeliveryTag: []byte{1}, Resume: true, More: id%2 == 0}
			if id%3 == 0 {
				first.State = amqp.StateAccepted
			}
			p.write(0, first, newMessage("resumed", "x"))
			if first.More {
				p.write(0, &amqp.Transfer{Handle: 1, Resume: id%4 == 0, More: true}, []byte{0})
				p.write(0, &amqp.Transfer{Handle: 1, Aborted: id%5 == 0}, []byte{0})
			}
			synctest.Wait()
		}
		p.send(1, 20, newMessage("a", "x"))
		b.shows("q", "[a]")
	})
}
