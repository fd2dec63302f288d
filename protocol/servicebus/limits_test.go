package servicebus

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// The limits of reliability.md 8 that hold before the first valid token, each below, at and above
// it.

// A peer that takes no frames of 512 bytes is refused.
func TestPeersFrameSize(t *testing.T) {
	for size, good := range map[uint32]bool{0: false, 511: false, 512: true, 513: true} {
		bubble(t, nil, func(b *bench) {
			p := b.dial()
			p.raw(amqp.ProtocolAMQP[:])
			p.next()
			p.write(0, &amqp.Open{ContainerID: "c", MaxFrameSize: amqp.Some(size)}, nil)
			expect[*amqp.Open](p)
			if good {
				p.begin(0)
			} else if c := expect[*amqp.Close](p); c.Error == nil || c.Error.Condition != amqp.CondFramingError {
				t.Errorf("%d: %+v; want c.Error != nil && c.Error.Condition == amqp.CondFramingError", size, c.Error)
			}
		})
	}
}

func TestSASLFrameSize(t *testing.T) {
	frame := func(size int) []byte {
		init := amqp.SASLInit{Mechanism: "ANONYMOUS", InitialResponse: make([]byte, 300)}
		init.InitialResponse = make([]byte, 300+size-len(amqp.AppendSASLFrame(nil, &init)))
		return amqp.AppendSASLFrame(nil, &init)
	}
	for size, want := range map[int]amqp.SASLCode{511: amqp.SASLOK, 512: amqp.SASLOK, 513: amqp.SASLAuth, 60_000: amqp.SASLAuth} {
		bubble(t, nil, func(b *bench) {
			p := b.dial()
			p.raw(amqp.ProtocolSASL[:])
			p.next()
			expect[*amqp.SASLMechanisms](p)
			p.raw(frame(size))
			if o := expect[*amqp.SASLOutcome](p); len(frame(511)) != 511 || o.Code != want {
				t.Errorf("%d bytes: %+v", size, o)
			}
			if want == amqp.SASLOK {
				p.open()
			} else {
				p.closed()
			}
		})
	}
}

// Sixteen sessions and one pair of links, until there is a token.
func TestSessionsAndLinksBeforeLogin(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		p.attachTokens()
		for channel := range uint16(16) {
			if channel > 0 {
				p.begin(channel)
			}
			p.attached(channel, 3, amqp.CondNotAllowed)
		}
		p.begin(16)
		if e := expect[*amqp.End](p); e.Error.Condition != amqp.CondResourceLimit {
			t.Errorf("%+v; want e.Error.Condition == amqp.CondResourceLimit", e)
		}
		p.write(16, &amqp.End{}, nil)
		p.write(15, &amqp.End{}, nil)
		expect[*amqp.End](p)
		p.begin(17) // room again
		p.tokenAnswer(p.putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "1"), 202, "")
		p.begin(18)
		p.attached(18, 1, amqp.CondNotAllowed)
		for handle := range uint32(5) {
			p.attachSender(10+handle, "q")
		}
	})
}

// Sessions over the limit that the peer does not end do not pile up.
func TestSessionsThatAreNotEnded(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		for channel := uint16(1); channel < 32; channel++ {
			p.begin(channel)
			if channel >= 16 {
				expect[*amqp.End](p)
			}
		}
		p.write(32, &amqp.Begin{}, nil)
		if c := expect[*amqp.Close](p); c.Error.Condition != amqp.CondResourceLimit {
			t.Errorf("%+v; want c.Error.Condition == amqp.CondResourceLimit", c.Error)
		}
	})
}

