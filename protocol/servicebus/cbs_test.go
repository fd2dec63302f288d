package servicebus

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// status wants a $cbs answer.
func (p *peerConn) tokenAnswer(m amqp.Map, status int32, text string) {
	p.Helper()
	code, _ := m.Get("status-code")
	description, _ := m.Get("status-description")
	if code != status || !strings.HasPrefix(fmt.Sprint(description), text) {
		p.Errorf("%+v; want code == status && strings.HasPrefix(fmt.Sprint(description), text)", m)
	}
}

// WP-005, WP-040, WP-041, WP-045, WP-046: put-token over a bare AMQP connection.
func TestPutToken(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		for _, id := range []any{"id", uint64(7), amqp.UUID{1, 2}, []byte{9}} {
			p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), id), 202, "Accepted")
		}
		p.attachSender(1, "q")
		p.send(1, 0, newMessage("a", "x"))
	})
}

// WP-047, 2.2: an expiry in the request does not count, whatever its type; the token's own does.
func TestTokenExpiration(t *testing.T) {
	for name, expiration := range map[string][]amqp.Pair{
		"absent": nil, "null": {{Key: "expiration"}}, "zero": {{Key: "expiration", Value: "0"}}, "seconds in the past": {{Key: "expiration", Value: "1000"}},
		"seconds in the future": {{Key: "expiration", Value: "99999999999"}}, "no number": {{Key: "expiration", Value: "soon"}},
		"long": {{Key: "expiration", Value: int64(1000)}}, "past": {{Key: "expiration", Value: amqp.Timestamp(1000)}},
		"future": {{Key: "expiration", Value: amqp.Timestamp(99999999999999)}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				p := b.dial().open()
				p.tokenAnswer(p.putTokenOf("servicebus.windows.net:sastoken", "sb://ns/q", token("sb://ns/q", "root", "root-key", time.Minute), "1", expiration...), 202, "Accepted")
				p.attachSender(1, "q")
				p.quiet(59 * time.Second)
				p.send(1, 0, newMessage("a", "x"))
				if d := expect[*amqp.Detach](p); !strings.Contains(d.Error.Description, "Code: RenewToken") {
					t.Errorf(`%+v; want strings.Contains(d.Error.Description, "Code: RenewToken")`, d)
				}
			})
		})
	}
}

// WP-048, WP-049, WP-060 and reliability.md S5 to S9: tokens that are refused.
func TestBadTokens(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		p.tokenAnswer(p.putToken("sb://ns/none", token("sb://ns/none", "root", "root-key", time.Hour), "1"), 404, "The messaging entity 'sb://ns/none' could not be found.")
		p.tokenAnswer(p.putToken("sb://ns/none", token("sb://ns/none", "root", "wrong", time.Hour), "1"), 401, "InvalidSignature")
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "nobody", "root-key", time.Hour), "1"), 401, "InvalidSignature")
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", -time.Second), "1"), 401, "ExpiredToken: The token is expired. Expiration time: ")
		p.tokenAnswer(p.putToken("sb://ns/q2", token("sb://ns/q", "root", "root-key", time.Hour), "1"), 401, "InvalidAudience")
		p.tokenAnswer(p.putToken("sb://ns/q", "eyJhbGciOi", "1"), 401, "InvalidSignature")
		p.attachSender(1, "q")
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondUnauthorizedAccess {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondUnauthorizedAccess", d)
		}
	})
}

// WP-053, WP-057, WP-058: the paths that a claim covers.
func TestClaimScope(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		attach := func(handle uint32, at string, sends, ok bool, text string) {
			t.Helper()
			var a *amqp.Attach
			if sends {
				a = p.attachSender(handle, at)
			} else {
				a = p.attachReceiver(handle, at, amqp.SenderUnsettled)
			}
			if granted := a.Source != nil; granted != ok {
				t.Errorf("%s: %v, want %v", at, granted, ok)
			}
			if !ok {
				if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondUnauthorizedAccess || !strings.Contains(d.Error.Description, text) {
					t.Errorf("%+v; want d.Error.Condition == amqp.CondUnauthorizedAccess && strings.Contains(d.Error.Description, text)", d.Error)
				}
			}
		}
		p.putToken("amqp://host:5672/Q", token("sb://HOST/q", "listen", "listen-key", time.Hour), "1")
		attach(1, "q", false, true, "")
		attach(2, "q/$management", false, true, "")
		attach(3, "q/$DeadLetterQueue", false, true, "")
		attach(4, "q2", false, false, "'Listen' claim(s) are required")
		attach(5, "q", true, false, "Unauthorized access. 'Send' claim(s) are required to perform this operation. Resource: 'sb://ns/q'.")
		p.putToken("sb://ns/q2", token("sb://ns", "send", "send-key", time.Hour), "1")
		attach(6, "q2", true, true, "")
		attach(7, "q2", false, false, "'Listen' claim(s) are required")
	})
}

