package servicebus

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
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
				t.Errorf("%v", m.Mechanisms)
			}
			p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: test.mechanism, InitialResponse: []byte(test.response)}))
			if o := expect[*amqp.SASLOutcome](p); o.Code != test.code || o.AdditionalData == nil {
				t.Errorf("%s %q: %+v", test.mechanism, test.response, o)
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

func (atTLS) ConnectionState() tls.ConnectionState { return tls.ConnectionState{} }

// 1.5, WP-001, WP-004, reliability.md 7.2: PLAIN is offered where it can succeed, and nowhere else: inside TLS, else on loopback where
// that is allowed, else where all are; not when there is no key. Where it is not offered it is refused, and costs no failed login.
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
						t.Errorf("%v", m.Mechanisms)
					}
					p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: mechanism, InitialResponse: []byte("\x00root\x00root-key")}))
					good := mechanism == "ANONYMOUS" || test.offered
					if o := expect[*amqp.SASLOutcome](p); (o.Code == amqp.SASLOK) != good {
						t.Fatalf("%s: %+v", mechanism, o)
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

// 1.5: what PLAIN is told: a name and a key of the rule, for nobody else's account; its rights are those of the rule. What is refused is
// a failed login.
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
				t.Errorf("%q: %+v", response, o)
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
			t.Errorf("%+v", a)
		}
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondUnauthorizedAccess || !strings.Contains(d.Error.Description, "'Send' claim(s) are required") {
			t.Errorf("%+v", d.Error)
		}
	})
}

// WP-006: what is no header the broker knows is answered with the wanted one, and the end.
func TestUnknownHeader(t *testing.T) {
	login := amqp.AppendSASLFrame(slices.Clone(amqp.ProtocolSASL[:]), &amqp.SASLInit{Mechanism: "ANONYMOUS"})
	for name, test := range map[string]struct {
		before, sent []byte
		want         amqp.ProtocolHeader
	}{
		"layer":             {nil, []byte("AMQP\x07\x01\x00\x00"), amqp.ProtocolSASL},
		"version":           {nil, []byte("AMQP\x00\x00\x09\x01"), amqp.ProtocolSASL},
		"TLS":               {nil, []byte("AMQP\x02\x01\x00\x00"), amqp.ProtocolSASL},
		"text":              {nil, []byte("nonsense"), amqp.ProtocolSASL},
		"long text":         {nil, []byte(strings.Repeat("nonsense\r\n", 1000)), amqp.ProtocolSASL},
		"zeros":             {nil, make([]byte, 8), amqp.ProtocolSASL},
		"size of a frame":   {nil, []byte{0, 0, 0, 100}, amqp.ProtocolSASL},
		"frame":             {nil, amqp.AppendFrame(nil, 0, &amqp.Open{ContainerID: "c"}, nil), amqp.ProtocolSASL},
		"text after login":  {login, []byte("nonsense"), amqp.ProtocolAMQP},
		"frame after login": {login, amqp.AppendFrame(nil, 0, &amqp.Open{ContainerID: "c"}, nil), amqp.ProtocolAMQP},
		"layer after login": {login, []byte("AMQP\x07\x01\x00\x00"), amqp.ProtocolAMQP},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				p := b.dial()
				if test.before != nil {
					p.raw(test.before)
					p.next()
					expect[*amqp.SASLMechanisms](p)
					expect[*amqp.SASLOutcome](p)
				}
				start := time.Now()
				go p.raw(test.sent) // the broker does not read all of it
				if r := p.next(); string(r.header) != string(test.want[:]) {
					p.Fatalf("%+v", r)
				}
				if r := p.next(); r.err == nil || time.Since(start) > 0 {
					p.Errorf("%+v after %v", r, time.Since(start))
				}
			})
		})
	}
}