// attached attaches a sender to $cbs and wants it refused with a condition, or not when there is
// none.
func (p *peerConn) attached(channel uint16, handle uint32, refused amqp.Symbol) {
	p.Helper()
	p.write(channel, &amqp.Attach{Name: fmt.Sprint(channel, handle), Handle: handle, Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, nil)
	if a := expect[*amqp.Attach](p); (a.Target == nil) != (refused != "") {
		p.Fatalf("link %d of session %d: %+v", handle, channel, a)
	}
	if refused != "" {
		if d := expect[*amqp.Detach](p); d.Error.Condition != refused {
			p.Fatalf("link %d of session %d: %+v", handle, channel, d.Error)
		}
	}
}

// A handle stays in use until the peer has detached its link. Links that are refused or ended and
// never detached do not pile up.
func TestLinksThatAreNotDetached(t *testing.T) {
	for name, test := range map[string]struct {
		open  func(*bench) *peerConn
		limit uint32
	}{
		"before login": {func(b *bench) *peerConn { return b.dial().open() }, 32},
		"after it":     {(*bench).root, 20},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(o *Options) { o.Limits.Links = 10 }, func(b *bench) {
				p := test.open(b)
				attach := func(handle uint32) {
					p.write(0, &amqp.Attach{Name: "same", Handle: handle, Role: amqp.RoleSender, Target: &amqp.Target{Address: "none"}}, nil)
				}
				refused := func() {
					t.Helper()
					expect[*amqp.Attach](p)
					expect[*amqp.Detach](p)
				}
				for handle := range test.limit {
					attach(handle)
					refused()
				}
				p.write(0, &amqp.Detach{Handle: 0, Closed: true}, nil)
				attach(test.limit) // in the place of the one that is detached
				refused()
				attach(test.limit + 1)
				if e := expect[*amqp.End](p); e.Error.Condition != amqp.CondResourceLimit {
					t.Errorf("%+v; want e.Error.Condition == amqp.CondResourceLimit", e.Error)
				}
				p.write(0, &amqp.End{}, nil)
				p.begin(0)
				attach(0)
				refused()
			})
		})
	}
}

// A link that is ended waits for the peer's detach like one that is refused; one that the peer
// detaches first does not.
func TestStolenLinksThatAreNotDetached(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Links = 2 }, func(b *bench) {
		p := b.root()
		attach := func(handle uint32) {
			p.write(0, &amqp.Attach{Name: "same", Handle: handle, Role: amqp.RoleSender, Target: &amqp.Target{Address: "q"}}, nil)
		}
		for range 10 {
			attach(0)
			expect[*amqp.Attach](p)
			p.write(0, &amqp.Detach{Handle: 0, Closed: true}, nil)
			expect[*amqp.Detach](p)
		}
		for handle := range uint32(5) { // each takes the name of the one before
			attach(handle)
			if handle > 0 {
				expect[*amqp.Detach](p)
			}
			expect[*amqp.Attach](p)
		}
		attach(5)
		if e := expect[*amqp.End](p); e.Error.Condition != amqp.CondResourceLimit {
			t.Errorf("%+v; want e.Error.Condition == amqp.CondResourceLimit", e.Error)
		}
	})
}

// deafPeer is a peer that reads only as much as it needs to proceed.
func (b *bench) deafPeer(login bool) (client net.Conn, served <-chan struct{}) {
	b.Helper()
	client, server := net.Pipe()
	b.clients = append(b.clients, client)
	done := make(chan struct{})
	go func() { b.server.ServeConn(server); close(done) }()
	if login {
		_, _ = client.Write(amqp.ProtocolSASL[:])
		b.passOver(client, 2)
		_, _ = client.Write(amqp.AppendSASLFrame(nil, &amqp.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00root-key")}))
		b.passOver(client, 1)
	}
	_, _ = client.Write(amqp.AppendFrame(slices.Clone(amqp.ProtocolAMQP[:]), 0, &amqp.Open{ContainerID: "deaf"}, nil))
	synctest.Wait()
	return client, done
}

// passOver reads frames and protocol headers.
func (b *bench) passOver(nc net.Conn, n int) {
	b.Helper()
	for range n {
		head := make([]byte, 8)
		if _, err := io.ReadFull(nc, head); err != nil {
			b.Fatal(err)
		}
		if string(head[:4]) != "AMQP" {
			_, _ = io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head))-8)
		}
	}
}

// A peer that does not read is cut after 5 s without progress, after 30 s when it has logged in;
// one that reads a byte has as much time again.
func TestPeerThatDoesNotRead(t *testing.T) {
	for name, test := range map[string]struct {
		login bool
		byteAt,
		cut time.Duration
	}{
		"before login": {false, 0, 5 * time.Second}, "before login, a byte": {false, 4 * time.Second, 10 * time.Second},
		"after login": {true, 0, 30 * time.Second}, "after login, a byte": {true, 29 * time.Second, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(o *Options) { o.Limits.NoLinksFresh = time.Hour }, func(b *bench) {
				start := time.Now()
				client, served := b.deafPeer(test.login)
				if test.byteAt > 0 {
					time.Sleep(test.byteAt)
					_, _ = client.Read(make([]byte, 1))
				}
				<-served
				if d := time.Since(start); d != test.cut {
					t.Errorf("%+v, want %+v", d, test.cut)
				}
			})
		})
	}
}