// WP-055, WP-056: renewal, and expiry without one (reliability.md S11).
func TestTokenExpiry(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.IdleTimeout = time.Hour; o.Limits.LinkIdle = time.Hour }, func(b *bench) {
		p := b.dial().open()
		p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Minute), "1")
		p.putToken("sb://ns/q2", token("sb://ns/q2", "root", "root-key", time.Hour), "1")
		p.attachSender(1, "q")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		p.attachSender(3, "q2")
		time.Sleep(30 * time.Second)
		p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Minute), "1")
		start := time.Now()
		for range 2 {
			d := expect[*amqp.Detach](p)
			if d.Error.Condition != amqp.CondDetachForced || !strings.Contains(d.Error.Description, "is force detached. Code: RenewToken. Details: Unauthorized access. '") {
				t.Errorf(`%+v; want d.Error.Condition == amqp.CondDetachForced && strings.Contains(d.Error.Description, "is force detached. Code: RenewToken. Details: Unauthorized access. '")`, d)
			}
		}
		if d := time.Since(start); d < 59*time.Second || d > time.Minute {
			t.Errorf("%+v; want d >= 59*time.Second && d <= time.Minute", d)
		}
		p.send(3, 0, newMessage("a", "x")) // the connection stays
	})
}

// WP-042, WP-043: the way of the answer when there is no reply-to, or it is a link's name: among
// pairs to one node, one per session.
func TestReplyRouting(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for _, replyTo := range []amqp.Opt[string]{{}, amqp.Some("name-of-link"), amqp.Some("address")} {
			p := b.root()
			p.begin(1)
			for channel := range uint16(2) {
				a := &amqp.Attach{Name: fmt.Sprint("out", channel), Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q/$management"}}
				p.write(channel, a, nil)
				expect[*amqp.Attach](p)
				in := &amqp.Attach{Name: "other", Handle: 2, Role: amqp.RoleReceiver, SenderSettleMode: amqp.Some(amqp.SenderSettled), Source: &amqp.Source{Address: "q/$management"}}
				if channel == 1 {
					in.Name = "name-of-link"
					if replyTo.Value == "address" {
						in.Target = &amqp.Target{Address: "address"}
					}
				}
				p.write(channel, in, nil)
				expect[*amqp.Attach](p)
				p.write(channel, &amqp.Flow{IncomingWindow: 100, OutgoingWindow: 1, Handle: amqp.Some(uint32(2)), LinkCredit: amqp.Some(uint32(10))}, nil)
			}
			m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: amqp.UUID{5}, ReplyTo: replyTo})
			m = amqp.AppendSection(m, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: "what"}})
			p.write(1, &amqp.Transfer{Handle: 1, DeliveryID: amqp.Some(uint32(0)), DeliveryTag: []byte{1}}, m)
			got := map[string]uint16{}
			for range 2 { // an unsettled request is accepted, and answered
				r := p.next()
				if _, ok := r.p.(*amqp.Flow); ok {
					r = p.next()
				}
				for {
					if _, ok := r.p.(*amqp.Flow); !ok {
						break
					}
					r = p.next()
				}
				got[reflect.TypeOf(r.p).String()] = r.channel
			}
			if !cmp.Equal(got, map[string]uint16{"*amqp.Disposition": 1, "*amqp.Transfer": 1}) {
				t.Errorf("%v: %v (-want +got):\n%s", replyTo, got, cmp.Diff(map[string]uint16{"*amqp.Disposition": 1, "*amqp.Transfer": 1}, got))
			}
			p.net.Close()
		}
	})
}

