package servicebus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-013: the peer hears something at least every half of its idle time-out.
func TestHeartbeat(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.login("root", "root-key")
		p.write(0, &amqp.Close{}, nil)
		p.closed()

		p = b.dial()
		p.raw(amqp.ProtocolAMQP[:])
		p.next()
		p.write(0, &amqp.Open{ContainerID: "c", IdleTimeout: amqp.Some(uint32(10000))}, nil)
		expect[*amqp.Open](p)
		for range 3 {
			start := time.Now()
			if r := <-p.in; r.err != nil || r.p != nil {
				t.Fatalf("%+v; want r.err == nil && r.p == nil", r)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("silent for %v", d)
			}
		}
	})
}

// WP-014, WP-009: silence ends a connection, and twice the advertised time is how long it may last.
// AMQPNetLite sends its empty frame exactly at the advertised time.
func TestIdleConnection(t *testing.T) {
	for name, test := range map[string]struct{ limit, advertised time.Duration }{
		"default":  {0, 120 * time.Second},
		"shortest": {5 * time.Second, 2500 * time.Millisecond},
		"longer":   {50 * time.Minute, 25 * time.Minute},
	} {
		for phase, begin := range map[string]func(*bench) *peerConn{
			"before the login": func(b *bench) *peerConn { return b.dial().open() },
			"after the login":  (*bench).root,
		} {
			t.Run(name+" "+phase, func(t *testing.T) {
				change := func(o *Options) {
					o.Limits = Limits{IdleTimeout: test.limit, NoLinksFresh: 24 * time.Hour, FirstToken: 24 * time.Hour}
				}
				bubble(t, change, func(b *bench) {
					p := begin(b)
					if p.idle != test.advertised {
						t.Errorf("an idle-time-out of %v, not %v", p.idle, test.advertised)
					}
					for range 3 {
						p.quiet(p.idle)
						p.raw(amqp.AppendEmptyFrame(nil))
					}
					start := time.Now()
					c := expect[*amqp.Close](p)
					if c.Error.Condition != amqp.CondConnectionForced || time.Since(start) != 2*test.advertised {
						t.Errorf("%+v after %v", c.Error, time.Since(start))
					}
				})
			})
		}
	}
}

// WP-015: a connection without links is closed, and a pair of links to $cbs does not keep it.
func TestLinkTracker(t *testing.T) {
	tokens := func(p *peerConn) {
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "1"), 202, "")
	}
	used := func(p *peerConn) {
		p.attachSender(1, "q")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		time.Sleep(3 * time.Minute)
		for handle := range uint32(2) {
			p.write(0, &amqp.Detach{Handle: 1 + handle, Closed: true}, nil)
			expect[*amqp.Detach](p)
		}
	}
	for name, test := range map[string]struct {
		limits Limits
		use    func(*peerConn)
		after  time.Duration
		millis int
	}{
		"fresh":                    {use: func(*peerConn) {}, after: time.Minute, millis: 60_000},
		"a token, then nothing":    {use: tokens, after: time.Minute, millis: 60_000},
		"links that are gone":      {use: used, after: 8 * time.Minute, millis: 300_000},
		"those to $cbs stay":       {use: func(p *peerConn) { tokens(p); used(p) }, after: 8 * time.Minute, millis: 300_000},
		"gone for idleness":        {use: func(p *peerConn) { tokens(p); p.attachManagement("q") }, after: 15 * time.Minute, millis: 300_000},
		"as the settings have it":  {limits: Limits{NoLinks: 7 * time.Minute}, use: used, after: 10 * time.Minute, millis: 420_000},
		"both, as they have it":    {limits: Limits{NoLinks: time.Minute, LinkIdle: 2 * time.Minute}, use: func(p *peerConn) { p.attachSender(1, "q") }, after: 3 * time.Minute, millis: 60_000},
		"a session, without links": {use: func(p *peerConn) { used(p); p.begin(7) }, after: 8 * time.Minute, millis: 300_000},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(o *Options) { o.Limits = test.limits; o.Limits.IdleTimeout = time.Hour }, func(b *bench) {
				start := time.Now()
				p := b.root()
				test.use(p)
				for {
					r := p.next()
					if _, detached := r.p.(*amqp.Detach); detached {
						continue
					}
					c, closed := r.p.(*amqp.Close)
					want := fmt.Sprintf("The connection was inactive for more than the allowed %d milliseconds and is closed by container 'LinkTracker'.", test.millis)
					if !closed || c.Error.Condition != amqp.CondConnectionForced || !strings.HasPrefix(c.Error.Description, want) || time.Since(start) != test.after {
						t.Errorf("%T %+v %v after %v", r.p, r.p, r.err, time.Since(start))
					}
					break
				}
				p.closed()
			})
		})
	}
}

// 1.8, 2.1, 2.6: a client keeps one pair of links to $cbs and puts its next token after nine tenths
// of the first one's hour. It sends all the time, and neither its links nor that pair are detached.
func TestTokenLinksStay(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		put := func(id string) {
			t.Helper()
			p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), id), 202, "Accepted")
		}
		put("first")
		p.attachSender(1, "q")
		for i := range uint32(100) {
			time.Sleep(time.Minute)
			if i == 54 {
				put("next")
			}
			p.send(1, i, newMessage(fmt.Sprint(i), "x")) // fails on a detach
		}
	})
}