// WP-008, WP-009, WP-017, WP-018: frames sent before any answer is read.
func TestPipelinedOpen(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial()
		out := append([]byte(nil), amqp.ProtocolAMQP[:]...)
		out = amqp.AppendFrame(out, 0, &amqp.Open{ContainerID: "c", MaxFrameSize: amqp.Some(uint32(512))}, nil)
		for _, channel := range []uint16{1, 7} {
			out = amqp.AppendFrame(out, channel, &amqp.Begin{IncomingWindow: 10, OutgoingWindow: 10}, nil)
		}
		out = amqp.AppendFrame(out, 1, &amqp.Attach{Name: "cbs", Handle: 1, Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, nil)
		go p.raw(out)
		p.next()
		o := expect[*amqp.Open](p)
		if o.MaxFrameSize.Value < 512 || o.IdleTimeout.Value < 120000 || o.ContainerID == "" {
			t.Errorf("%+v", o)
		}
		for _, channel := range []uint16{1, 7} {
			begin := expect[*amqp.Begin](p)
			if begin.RemoteChannel != amqp.Some(channel) || !begin.HandleMax.Set || begin.IncomingWindow == 0 || begin.OutgoingWindow == 0 || begin.NextOutgoingID != 1 {
				t.Errorf("%+v", begin)
			}
		}
		expect[*amqp.Attach](p)
	})
}

// WP-012: a frame over max-frame-size, and other broken frames (reliability.md S18, F19).
func TestBrokenFrames(t *testing.T) {
	for name, test := range map[string]struct {
		frame []byte
		want  amqp.Symbol
	}{
		"too large":            {[]byte{0, 1, 0, 1, 2, 0, 0, 0}, amqp.CondFramingError},
		"too small":            {[]byte{0, 0, 0, 7, 2, 0, 0, 0}, amqp.CondFramingError},
		"doff small":           {[]byte{0, 0, 0, 8, 1, 0, 0, 0}, amqp.CondFramingError},
		"doff large":           {[]byte{0, 0, 0, 8, 3, 0, 0, 0}, amqp.CondFramingError},
		"type":                 {[]byte{0, 0, 0, 9, 2, 9, 0, 0, 0}, amqp.CondFramingError},
		"sasl":                 {[]byte{0, 0, 0, 9, 2, 1, 0, 0, 0}, amqp.CondFramingError},
		"header":               {amqp.ProtocolAMQP[:], amqp.CondFramingError},
		"begin on a high one":  {amqp.AppendFrame(nil, 5000, &amqp.Begin{}, nil), amqp.CondFramingError},
		"flow on a high one":   {amqp.AppendFrame(nil, 5000, &amqp.Flow{}, nil), amqp.CondFramingError},
		"the highest channel":  {amqp.AppendFrame(nil, 65535, &amqp.Begin{}, nil), amqp.CondFramingError},
		"no value":             {[]byte{0, 0, 0, 9, 2, 0, 0, 0, 0}, amqp.CondDecodeError},
		"no session":           {amqp.AppendFrame(nil, 9, &amqp.Flow{}, nil), amqp.CondNotAllowed},
		"none on the last one": {amqp.AppendFrame(nil, 4999, &amqp.Flow{}, nil), amqp.CondNotAllowed},
		"second open":          {amqp.AppendFrame(nil, 0, &amqp.Open{}, nil), amqp.CondNotAllowed},
		"begin twice":          {amqp.AppendFrame(nil, 0, &amqp.Begin{}, nil), amqp.CondNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(b *bench) {
				other := b.root()
				p := b.dial().open()
				p.raw(test.frame)
				c := expect[*amqp.Close](p)
				if c.Error == nil || c.Error.Condition != test.want {
					t.Fatalf("%+v, not %s", c.Error, test.want)
				}
				p.suffix(c.Error.Description)
				p.closed()
				other.attachSender(1, "q")
				other.send(1, 0, newMessage("a", "x")) // nobody else notices
			})
		})
	}
}

