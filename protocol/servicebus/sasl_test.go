package servicebus

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-001, WP-002, WP-003, WP-004: the login layer.
func TestSASL(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for _, test := range []struct {
			mechanism amqp.Symbol
			response  string
			code      amqp.SASLCode
		}{
			{"ANONYMOUS", "anonymous", 0}, {"ANONYMOUS", "", 0}, {"MSSBCBS", "", 0}, {"PLAIN", "\x00root\x00root-key", 0},
			{"PLAIN", "\x00root\x00root-key-2", 0}, {"PLAIN", "\x00root\x00wrong", 1}, {"PLAIN", "\x00nobody\x00root-key", 1},
			{"PLAIN", "\x00send\x00", 1}, {"PLAIN", "x", 1}, {"EXTERNAL", "", 1},
		} {
			p := b.dial()
			p.raw(amqp.ProtocolSASL[:])
			if r := p.next(); string(r.header) != string(amqp.ProtocolSASL[:]) {
				t.Fatalf("header %q", r.header)
			}
			if m := expect[*amqp.SASLMechanisms](p); len(m.Mechanisms) != 3 || m.Mechanisms[0] != "MSSBCBS" {
				t.Errorf(`%v; want len(m.Mechanisms) == 3 && m.Mechanisms[0] == "MSSBCBS"`, m.Mechanisms)
			}
			p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: test.mechanism, InitialResponse: []byte(test.response)}))
			if o := expect[*amqp.SASLOutcome](p); o.Code != test.code || o.AdditionalData == nil {
				t.Errorf("%s %q: %+v; want o.Code == test.code && o.AdditionalData != nil", test.mechanism, test.response, o)
			}
			if test.code != 0 {
				p.closed()
			} else {
				p.open()
			}
			p.net.Close()
		}
	})
}

// at is a connection that has an address, and is inside TLS where that is said.
type at struct {
	net.Conn
	local string
}

func (c at) LocalAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", c.local)
	if err != nil {
		return c.Conn.LocalAddr()
	}
	return a
}

type atTLS struct{ at }

// 1.5, WP-001, WP-004, reliability.md 7.2: PLAIN is offered where it can succeed, and nowhere else:
// inside TLS, else on loopback where that is allowed, else where all are; not when there is no key.
// Where it is not offered it is refused, and costs no failed login.
func TestPlainIsOfferedWhereItSucceeds(t *testing.T) {
	const loopback, elsewhere = "127.0.0.1:5672", "192.0.2.1:5672"
	for name, test := range map[string]struct {
		anywhere, onLoopback, tls, noKeys bool
		local                             string
		offered                           bool
	}{
		"TLS":                             {tls: true, local: elsewhere, offered: true},
		"TLS, loopback":                   {tls: true, local: loopback, offered: true},
		"TLS, no keys":                    {tls: true, local: elsewhere, noKeys: true},
		"no TLS":                          {local: elsewhere},
		"no TLS, loopback":                {local: loopback},
		"loopback allowed":                {onLoopback: true, local: loopback, offered: true},
		"loopback allowed, IPv6":          {onLoopback: true, local: "[::1]:5672", offered: true},
		"loopback allowed, mapped":        {onLoopback: true, local: "[::ffff:127.0.0.2]:5672", offered: true},
		"loopback allowed, but elsewhere": {onLoopback: true, local: elsewhere},
		"loopback allowed, no address":    {onLoopback: true, local: "pipe"},
		"loopback allowed, TLS elsewhere": {onLoopback: true, tls: true, local: elsewhere, offered: true},
		"everywhere":                      {anywhere: true, local: elsewhere, offered: true},
		"everywhere, no address":          {anywhere: true, local: "pipe", offered: true},
		"everywhere, nobody has a key":    {anywhere: true, local: elsewhere, noKeys: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(o *Options) {
				o.AllowPlainWithoutTLS, o.AllowPlainOnLoopback, o.Limits.FailedLogins = test.anywhere, test.onLoopback, 1
				if test.noKeys {
					o.Access = access.New(access.Options{AnyBearer: true, Development: true, Rules: []event.AccessRule{{Name: "root"}}})
				}
			}, func(b *bench) {
				for _, mechanism := range []amqp.Symbol{"PLAIN", "ANONYMOUS"} {
					p := b.dialAs(func(nc net.Conn) net.Conn {
						if test.tls {
							return atTLS{at{nc, test.local}}
						}
						return at{nc, test.local}
					})
					p.raw(amqp.ProtocolSASL[:])
					p.next()
					want := []amqp.Symbol{"MSSBCBS", "ANONYMOUS"}
					if test.offered {
						want = []amqp.Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS"}
					}
					if m := expect[*amqp.SASLMechanisms](p); !slices.Equal(m.Mechanisms, want) {
						t.Errorf("%v; want slices.Equal(m.Mechanisms, want)", m.Mechanisms)
					}
					p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: mechanism, InitialResponse: []byte("\x00root\x00root-key")}))
					good := mechanism == "ANONYMOUS" || test.offered
					if o := expect[*amqp.SASLOutcome](p); (o.Code == amqp.SASLOK) != good {
						t.Fatalf("%s: %+v; want (o.Code == amqp.SASLOK) == good", mechanism, o)
					}
					if !good {
						p.closed()
						continue
					}
					if p.open(); mechanism == "PLAIN" { // no token is needed
						p.attachSender(1, "q")
						p.send(1, 0, newMessage("a", "x"))
					}
					p.net.Close()
				}
			})
		})
	}
}