// semantics.md 16.3: a connection has tokens for as many audiences as the limit says, renewals not
// counted; one that expires makes room.
func TestTokenLimit(t *testing.T) {
	const limit = 1000
	bubbleOn(t, faultfs.New(), func(o *Options) { o.Limits.IdleTimeout, o.Limits.NoLinksFresh = 24*time.Hour, 24*time.Hour }, func(b *bench) {
		p := b.dial().open()
		put := func(queue string, life time.Duration, status int32, text string) {
			t.Helper()
			at := "sb://ns/" + queue
			p.tokenAnswer(p.putToken(at, token(at, "root", "root-key", life), "1"), status, text)
		}
		const full = "The maximum number of '1000' tokens per connection has been reached. TrackingId:"
		for i := range limit + 1 {
			name := fmt.Sprint("queue", i)
			b.queue(name, nil)
			switch i {
			case 0:
				put(name, time.Minute, 202, "Accepted")
				p.credit(101, 0, 2*limit, false) // for the answers
			case limit:
				put(name, time.Hour, 403, full)
			default:
				put(name, time.Hour, 202, "Accepted")
			}
		}
		put("queue0", time.Minute, 202, "Accepted")
		put("QUEUE999", time.Hour, 202, "Accepted")
		put("queue1/$management", time.Hour, 403, full)
		p.attachSender(1, "queue999") // the refusals cost nothing else
		time.Sleep(time.Minute + time.Second)
		put("queue1000", time.Hour, 202, "Accepted")
		put("q", time.Hour, 403, full)
	})
}

// WP-054: a pair in a fresh session, over and over.
func TestManyTokenSessions(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		for range 1000 {
			p.begin(5)
			p.write(5, &amqp.Attach{Name: "a", Handle: 0, Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, nil)
			if a := expect[*amqp.Attach](p); a.Target == nil {
				t.Fatal("refused")
			}
			p.write(5, &amqp.Attach{Name: "a", Handle: 1, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "$cbs"}}, nil)
			if a := expect[*amqp.Attach](p); a.Source == nil {
				t.Fatal("refused")
			}
			p.write(5, &amqp.Detach{Handle: 0, Closed: true}, nil)
			expect[*amqp.Detach](p)
			p.write(5, &amqp.End{}, nil)
			expect[*amqp.End](p)
		}
	})
}

// 2.1, 8.4: a connection has one sending and one receiving link to $cbs at a time, in any session
// and under any name. A further one is refused, and the present pair continues. A link that is
// closed, or whose session ends, makes room.
func TestOnePairForTokens(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		other := b.dial().open()
		other.attachTokens()
		p := b.dial().open()
		var number uint64
		synctest.Wait()
		for c := range b.server.conns {
			number = max(number, c.number)
		}
		want := fmt.Sprintf("A link to connection '%d' $cbs node has already been opened. TrackingId:", number)
		put := func() {
			t.Helper()
			p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "1"), 202, "Accepted")
		}
		attach := func(channel uint16, name string, handle uint32, sends, good bool) {
			t.Helper()
			a := &amqp.Attach{Name: name, Handle: handle, Role: amqp.RoleReceiver, Source: &amqp.Source{Address: "$CBS"}}
			if sends {
				a = &amqp.Attach{Name: name, Handle: handle, Role: amqp.RoleSender, Target: &amqp.Target{Address: "sb://ns/$cbs"}}
			}
			p.write(channel, a, nil)
			if got := expect[*amqp.Attach](p); (got.Source != nil) != good {
				t.Fatalf("%s: %+v; want (got.Source != nil) == good", name, got)
			}
			if good {
				return
			}
			if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondNotAllowed || !strings.HasPrefix(d.Error.Description, want) || !d.Closed {
				t.Errorf("%+v; want d.Error.Condition == amqp.CondNotAllowed && strings.HasPrefix(d.Error.Description, want) && d.Closed", d.Error)
			}
			p.write(channel, &amqp.Detach{Handle: handle, Closed: true}, nil)
		}
		put()
		p.begin(1)
		for _, name := range []string{"x", "s100", "r101"} {
			for channel := range uint16(2) {
				attach(channel, name, 5, true, false)
				attach(channel, name, 5, false, false)
			}
		}
		put() // nothing happened to the pair
		p.detach(100)
		attach(1, "x", 5, false, false)
		attach(1, "x", 5, true, true)
		p.write(0, &amqp.Detach{Handle: 101}, nil)
		expect[*amqp.Detach](p)
		attach(1, "y", 6, false, true)
		attach(0, "z", 7, true, false)
		p.write(1, &amqp.End{}, nil)
		expect[*amqp.End](p)
		p.header = false
		put()
		p.attachSender(1, "q")
	})
}