// reliability.md S18: the channels that may be used end where the peer's own limit ends, when that is lower than the broker's.
func TestChannelMax(t *testing.T) {
	for most, want := range map[uint16]uint16{5: 5, 4998: 4998, 4999: 4999, 5000: 4999, 65535: 4999} {
		bubble(t, nil, func(b *bench) {
			p := b.dial()
			p.raw(amqp.ProtocolAMQP[:])
			p.next()
			p.write(0, &amqp.Open{ContainerID: "c", ChannelMax: amqp.Some(most)}, nil)
			if o := expect[*amqp.Open](p); o.ChannelMax.Value != want {
				t.Errorf("%d: %+v", most, o)
			}
			p.begin(want)
			p.write(want+1, &amqp.Begin{}, nil)
			if c := expect[*amqp.Close](p); c.Error.Condition != amqp.CondFramingError {
				t.Errorf("%d: %+v", most, c.Error)
			}
		})
	}
}

// reliability.md 8, S12: no header, no open, no token in time.
func TestSlowStart(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		start := time.Now()
		b.dial().closed()
		if d := time.Since(start); d != 10*time.Second {
			t.Error(d)
		}
		p := b.dial().open()
		if e := p.attachSender(1, "q"); e.Target != nil || e.Source != nil {
			t.Errorf("attached without a token: %+v", e)
		}
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondUnauthorizedAccess || !d.Closed { // WP-059, WP-129
			t.Errorf("%+v", d)
		}
		if c := expect[*amqp.Close](p); c.Error.Condition != amqp.CondConnectionForced {
			t.Errorf("%+v", c)
		}
		if d := time.Since(start); d != 30*time.Second {
			t.Error(d)
		}
	})
}

// WP-020, WP-021: echo and close.
func TestEchoAndClose(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.write(0, &amqp.Flow{IncomingWindow: 5000, OutgoingWindow: 5000, Echo: true}, nil)
		if f := expect[*amqp.Flow](p); f.Handle.Set || f.IncomingWindow == 0 {
			t.Errorf("%+v", f)
		}
		p.write(0, &amqp.Close{}, nil)
		expect[*amqp.Close](p)
		p.closed()
	})
}

// The peer is told when the server stops, and the socket goes when it answers.
func TestServerClose(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		go b.server.Close(context.Background())
		if c := expect[*amqp.Close](p); c.Error.Condition != amqp.CondConnectionForced {
			t.Errorf("%+v", c)
		}
		p.write(0, &amqp.Close{}, nil)
		p.closed()
		synctest.Wait()
		if n := b.server.Connections(); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}

// The 100th frame of a connection that breaks at every byte leaves nothing behind (F17).
func TestCutAtEveryByte(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		script := append([]byte(nil), amqp.ProtocolAMQP[:]...)
		script = amqp.AppendFrame(script, 0, &amqp.Open{ContainerID: "c"}, nil)
		script = amqp.AppendFrame(script, 0, &amqp.Begin{IncomingWindow: 10, OutgoingWindow: 10}, nil)
		script = amqp.AppendFrame(script, 0, &amqp.Attach{Name: "cbs", Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, nil)
		for n := range script {
			p := b.dial()
			p.raw(script[:n])
			p.net.Close()
		}
		synctest.Wait()
		if n := b.server.Connections(); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}

// Limits on connections (reliability.md 8, F18).
func TestConnectionLimits(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.ConnectionsPerHost = 2; o.Limits.Connections = 4 }, func(b *bench) {
		b.dial().open()
		b.dial().open()
		b.dial().closed()
	})
	bubble(t, func(o *Options) { o.Limits.SessionsLogin = 2 }, func(b *bench) {
		p := b.dial().open()
		p.begin(1)
		p.begin(2)
		if e := expect[*amqp.End](p); e.Error.Condition != amqp.CondResourceLimit {
			t.Errorf("%+v", e)
		}
	})
}

