package broker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/protocol/listen"
)

// gate is what connections come to. While the broker starts it is closed: a connection that speaks
// AMQP waits, a request gets 503, and /health and /readyz say that it is not open yet; /livez says
// that the process lives. Most starts accept no connections before it is open; one that has notices
// does, so that they are seen before anything follows from them (reliability.md 1.4).
type gate struct {
	most    int64           // connections that wait
	closing <-chan struct{} // nobody waits any longer
	opened  chan struct{}
	waiting atomic.Int64

	// set before opened closes
	amqp   interface{ ServeConn(net.Conn) }
	http   http.Handler
	health func(context.Context) error
	probes prober
	states func() []host.Condition
}

// prober answers what an orchestrator asks.
type prober interface {
	Live() error
	Ready() error
}

func newGate(most int, closing <-chan struct{}) *gate {
	return &gate{most: int64(most), closing: closing, opened: make(chan struct{})}
}

// open lets everybody in.
func (g *gate) open(amqp interface{ ServeConn(net.Conn) }, http http.Handler, health func(context.Context) error, probes prober, states func() []host.Condition) {
	g.amqp, g.http, g.health, g.probes, g.states = amqp, http, health, probes, states
	close(g.opened)
}

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

// ServeConn serves a connection that speaks AMQP, and closes it.
func (g *gate) ServeConn(nc net.Conn) {
	if !g.isOpen() && !g.wait() {
		nc.Close()
		return
	}
	g.amqp.ServeConn(nc)
}

// wait waits until the gate is opened, and reports whether it was: not when too many wait, or the
// broker closes.
func (g *gate) wait() bool {
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > g.most {
		return false
	}
	select {
	case <-g.opened:
		return true
	case <-g.closing:
		return false
	}
}

// ServeHTTP implements [http.Handler].
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.isOpen() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "The broker is starting.", http.StatusServiceUnavailable)
		return
	}
	g.http.ServeHTTP(w, r)
}

var errStarting = errors.New("the broker is starting")

// Health says why messages cannot be accepted now.
func (g *gate) Health(ctx context.Context) error {
	if !g.isOpen() {
		return errStarting
	}
	return g.health(ctx)
}

// Live returns why a new process should take the place of this one. A start takes as long as it
// takes.
func (g *gate) Live(context.Context) error {
	if !g.isOpen() {
		return nil
	}
	return g.probes.Live()
}

// Ready returns why clients cannot be served now.
func (g *gate) Ready(context.Context) error {
	if !g.isOpen() {
		return errStarting
	}
	return g.probes.Ready()
}

// Conditions are the states that keep the broker from doing all of its work.
func (g *gate) Conditions() []listen.Condition {
	if !g.isOpen() {
		return nil
	}
	var list []listen.Condition
	for _, c := range g.states() {
		shown := listen.Condition{State: c.State, Cause: c.Cause}
		if c.Partition >= 0 {
			shown.Partition = &c.Partition
		}
		if since := c.Since.UTC().Truncate(time.Second); !c.Since.IsZero() {
			shown.Since = &since
		}
		list = append(list, shown)
	}
	return list
}
