package servicebus

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-006: a header that the broker does not know is answered with the one it wants, and the
// connection ends.
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
					p.Fatalf("%+v; want string(r.header) == string(test.want[:])", r)
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
			t.Errorf(`%+v; want o.MaxFrameSize.Value >= 512 && o.IdleTimeout.Value >= 120000 && o.ContainerID != ""`, o)
		}
		for _, channel := range []uint16{1, 7} {
			begin := expect[*amqp.Begin](p)
			if begin.RemoteChannel != amqp.Some(channel) || !begin.HandleMax.Set || begin.IncomingWindow == 0 || begin.OutgoingWindow == 0 || begin.NextOutgoingID != 1 {
				t.Errorf("%+v; want begin.RemoteChannel == amqp.Some(channel) && begin.HandleMax.Set && begin.IncomingWindow != 0 && begin.OutgoingWindow != 0 && begin.NextOutgoingID == 1", begin)
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
				other.send(1, 0, newMessage("a", "x")) // other connections are not affected
			})
		})
	}
}

// reliability.md S18: the channels that may be used end where the peer's own limit ends, when that
// is lower than the broker's.
func TestChannelMax(t *testing.T) {
	for most, want := range map[uint16]uint16{5: 5, 4998: 4998, 4999: 4999, 5000: 4999, 65535: 4999} {
		bubble(t, nil, func(b *bench) {
			p := b.dial()
			p.raw(amqp.ProtocolAMQP[:])
			p.next()
			p.write(0, &amqp.Open{ContainerID: "c", ChannelMax: amqp.Some(most)}, nil)
			if o := expect[*amqp.Open](p); o.ChannelMax.Value != want {
				t.Errorf("%d: %+v; want o.ChannelMax.Value == want", most, o)
			}
			p.begin(want)
			p.write(want+1, &amqp.Begin{}, nil)
			if c := expect[*amqp.Close](p); c.Error.Condition != amqp.CondFramingError {
				t.Errorf("%d: %+v; want c.Error.Condition == amqp.CondFramingError", most, c.Error)
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
			t.Errorf("%+v, want %+v", d, 10*time.Second)
		}
		p := b.dial().open()
		if e := p.attachSender(1, "q"); e.Target != nil || e.Source != nil {
			t.Errorf("attached without a token: %+v", e)
		}
		// WP-059, WP-129
		if d := expect[*amqp.Detach](p); d.Error.Condition != amqp.CondUnauthorizedAccess || !d.Closed {
			t.Errorf("%+v; want d.Error.Condition == amqp.CondUnauthorizedAccess && d.Closed", d)
		}
		if c := expect[*amqp.Close](p); c.Error.Condition != amqp.CondConnectionForced {
			t.Errorf("%+v; want c.Error.Condition == amqp.CondConnectionForced", c)
		}
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("%+v, want %+v", d, 30*time.Second)
		}
	})
}

// WP-020, WP-021: echo and close.
func TestEchoAndClose(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		p.write(0, &amqp.Flow{IncomingWindow: 5000, OutgoingWindow: 5000, Echo: true}, nil)
		if f := expect[*amqp.Flow](p); f.Handle.Set || f.IncomingWindow == 0 {
			t.Errorf("%+v; want !f.Handle.Set && f.IncomingWindow != 0", f)
		}
		p.write(0, &amqp.Close{}, nil)
		expect[*amqp.Close](p)
		p.closed()
	})
}

// The 100th frame of a connection that breaks at every byte leaves no resources in use (F17).
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

// WP-010: whatever a client calls the broker, it finds the same queues.
func TestHostnames(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		for i, host := range []string{"", "host", "host:5671", "HOST", "nobody.knows.example", "ns.servicebus.windows.net"} {
			p := b.dial()
			p.raw(amqp.ProtocolAMQP[:])
			p.next()
			p.write(0, &amqp.Open{ContainerID: "c", Hostname: host}, nil)
			if o := expect[*amqp.Open](p); o.MaxFrameSize.Value != 65536 {
				t.Errorf("%q: %+v; want o.MaxFrameSize.Value == 65536", host, o)
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
