package lab

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Proxy stands between clients and a broker, on a port of its own, and passes bytes on. What it is
// for is [Proxy.Cut]. While the broker is down it takes connections and resets them at once, as a
// load balancer does.
type Proxy struct {
	target   string
	listener net.Listener
	passing  sync.WaitGroup

	mu sync.Mutex
	// guarded by mu; nil once the proxy is closed; true while the broker has not ended its side
	wires  map[*wire]bool
	errors []error // guarded by mu; what ended the listener before Close
}

// wire is one client's connection and the one made for it to the broker.
type wire struct{ client, broker *net.TCPConn }

// StartProxy listens on a free port of the loopback interface for connections to target.
func StartProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, wires: map[*wire]bool{}}
	p.passing.Go(p.accept)
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut resets every connection there is, towards both ends, and says how many of them the broker had
// not ended. New ones are welcome.
func (p *Proxy) Cut() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w, whole := range p.wires {
		w.cut()
		if whole {
			n++
		}
	}
	return n
}

// Close ends the proxy and all its connections. The error is what ended it before, if something
// did.
func (p *Proxy) Close() error {
	p.mu.Lock()
	for w := range p.wires {
		w.cut()
	}
	p.wires = nil
	p.mu.Unlock()
	_ = p.listener.Close()
	p.passing.Wait()
	return errors.Join(p.errors...)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			p.mu.Lock()
			if p.wires != nil {
				p.errors = append(p.errors, err)
			}
			p.mu.Unlock()
			return
		}
		p.passing.Go(func() { p.pass(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) pass(client *net.TCPConn) {
	broker, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	w := &wire{client: client, broker: broker.(*net.TCPConn)}
	if !p.add(w) {
		w.cut()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.copy(w.broker, w.client) })
	both.Go(func() {
		w.copy(w.client, w.broker)
		p.ended(w)
	})
	both.Wait()
	p.remove(w)
	_ = w.client.Close()
	_ = w.broker.Close()
}

func (p *Proxy) add(w *wire) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wires == nil {
		return false
	}
	p.wires[w] = true
	return true
}

// ended notes that the broker has nothing more to say on a wire, whether or not the client has
// noticed.
func (p *Proxy) ended(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wires != nil {
		p.wires[w] = false
	}
}

func (p *Proxy) remove(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wires, w)
}

// copy passes bytes on until one side ends. An orderly end is passed on as such, because what the
// other side has still to say must arrive; any other ends the wire.
func (w *wire) copy(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		w.cut()
		return
	}
	_ = to.CloseWrite()
}

// cut ends a wire without a farewell. It may be called again and from anywhere.
func (w *wire) cut() {
	reset(w.client)
	reset(w.broker)
}

// reset closes a connection so that the peer gets an error instead of an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
