package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// teardown ends links or the connection, once the engine has answered all requests of the
// connection: a client that misses an answer repeats an operation that was done (SM-002, SM-054).
// Until then the connection handles no frames, so the wait must be short.
type teardown struct {
	changes  []engine.Change // of entities of its links
	recheck  bool            // claims have to be checked again
	stopping bool            // the server stops
}

// pending reports whether the connection, or some of its links, wait for their end.
func (t *teardown) pending() bool { return t.stopping || t.recheck || len(t.changes) > 0 }

// changed notes a change of an entity.
func (t *teardown) changed(change engine.Change) { t.changes = append(t.changes, change) }

// recheckClaims detaches links without a claim at the next teardown.
func (t *teardown) recheckClaims() { t.recheck = true }

// stop closes the connection at the next teardown.
func (t *teardown) stop() { t.stopping = true }

// take returns the pending work. It remembers that the server stops.
func (t *teardown) take() teardown {
	taken := *t
	t.changes, t.recheck = nil, false
	return taken
}