// A peer that takes deliveries and does not read holds up no other: while its socket is full,
// another one's messages are taken from the same queue, delivered and settled, without any delay.
func TestPeerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		deaf := &stoppingConn{}
		p := b.dialAs(func(nc net.Conn) net.Conn { deaf.Conn = nc; return deaf }).logIn("root", "root-key")
		p.attachReceiver(2, "q", amqp.SenderUnsettled)
		deaf.stop()
		p.credit(2, 0, 100, false)
		synctest.Wait()
		start := time.Now()
		other := b.root()
		other.attachSender(1, "q")
		for i := range uint32(300) {
			other.send(1, i, newMessage(fmt.Sprint(i), strings.Repeat("x", 10_000)))
		}
		other.attachReceiver(2, "q", amqp.SenderUnsettled)
		other.credit(2, 0, 100, false)
		for i := range uint32(100) {
			other.receive()
			other.settle(i, amqp.Accepted{}, true)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("300 sends and 100 deliveries took %v beside a peer that does not read; want no time", d)
		}
		if !deaf.waits.Load() {
			t.Error("the broker has written nothing to the peer that does not read; want a write that waits")
		}
		deaf.Close()
	})
}

// stoppingConn is the broker's end of a connection whose peer stops reading.
type stoppingConn struct {
	net.Conn
	stopped atomic.Bool
	waits   atomic.Bool // a write has found that nothing is read any more
	closed  chan struct{}
}

func (c *stoppingConn) stop() {
	c.closed = make(chan struct{})
	c.stopped.Store(true)
}

func (c *stoppingConn) Write(b []byte) (int, error) {
	if !c.stopped.Load() {
		return c.Conn.Write(b)
	}
	c.waits.Store(true)
	<-c.closed
	return 0, net.ErrClosed
}

func (c *stoppingConn) Close() error {
	if c.stopped.CompareAndSwap(true, false) {
		close(c.closed)
	}
	return c.Conn.Close()
}

// A request to $cbs may have 64 KiB; a larger one is refused, and the link continues.
func TestTokenRequestSize(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		p.attachTokens()
		request := func(size int) []byte {
			m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "1", ReplyTo: amqp.Some("reply101")})
			m = amqp.AppendSection(m, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: "what"}})
			around := len(amqp.AppendSection(slices.Clone(m), amqp.SectionValue, strings.Repeat("x", 1000))) - 1000
			return amqp.AppendSection(m, amqp.SectionValue, strings.Repeat("x", size-around))
		}
		for i, size := range []int{65535, 65536, 65537, 100_000, 65536} {
			m := request(size)
			if len(m) != size {
				t.Fatalf("%+v, want %+v", len(m), size)
			}
			p.transfer(100, uint32(i), m)
			if size > 65536 {
				p.rejectedOnNode(uint32(i), amqp.CondMessageSizeExceeded)
				continue
			}
			// leaves before the disposition
			p.tokenAnswer(p.reply("1"), 400, "The operation 'what' is not known.")
			if d := expect[*amqp.Disposition](p); d.First != uint32(i) || d.State != amqp.StateAccepted {
				t.Errorf("%d bytes: %+v", size, d)
			}
		}
	})
}

func (p *peerConn) rejectedOnNode(id uint32, symbol amqp.Symbol) {
	p.Helper()
	d := expect[*amqp.Disposition](p)
	if r, ok := d.State.(amqp.Rejected); !ok || r.Error == nil || r.Error.Condition != symbol || d.First != id {
		p.Fatalf("%+v; want ok && r.Error != nil && r.Error.Condition == symbol && d.First == id", d)
	}
}

