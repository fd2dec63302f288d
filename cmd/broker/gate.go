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

// A gate receives connections. While the broker starts the gate is closed: AMQP connections wait,
// HTTP requests get 503, /health and /readyz report that the broker is starting, and /livez reports
// that the process is live. Most starts accept connections only when the gate is open. A start that
// has notices accepts them earlier, so that the notices are seen before they take effect
// (reliability.md 1.4).
type gate struct {
	most    int64           // maximum number of waiting connections
	closing <-chan struct{} // ends all waiting
	opened  chan struct{}
	waiting atomic.Int64

	// set before opened closes
	amqp   interface{ ServeConn(net.Conn) }
	http   http.Handler
	health func(context.Context) error
	probes probeSource
	states func() []host.Condition
}

// A probeSource answers the probes of an orchestrator.
type probeSource interface {
	Live() error
	Ready() error
}

func newGate(most int, closing <-chan struct{}) *gate {
	return &gate{most: int64(most), closing: closing, opened: make(chan struct{})}
}

// open opens the gate to all connections.
func (g *gate) open(amqp interface{ ServeConn(net.Conn) }, http http.Handler, health func(context.Context) error, probes probeSource, states func() []host.Condition) {
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

// ServeConn serves an AMQP connection and closes it.
func (g *gate) ServeConn(nc net.Conn) {
	if !g.isOpen() && !g.wait() {
		nc.Close()
		return
	}
	g.amqp.ServeConn(nc)
}

// wait waits until the gate is open. It returns false if too many connections wait or the broker
// closes.
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

// Health returns the reason why messages cannot be accepted now.
func (g *gate) Health(ctx context.Context) error {
	if !g.isOpen() {
		return errStarting
	}
	return g.health(ctx)
}

// Live returns the reason why the process should be replaced. A start may take any time.
func (g *gate) Live(context.Context) error {
	if !g.isOpen() {
		return nil
	}
	return g.probes.Live()
}

// Ready returns the reason why clients cannot be served now.
func (g *gate) Ready(context.Context) error {
	if !g.isOpen() {
		return errStarting
	}
	return g.probes.Ready()
}

// Conditions returns the states that keep the broker from doing all of its work.
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
