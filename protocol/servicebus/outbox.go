package servicebus

import (
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
)

// outbox takes replies from partitions, and changes of entities, without ever making one wait. Its size is bounded by what
// was asked for: one reply per request, one delivery per credit.
type outbox struct {
	wake chan struct{} // one slot: there is something in waiting

	mu      sync.Mutex
	waiting []engine.Reply
	changes []engine.Change
	closed  bool
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// Post implements engine.Sink.
func (o *outbox) Post(replies []engine.Reply) {
	o.mu.Lock()
	if !o.closed {
		o.waiting = append(o.waiting, replies...)
	}
	o.mu.Unlock()
	o.poke()
}

// changed is called when an entity has changed. It does not block.
func (o *outbox) changed(c engine.Change) {
	o.mu.Lock()
	if !o.closed {
		o.changes = append(o.changes, c)
	}
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns what came since the last call. spare is memory to be filled next; its references are dropped.
func (o *outbox) take(spare []engine.Reply) ([]engine.Reply, []engine.Change) {
	clear(spare)
	o.mu.Lock()
	defer o.mu.Unlock()
	taken, changes := o.waiting, o.changes
	o.waiting, o.changes = spare[:0], nil
	return taken, changes
}

// close throws away what comes from now on.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.waiting, o.changes = true, nil, nil
}
