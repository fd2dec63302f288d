package servicebus

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Session errors end the session and nothing else.
func TestSessionErrors(t *testing.T) {
	for name, test := range map[string]struct {
		frame amqp.Performative
		want  amqp.Symbol
	}{
		"transfer without a link":   {&amqp.Transfer{Handle: 9, DeliveryID: amqp.Some(uint32(0))}, amqp.CondUnattachedHandle},
		"flow without a link":       {&amqp.Flow{Handle: amqp.Some(uint32(9))}, amqp.CondUnattachedHandle},
		"transfer of the receiver":  {&amqp.Transfer{Handle: 2, DeliveryID: amqp.Some(uint32(0))}, amqp.CondNotAllowed},
		"transfer without a number": {&amqp.Transfer{Handle: 1}, amqp.CondInvalidField},
		"handle in use":             {&amqp.Attach{Name: "other", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}, amqp.CondHandleInUse},
		"handle over handle-max":    {&amqp.Attach{Name: "other", Handle: handleMax + 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}, amqp.CondNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				p := b.root()
				p.begin(3)
				p.attachSender(1, "q")
				for _, a := range []*amqp.Attach{
					{Name: "s", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}},
					{Name: "r", Handle: 2, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}},
				} {
					p.write(3, a, nil)
					expect[*amqp.Attach](p)
				}
				p.write(3, test.frame, nil)
				p.write(3, test.frame, nil) // the peer does not know yet
				if e := expect[*amqp.End](p); e.Error.Condition != test.want {
					t.Errorf("%+v; want e.Error.Condition == test.want", e)
				}
				p.write(3, &amqp.End{}, nil)
				p.begin(3)
				p.send(1, 0, newMessage("a", "x"))
			})
		})
	}
}

// WP-235: an end or a detach of something that does not exist is ignored. Clients send one when a
// call is cancelled before its begin or attach was written, and more when the cleanup is cancelled
// as well.
func TestStrayEnds(t *testing.T) {
	type frame struct {
		channel uint16
		body    amqp.Performative
	}
	failed := &amqp.Error{Condition: "some:condition"}
	for name, test := range map[string]struct {
		frames  []frame
		answers string
	}{
		"an end on a channel never begun":   {[]frame{{9, &amqp.End{}}}, ""},
		"an end with an error":              {[]frame{{9, &amqp.End{Error: failed}}}, ""},
		"an end on the last channel":        {[]frame{{4999, &amqp.End{}}}, ""},
		"an end twice":                      {[]frame{{3, &amqp.End{}}, {3, &amqp.End{}}, {3, &amqp.End{}}}, "3 end"},
		"a detach on a channel never begun": {[]frame{{9, &amqp.Detach{Handle: 1, Closed: true}}}, ""},
		"a detach after the end":            {[]frame{{3, &amqp.End{}}, {3, &amqp.Detach{Handle: 1, Closed: true}}}, "3 end"},
		"a detach of a handle never used":   {[]frame{{3, &amqp.Detach{Handle: 9, Closed: true}}}, ""},
		"a detach with an error":            {[]frame{{3, &amqp.Detach{Handle: 9, Error: failed}}}, ""},
		"a detach twice":                    {[]frame{{3, &amqp.Detach{Handle: 1, Closed: true}}, {3, &amqp.Detach{Handle: 1}}}, "3 detach 1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				p := b.root()
				p.attachSender(1, "q")
				p.begin(3)
				for _, handle := range []uint32{1, 2} {
					p.write(3, &amqp.Attach{Name: fmt.Sprint("other", handle), Handle: handle, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}, nil)
					expect[*amqp.Attach](p)
				}
				for _, f := range test.frames {
					p.write(f.channel, f.body, nil)
				}
				p.transfer(1, 0, newMessage("a", "x"))
				var answers []string
				for accepted := false; !accepted; {
					switch r := p.next(); f := r.p.(type) {
					case *amqp.Flow:
					case *amqp.Disposition:
						accepted = f.State == amqp.StateAccepted
					case *amqp.Detach:
						answers = append(answers, fmt.Sprint(r.channel, " detach ", f.Handle))
					case *amqp.End:
						answers = append(answers, fmt.Sprint(r.channel, " end"))
					default:
						t.Fatalf("%T %+v, %v", r.p, r.p, r.err)
					}
				}
				if got := strings.Join(answers, ", "); got != test.answers {
					t.Errorf("answered with %q, not %q", got, test.answers)
				}
				p.begin(9) // a channel that was ended without a session is free
				if test.answers != "3 end" {
					p.write(3, &amqp.Transfer{Handle: 2, DeliveryID: amqp.Some(uint32(1)), DeliveryTag: []byte{1}}, newMessage("b", "x"))
					if d := expect[*amqp.Disposition](p); d.State != amqp.StateAccepted {
						t.Errorf("%+v on the session's other link", d)
					}
				}
			})
		})
	}
}

