package servicebus

import (
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
)

// outbox receives replies from partitions, and changes of entities, without ever blocking them. Its
// size is bounded by the requests: one reply per request, one delivery per credit.
type outbox struct {
	wake chan struct{} // one slot; full while there is something to take

	mu      sync.Mutex // guards the fields below
	waiting []engine.Reply
	changes []engine.Change
	recheck bool // access rules have changed
	pressed bool // memory has become short, or has ceased to be
	evicted bool // the connection must close for lack of memory
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

// rulesChanged is called when access rules of the namespace have changed. It does not block.
func (o *outbox) rulesChanged() {
	o.mu.Lock()
	o.recheck = true
	o.mu.Unlock()
	o.poke()
}

// press is called when memory becomes short, and when it no longer is. It does not block.
func (o *outbox) press() {
	o.mu.Lock()
	o.pressed = true
	o.mu.Unlock()
	o.poke()
}

// evict is called when the connection must close for lack of memory. It does not block.
func (o *outbox) evict() {
	o.mu.Lock()
	o.pressed, o.evicted = true, true
	o.mu.Unlock()
	o.poke()
}

// takePress reports whether press was called since the last takePress, and whether the connection
// must close.
func (o *outbox) takePress() (pressed, evicted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pressed, evicted = o.pressed, o.evicted
	o.pressed, o.evicted = false, false
	return pressed, evicted
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns everything since the last call; recheck: access rules have changed, those of the
// namespace or those of an entity that changed. spare is memory for the next replies; its
// references are dropped.
func (o *outbox) take(spare []engine.Reply) (taken []engine.Reply, changes []engine.Change, recheck bool) {
	clear(spare)
	o.mu.Lock()
	defer o.mu.Unlock()
	taken, changes, recheck = o.waiting, o.changes, o.recheck || len(o.changes) > 0
	o.waiting, o.changes, o.recheck = spare[:0], nil, false
	return taken, changes, recheck
}

// close drops everything that arrives from now on.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.waiting, o.changes = true, nil, nil
}