// A session has a window of 100 transfers until there is a token, replenished in time. A session of
// before learns of the larger window with its next flow.
func TestWindowBeforeLogin(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		if begin := p.begin(1); begin.IncomingWindow != 100 {
			t.Errorf("%+v; want begin.IncomingWindow == 100", begin)
		}
		p.write(1, &amqp.Attach{Name: "s", Handle: 100, Role: amqp.RoleSender, Target: &amqp.Target{Address: "$cbs"}}, nil)
		expect[*amqp.Attach](p)
		if f := p.next().p.(*amqp.Flow); f.IncomingWindow != 100 || f.LinkCredit.Value != 100 {
			t.Errorf("%+v; want f.IncomingWindow == 100 && f.LinkCredit.Value == 100", f)
		}
		room := 100
		for i := range 1000 { // one delivery
			f := &amqp.Transfer{Handle: 100, More: true}
			if i == 0 {
				f.DeliveryID, f.DeliveryTag = amqp.Some(uint32(0)), []byte{1}
			}
			p.write(1, f, []byte("x"))
			room--
			synctest.Wait()
			for len(p.in) > 0 {
				flow := p.next().p.(*amqp.Flow)
				room = int(flow.NextIncomingID.Value) + int(flow.IncomingWindow) - (i + 1)
			}
			if room < 80 || room > 100 {
				t.Fatalf("a window of %d after %d transfers", room, i+1)
			}
		}
		p.write(1, &amqp.Detach{Handle: 100, Closed: true}, nil)
		expect[*amqp.Detach](p)
		p.tokenAnswer(p.putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "1"), 202, "")
		p.write(1, &amqp.Flow{IncomingWindow: 5000, OutgoingWindow: 5000, Echo: true}, nil)
		if f := p.next(); f.channel != 1 || f.p.(*amqp.Flow).IncomingWindow != 5000 {
			t.Errorf("%+v; want f.channel == 1 && f.p.(*amqp.Flow).IncomingWindow == 5000", f)
		}
		if begin := p.begin(2); begin.IncomingWindow != 5000 {
			t.Errorf("%+v; want begin.IncomingWindow == 5000", begin)
		}
	})
}

// Unfinished deliveries may have that many bytes in all until there is a token: fewer here than one
// may have. One that has more is refused as busy when its last frame has come.
func TestUnfinishedBeforeLogin(t *testing.T) {
	for _, login := range []bool{false, true} {
		bubble(t, func(o *Options) { o.Limits.BufferedLogin = 50_000 }, func(b *bench) {
			p := b.dial().open()
			p.attachTokens()
			if login {
				p.tokenAnswer(p.putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "1"), 202, "")
			}
			for i, size := range []int{40_000, 9_999, 1, 1} {
				p.noAnswer(p)
				f := &amqp.Transfer{Handle: 100, More: true}
				if i == 0 {
					f.DeliveryID, f.DeliveryTag = amqp.Some(uint32(0)), []byte{1}
				}
				p.write(0, f, make([]byte, size))
				synctest.Wait()
			}
			p.noAnswer(p)
			p.write(0, &amqp.Transfer{Handle: 100}, nil)
			if login {
				p.rejectedOnNode(0, amqp.CondDecodeError)
			} else {
				p.rejectedOnNode(0, amqp.CondServerBusy)
			}
		})
	}
}

// Answers for which a peer gives no credit may have 128 KiB until there is a token.
func TestAnswersBeforeLogin(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.dial().open()
		p.attachSender(100, "$cbs")
		p.attachReceiver(101, "$cbs", amqp.SenderSettled)
		name := strings.Repeat("n", 1000) // of the message, and so of the answer
		m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: name, ReplyTo: amqp.Some("reply101")})
		m = amqp.AppendSection(m, amqp.SectionApplicationProperties, amqp.Map{{Key: "operation", Value: "what"}})
		sent := 0
		for d := (*amqp.Detach)(nil); d == nil; {
			p.write(0, &amqp.Transfer{Handle: 100, DeliveryID: amqp.Some(uint32(sent)), DeliveryTag: []byte{1}, Settled: amqp.Some(true)}, m)
			sent++
			synctest.Wait()
			for len(p.in) > 0 {
				if got, ok := p.next().p.(*amqp.Detach); ok {
					d = got
				}
			}
			if d != nil && (d.Handle != 101 || d.Error.Condition != amqp.CondResourceLimit) {
				t.Fatalf("%+v; want no detach, or one of handle 101 with %s", d, amqp.CondResourceLimit)
			}
		}
		if sent < 90 || sent > 128 { // an answer is a little larger than its message-id
			t.Errorf("after %d requests", sent)
		}
	})
}