// SM-328: a connection over the limit, of the whole broker, is refused; those that are open go on, and one that ends makes
// room.
func TestTooManyConnections(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Connections = 3 }, func(b *bench) {
		var open []*peerConn
		for range 3 {
			p := b.root()
			p.attachSender(1, "q")
			open = append(open, p)
		}
		over := b.dial()
		over.raw(amqp.ProtocolAMQP[:])
		over.write(0, &amqp.Open{ContainerID: "over"}, nil)
		if h := over.next(); len(h.header) == 0 {
			t.Fatalf("%+v", h)
		}
		expect[*amqp.Open](over)
		if e := expect[*amqp.Close](over).Error; e == nil || e.Condition != amqp.CondResourceLimit || !strings.HasPrefix(e.Description, "ConnectionsQuotaExceeded for namespace") {
			t.Errorf("one more than the limit: %+v", e)
		}
		var silent []*peerConn
		for range maxTurned - 1 { // they say nothing; beyond them nobody is told
			p := b.dial()
			p.raw(amqp.ProtocolAMQP[:1])
			silent = append(silent, p)
		}
		synctest.Wait()
		if last, start := b.dial(), time.Now(); last.next().err == nil || time.Now() != start {
			t.Error("the connection beyond those that are told is not closed at once")
		}
		for _, p := range append(silent, over) {
			p.net.Close()
		}
		synctest.Wait()
		for i, p := range open {
			p.send(1, 0, newMessage(fmt.Sprint(i), "x"))
		}
		if n := b.server.Connections(); n != 3 {
			t.Errorf("%d connections", n)
		}
		open[0].write(0, &amqp.Close{}, nil)
		open[0].closed()
		synctest.Wait()
		b.root().attachSender(1, "q")
	})
}

// A connection that two limits are against, that of all and that of its address, leaves no trace in either: those that come later are
// turned away as before, with a word.
func TestTooManyConnectionsOfOneAddress(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Connections, o.Limits.ConnectionsPerHost = 2, 3 }, func(b *bench) {
		b.root()
		b.root()
		var silent []*peerConn
		for range 3 {
			silent = append(silent, b.dial())
		}
		synctest.Wait()
		for range maxTurned {
			p := b.dial()
			synctest.Wait()
			if !p.gone() {
				t.Fatal("one more than an address may have")
			}
		}
		for _, p := range silent {
			p.net.Close()
		}
		synctest.Wait()
		over := b.dial()
		over.raw(amqp.ProtocolAMQP[:])
		over.write(0, &amqp.Open{ContainerID: "over"}, nil)
		over.next()
		expect[*amqp.Open](over)
		if e := expect[*amqp.Close](over).Error; e == nil || !strings.HasPrefix(e.Description, "ConnectionsQuotaExceeded") {
			t.Errorf("one more than the limit: %+v", e)
		}
	})
}