// 1.5: the response of PLAIN has a name and a key of the rule, and no other account; its rights are
// those of the rule. A refusal counts as a failed login.
func TestPlainResponses(t *testing.T) {
	for response, good := range map[string]bool{
		"\x00root\x00root-key": true, "root\x00root\x00root-key": true, "\x00ROOT\x00root-key-2": true,
		"send\x00root\x00root-key": false, "\x00root\x00ROOT-KEY": false, "\x00root\x00": false, "\x00\x00root-key": false, "": false, "x": false,
		"\x00root\x00root-key\x00": false, "\x00root root-key": false, "\x00root\x00root-key ": false,
	} {
		bubble(t, func(o *Options) { o.Limits.FailedLogins = 1 }, func(b *bench) {
			p := b.dial()
			p.raw(amqp.ProtocolSASL[:])
			p.next()
			expect[*amqp.SASLMechanisms](p)
			p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte(response)}))
			if o := expect[*amqp.SASLOutcome](p); (o.Code == amqp.SASLOK) != good {
				t.Errorf("%q: %+v; want (o.Code == amqp.SASLOK) == good", response, o)
			}
			if good {
				b.root().attachSender(1, "q")
				return
			}
			if b.dial().next().err == nil { // one is allowed here
				t.Errorf("%q: is no failed login", response)
			}
		})
	}
	bubble(t, nil, func(b *bench) {
		p := b.login("listen", "listen-key")
		p.attachReceiver(1, "q", amqp.SenderSettled)
		if a := p.attachSender(2, "q"); a.Target != nil {
			t.Errorf("%+v; want a.Target == nil", a)
		}
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondUnauthorizedAccess || !strings.Contains(d.Error.Description, "'Send' claim(s) are required") {
			t.Errorf(`%+v; want d.Error.Condition == amqp.CondUnauthorizedAccess && strings.Contains(d.Error.Description, "'Send' claim(s) are required")`, d.Error)
		}
	})
}

// reliability.md S13: an address that keeps failing is refused for a minute.
func TestFailedLogins(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.FailedLogins = 3 }, func(b *bench) {
		for range 3 {
			p := b.dial()
			p.raw(amqp.ProtocolSASL[:])
			p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00wrong")}))
			p.closed()
		}
		if r := b.dial().next(); r.err == nil {
			t.Errorf("%+v; want r.err != nil", r)
		}
		time.Sleep(time.Minute)
		b.root()
	})
}

// reliability.md S13: before an address is refused, each failed login costs a second, over SASL and
// over $cbs.
func TestFailedLoginsWait(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.FreeFailures, o.Limits.FailedLogins = 2, 6 }, func(b *bench) {
		for i := range 4 {
			start := time.Now()
			p := b.dial()
			p.raw(amqp.ProtocolSASL[:])
			p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00wrong")}))
			p.closed()
			if d := time.Since(start); i < 2 && d != 0 || i >= 2 && d != time.Second {
				t.Errorf("attempt %d was answered after %v; want at once for the first two, after a second for the others", i, d)
			}
		}
		p := b.dial().open()
		start := time.Now()
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "wrong", time.Hour), "1"), 401, "InvalidSignature")
		if d := time.Since(start); d != time.Second {
			t.Errorf("%+v, want %+v", d, time.Second)
		}
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "2"), 202, "")
		if d := time.Since(start); d != time.Second {
			t.Errorf("%+v, want %+v", d, time.Second)
		}
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "wrong", time.Hour), "3"), 401, "InvalidSignature")
		if r := b.dial().next(); r.err == nil {
			t.Errorf("%+v; want r.err != nil", r)
		}
		time.Sleep(time.Minute)
		b.root()
	})
}

func (atTLS) ConnectionState() tls.ConnectionState { return tls.ConnectionState{} }
