package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// teardown is what takes links or the connection away, once all that the engine was asked on the
// connection is answered: a client that misses an answer repeats what has been done (SM-002,
// SM-054). Until then the connection takes no frames, so it must not last long.
type teardown struct {
	changes  []engine.Change // of entities that links lead to
	recheck  bool            // claims are to be looked at
	stopping bool            // the server stops
}

// pending reports whether the connection waits to be torn down, or some of its links.
func (t *teardown) pending() bool { return t.stopping || t.recheck || len(t.changes) > 0 }

// changed notes a change of an entity.
func (t *teardown) changed(change engine.Change) { t.changes = append(t.changes, change) }

// recheckClaims has links without a claim detached.
func (t *teardown) recheckClaims() { t.recheck = true }

// stop has the connection closed.
func (t *teardown) stop() { t.stopping = true }

// take hands out what is to be done. That the server stops is not forgotten.
func (t *teardown) take() teardown {
	taken := *t
	t.changes, t.recheck = nil, false
	return taken
}