// WP-213: whatever the engine still answers, nothing follows a detach, an end or a close in its
// scope: the recorder checks that. Operations under way are not lost, and the rest of the
// connection, if any, continues.
func TestNothingAfterAnEnd(t *testing.T) {
	detach := func(p *peerConn, handles ...uint32) {
		for _, h := range handles {
			p.write(0, &amqp.Detach{Handle: h, Closed: true}, nil)
		}
	}
	attach := func(p *peerConn, name string, handle uint32) {
		p.write(0, &amqp.Attach{Name: name, Handle: handle, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "q"}}, nil)
	}
	for name, test := range map[string]struct {
		end  func(p *peerConn)
		want [3]int // detaches, ends, closes
	}{
		"detach":               {func(p *peerConn) { detach(p, 1, 2, 200, 201) }, [3]int{4, 0, 0}},
		"detach, attach again": {func(p *peerConn) { detach(p, 1, 2); attach(p, "new", 2) }, [3]int{2, 0, 0}},
		"name attached again":  {func(p *peerConn) { attach(p, "r2", 3) }, [3]int{1, 0, 0}},
		"entity deleted": {func(p *peerConn) {
			if err := p.ns.DeleteEntity(p.Context(), engine.DeleteEntity{Path: "q", Reason: "client"}); err != nil {
				p.Error(err)
			}
		}, [3]int{4, 0, 0}},
		"end":                {func(p *peerConn) { p.write(0, &amqp.End{}, nil) }, [3]int{0, 1, 0}},
		"end for an error":   {func(p *peerConn) { p.transfer(77, 0, newMessage("a", "x")) }, [3]int{0, 1, 0}},
		"close":              {func(p *peerConn) { p.write(0, &amqp.Close{}, nil) }, [3]int{0, 0, 1}},
		"close for an error": {func(p *peerConn) { p.write(0, &amqp.Open{}, nil) }, [3]int{0, 0, 1}},
		"broken frame":       {func(p *peerConn) { p.raw([]byte{0, 0, 0, 1, 2, 0, 0, 0}) }, [3]int{0, 0, 1}},
		"the server stops":   {func(p *peerConn) { go p.server.Close(p.Context()) }, [3]int{0, 0, 1}},
	} {
		// 0: the broker's output waits for the peer
		for _, window := range []uint32{5000, 0} {
			t.Run(fmt.Sprint(name, " ", window), func(t *testing.T) {
				bubble(t, func(o *Options) { o.Limits.SenderCredit = 2 }, func(b *bench) {
					p := b.loaded(6)
					got := p.endsAmidAnswers(window, test.end, test.want[1]+test.want[2] == 0)
					if got != test.want {
						t.Errorf("%v detaches, ends, closes, not %v", got, test.want)
					}
				})
			})
		}
	}
}

// endsAmidAnswers makes the engine answer many requests at once, after an end; with a window of 0
// the broker waits for the peer meanwhile. It returns the received detaches, ends and closes.
// alive: the connection continues.
func (p *peerConn) endsAmidAnswers(window uint32, end func(*peerConn), alive bool) [3]int {
	p.attachManagement("q")
	p.credit(2, 0, 3, false)
	for range 3 {
		p.receive()
	}
	flow := &amqp.Flow{NextIncomingID: amqp.Some(uint32(4)), IncomingWindow: window, NextOutgoingID: 0, OutgoingWindow: 5000}
	p.write(0, flow, nil)
	request := operationPrefix + "peek-message"
	body := amqp.Map{{Key: "from-sequence-number", Value: int64(1)}, {Key: "message-count", Value: int32(10)}}
	if window == 0 {
		p.credit(2, 3, 2, false)
		p.write(0, flow, nil)
		p.request("m", request, body)
		synctest.Wait()
	}
	p.broker.hold(func() {
		p.transfer(1, 50, newMessage("under way", "x"))
		p.settle(0, amqp.StateAccepted, false)
		p.settle(1, amqp.Modified{}, false)
		if window > 0 {
			p.credit(2, 3, 10, false)
		}
		p.request("m", request, body)
		synctest.Wait()
		end(p)
		synctest.Wait()
	})
	got := p.ends()
	if alive {
		flow.IncomingWindow = 5000
		p.write(0, flow, nil)
		for i, n := range p.ends() {
			got[i] += n
		}
		p.begin(4)
	}
	return got
}

// ends counts the detaches, ends and closes that come until nothing has for a minute. No answer
// about a delivery of link 1 or 2 may come when that is detached.
func (p *peerConn) ends() (n [3]int) {
	p.Helper()
	gone := map[amqp.Role]bool{} // by the broker's
	for {
		select {
		case r, open := <-p.in:
			switch f := r.p.(type) {
			case *amqp.Detach:
				n[0]++
				switch f.Handle {
				case 1:
					gone[amqp.RoleReceiver] = true
				case 2:
					gone[amqp.RoleSender] = true
				}
			case *amqp.Disposition:
				if gone[f.Role] {
					p.Errorf("%+v after the detach", f)
				}
			case *amqp.End:
				n[1]++
			case *amqp.Close:
				n[2]++
			}
			if !open {
				return n
			}
		case <-time.After(time.Minute):
			return n
		}
	}
}