// What is not yet written may be 128 KiB until there is a token; above that nothing is read.
func TestUnwrittenBeforeLogin(t *testing.T) {
	for limit, login := range map[int]bool{128 << 10: false, 1 << 20: true} {
		bubble(t, func(o *Options) { o.Limits.BufferedOut = 1 << 20 }, func(b *bench) {
			client, served := b.deafPeer(login)
			b.passOver(client, 2)
			_, _ = client.Write(amqp.AppendFrame(nil, 0, &amqp.Begin{IncomingWindow: 5000, OutgoingWindow: 5000}, nil))
			var echoes []byte // each is answered by one of its size
			for range 1000 {
				echoes = amqp.AppendFrame(echoes, 0, &amqp.Flow{IncomingWindow: 5000, OutgoingWindow: 5000, Echo: true}, nil)
			}
			go func() {
				for err := error(nil); err == nil; {
					_, err = client.Write(echoes)
				}
			}()
			synctest.Wait()
			var c *conn
			for c = range b.server.conns {
			}
			if n := c.out.backlog(); n <= limit || n > limit+2*largeChunk {
				t.Errorf("%d bytes wait, with a login: %v", n, login)
			}
			client.Close()
			<-served
		})
	}
}

// The number of open things is bounded after the login as well: the session, link or answer above
// the limit ends, the connection stays.
func TestLimitsAfterLogin(t *testing.T) {
	t.Run("sessions", func(t *testing.T) {
		bubble(t, func(o *Options) { o.Limits.Sessions = 20 }, func(b *bench) {
			p := b.root() // with the first
			for channel := uint16(1); channel <= 21; channel++ {
				if p.begin(channel); channel >= 20 {
					if e := expect[*amqp.End](p); e.Error.Condition != amqp.CondResourceLimit {
						t.Errorf("session %d: %+v", channel, e.Error)
					}
				}
			}
			p.attached(19, 1, "")
		})
	})
	t.Run("answers without credit", func(t *testing.T) {
		bubble(t, func(o *Options) { o.Limits.Requests = 5 }, func(b *bench) {
			p := b.root()
			p.attachSender(200, "q/$management")
			p.attachReceiver(201, "q/$management", amqp.SenderSettled)
			for i := range 6 {
				p.noAnswer(p)
				p.request(fmt.Sprint(i), "com.microsoft:renew-lock", nil)
				synctest.Wait()
			}
			if d := expect[*amqp.Detach](p); d.Handle != 201 || d.Error.Condition != amqp.CondResourceLimit {
				t.Errorf("%+v; want d.Handle == 201 && d.Error.Condition == amqp.CondResourceLimit", d.Error)
			}
		})
	})
}

// Reliability.md 8: what frames hold is bounded more tightly until there is a token, and not after
// it.
func TestDepthBeforeLogin(t *testing.T) {
	nested := func(depth int) (v any) {
		for v = "end"; depth > 0; depth-- {
			v = amqp.List{v}
		}
		return v
	}
	wide := amqp.List(make([]any, 300))
	for _, c := range []struct {
		what  string
		value any
		early bool
	}{{"of 5 levels", nested(5), true}, {"of 12 levels", nested(12), false}, {"of 300 elements", wide, false}} {
		for _, login := range []bool{false, true} {
			bubble(t, nil, func(b *bench) {
				p := b.dial().open()
				to := "$cbs"
				if login {
					p.putToken("sb://ns/q", token("sb://ns/q", "root", "root-key", time.Hour), "1")
					to = "q" // there is one link to $cbs already
				}
				p.write(0, &amqp.Attach{Name: "new", Handle: 7, Role: amqp.RoleSender, Target: &amqp.Target{Address: to},
					Properties: amqp.Map{{Key: amqp.Symbol("x"), Value: c.value}}}, nil)
				if login || c.early {
					if a := expect[*amqp.Attach](p); a.Target == nil {
						t.Errorf("a value %s, login %v: refused", c.what, login)
					}
				} else if e := expect[*amqp.Close](p); e.Error.Condition != amqp.CondDecodeError {
					t.Errorf("a value %s: %+v", c.what, e.Error)
				}
			})
		}
	}
}