// WP-011: no frame is larger than the peer's max-frame-size; WP-131.
func TestSmallFrames(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		s := b.root()
		s.attachSender(1, "q")
		body := strings.Repeat("x", 100_000)
		m := newMessage("large", body)
		for i := 0; i < len(m); i += 400 { // through 512-byte frames
			f := &amqp.Transfer{Handle: 1, More: i+400 < len(m)}
			if i == 0 {
				f.DeliveryID, f.DeliveryTag = amqp.Some(uint32(0)), []byte{1}
			}
			s.write(0, f, m[i:min(i+400, len(m))])
		}
		expect[*amqp.Disposition](s)

		p := b.dial()
		p.raw(amqp.ProtocolSASL[:])
		p.next()
		p.next()
		p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00root-key")}))
		p.next()
		p.raw(amqp.ProtocolAMQP[:])
		p.next()
		p.write(0, &amqp.Open{ContainerID: "c", MaxFrameSize: amqp.Some(uint32(512))}, nil)
		expect[*amqp.Open](p)
		p.write(0, &amqp.Begin{IncomingWindow: 10, OutgoingWindow: 10}, nil) // and a small window
		expect[*amqp.Begin](p)
		p.attachReceiver(1, "q", amqp.SenderUnsettled)
		p.credit(1, 0, 1, false)
		var got []byte
		frames := uint32(0)
		for more := true; more; frames++ {
			if frames > 0 && frames%10 == 0 {
				p.write(0, &amqp.Flow{NextIncomingID: amqp.Some(1 + frames), IncomingWindow: 10, OutgoingWindow: 10}, nil)
			}
			r := p.next()
			tr, ok := r.p.(*amqp.Transfer)
			if !ok {
				if _, flow := r.p.(*amqp.Flow); flow {
					frames--
					continue
				}
				t.Fatalf("%+v", r)
			}
			if n := binary.BigEndian.Uint32(r.raw); n > 512 {
				t.Fatalf("frame of %d bytes", n)
			}
			got, more = append(got, r.payload...), tr.More
		}
		if d := decodeMessage(t, got); d.body != body {
			t.Errorf("%d bytes", len(d.body))
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
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Minute)
		b.root()
	})
}

// reliability.md S13: before an address is refused, each failed login costs a second, over SASL and over $cbs.
func TestFailedLoginsWait(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.FreeFailures, o.Limits.FailedLogins = 2, 6 }, func(b *bench) {
		for i := range 4 {
			start := time.Now()
			p := b.dial()
			p.raw(amqp.ProtocolSASL[:])
			p.raw(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00wrong")}))
			p.closed()
			if d := time.Since(start); i < 2 && d != 0 || i >= 2 && d != time.Second {
				t.Errorf("%d: %v", i, d)
			}
		}
		p := b.dial().open()
		start := time.Now()
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "wrong", time.Hour), "1"), 401, "InvalidSignature")
		if d := time.Since(start); d != time.Second {
			t.Error(d)
		}
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "2"), 202, "")
		if d := time.Since(start); d != time.Second {
			t.Error(d)
		}
		p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "wrong", time.Hour), "3"), 401, "InvalidSignature")
		if r := b.dial().next(); r.err == nil {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Minute)
		b.root()
	})
}

// reliability.md F21: a bug ends one connection; the others go on.
func TestPanic(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.panics = 1
		other := b.root()
		other.attachSender(1, "q")
		p := b.root()
		p.attachSender(1, "q2")
		b.broker.refuse = func(c engine.Command) error {
			if s, ok := c.(*engine.Send); ok && s.Entity.Path == "q2" {
				panic("planted")
			}
			return nil
		}
		p.transfer(1, 0, newMessage("a", "x"))
		p.closed()
		other.send(1, 0, newMessage("a", "x"))
	})
}

// WP-010: whatever a client calls the broker, it finds the same queues.
func TestHostnames(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for i, host := range []string{"", "host", "host:5671", "HOST", "nobody.knows.example", "ns.servicebus.windows.net"} {
			p := b.dial()
			p.raw(amqp.ProtocolAMQP[:])
			p.next()
			p.write(0, &amqp.Open{ContainerID: "c", Hostname: host}, nil)
			if o := expect[*amqp.Open](p); o.MaxFrameSize.Value != 65536 {
				t.Errorf("%q: %+v", host, o)
			}
			p.begin(0)
			p.tokenAnswer(p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "1"), 202, "")
			p.attachSender(1, "q")
			p.send(1, 0, newMessage(host, "x"))
			p.attachManagement("q")
			if ids := p.peekIDs(); len(ids) != i+1 || ids[i] != host {
				t.Errorf("%q sees %v", host, ids)
			}
		}
	})
}

// Limits on what is waiting (reliability.md 8): unsettled deliveries stop further ones until some are settled.
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

// What a link that is gone had not settled counts no more.
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
