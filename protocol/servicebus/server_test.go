package servicebus

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// The peer is told when the server stops, and the socket is closed when it answers.
func TestServerClose(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		p := b.root()
		go b.server.Close(context.Background())
		if c := expect[*amqp.Close](p); c.Error.Condition != amqp.CondConnectionForced {
			t.Errorf("%+v; want c.Error.Condition == amqp.CondConnectionForced", c)
		}
		p.write(0, &amqp.Close{}, nil)
		p.closed()
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
			t.Errorf("%+v; want e.Error.Condition == amqp.CondResourceLimit", e)
		}
	})
}

// SM-328: a connection over the limit of the whole broker is refused. Open connections continue,
// and one that ends makes room.
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
			t.Fatalf("%+v; want len(h.header) != 0", h)
		}
		expect[*amqp.Open](over)
		if e := expect[*amqp.Close](over).Error; e == nil || e.Condition != amqp.CondResourceLimit || !strings.HasPrefix(e.Description, "ConnectionsQuotaExceeded for namespace") {
			t.Errorf("one more than the limit: %+v", e)
		}
		var silent []*peerConn
		for range maxTurned - 1 { // they send nothing; further ones are closed without an answer
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

// A connection that two limits refuse, that of all connections and that of its address, leaves no
// trace in either: later ones are turned away as before, with an answer.
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

// reliability.md F21: a bug ends one connection; the others go on.
func TestPanic(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		b.panics = 1
		other := b.root()
		other.attachSender(1, "q")
		p := b.root()
		p.attachSender(1, "q2")
		b.broker.refuse(func(c engine.Command) error {
			if s, ok := c.(*engine.Send); ok && s.Entity.Path == "q2" {
				panic("planted")
			}
			return nil
		})
		p.transfer(1, 0, newMessage("a", "x"))
		p.closed()
		other.send(1, 0, newMessage("a", "x"))
	})
}

// Connections without a token, of all addresses; one that presents a token or closes makes room.
func TestUnauthenticated(t *testing.T) {
	for _, setting := range []int{3, 0} {
		limit := map[int]int{3: 3, 0: 1000}[setting]
		bubble(t, func(o *Options) { o.Limits.Unauthenticated, o.Limits.ConnectionsPerHost = setting, 2000 }, func(b *bench) {
			var open []*peerConn
			for range limit {
				p := b.dial()
				p.raw(amqp.ProtocolAMQP[:])
				p.next()
				open = append(open, p)
			}
			refused := func() bool {
				p := b.dial()
				synctest.Wait()
				return p.gone()
			}
			if !refused() {
				t.Errorf("one more than %d", limit)
			}
			open[0].write(0, &amqp.Open{ContainerID: "c"}, nil)
			expect[*amqp.Open](open[0])
			open[0].begin(0)
			open[0].tokenAnswer(open[0].putToken("sb://ns", token("sb://ns", "root", "root-key", time.Hour), "1"), 202, "")
			if refused() {
				t.Error("a login makes no room")
			}
			if !refused() {
				t.Errorf("one more than %d and one with a token", limit)
			}
			open[1].net.Close()
			synctest.Wait()
			if refused() {
				t.Error("the end of a connection makes no room")
			}
		})
	}
}

// An address that fills the limit on connections without a token keeps no other address out.
func TestAnonymousConnectionsMakeRoom(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Unauthenticated = 4 }, func(b *bench) {
		dial := func(host string) *peerConn {
			client, nc := net.Pipe()
			go b.server.ServeConn(from{nc, host + ":1"})
			p := &peerConn{bench: b, net: client, in: make(chan received, 10)}
			go p.read()
			b.clients = append(b.clients, client)
			synctest.Wait()
			return p
		}
		var attackers []*peerConn
		for range 4 {
			attackers = append(attackers, dial("10.0.0.1"))
		}
		if !dial("10.0.0.1").gone() {
			t.Error("one more than the limit")
		}
		honest, second, third := dial("10.0.0.2"), dial("10.0.0.2"), dial("10.0.0.2")
		if honest.gone() || second.gone() || !third.gone() {
			t.Error("another address gets less, or more, than its share")
		}
		if !attackers[0].gone() || !attackers[1].gone() || attackers[2].gone() || attackers[3].gone() {
			t.Error("not the oldest made room")
		}
		honest.raw(amqp.ProtocolAMQP[:])
		honest.next()
	})
}

// Making room does not wait: the displaced connection may be inside TLS, whose alert a peer that
// does not read delays.
func TestAnonymousConnectionsMakeRoomAtOnce(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.Unauthenticated = 2 }, func(b *bench) {
		dial := func(host string) *peerConn {
			p := b.dialAs(func(nc net.Conn) net.Conn { return slowGoodbye{from{nc, host + ":1"}} })
			synctest.Wait()
			return p
		}
		dial("10.0.0.1")
		dial("10.0.0.1")
		start := time.Now()
		honest := dial("10.0.0.2")
		honest.raw(amqp.ProtocolAMQP[:])
		if h := honest.next(); len(h.header) == 0 {
			t.Fatalf("%+v; want len(h.header) != 0", h)
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("the peer that room was made for waited for %v", waited)
		}
	})
}

// slowGoodbye is a connection that takes its time to close.
type slowGoodbye struct{ net.Conn }

func (c slowGoodbye) Close() error {
	time.Sleep(5 * time.Second)
	return c.Conn.Close()
}

// from is a connection of a certain peer.
type from struct {
	net.Conn
	peer string
}

func (c from) RemoteAddr() net.Addr { return peerAddr(c.peer) }

type peerAddr string

func (a peerAddr) Network() string { return "tcp" }
func (a peerAddr) String() string  { return string(a) }
