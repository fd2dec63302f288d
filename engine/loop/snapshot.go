package loop

import (
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Snapshot asks for the state of a partition, and for the bodies that are still to be read.
type Snapshot struct {
	engine.Internal

	mu     sync.Mutex // guards the fields below
	state  *index.Snapshot
	unread []event.Blob
	over   bool // the caller no longer wants it
	// address of the frame with the newest record in the state; 0: this incarnation has written
	// none
	wrote event.LSN
}

// Take takes the state as it is now, in its loop. Parts of it may not be durable yet.
func (cmd *Snapshot) Take(l *Loop) (reply engine.Reply) {
	cmd.mu.Lock()
	defer cmd.mu.Unlock()
	if !cmd.over {
		cmd.state, cmd.wrote, cmd.unread = l.part.Index().Snapshot(), l.frames.wrote, bodiesInUse(l)
	}
	return reply
}

// IsDurable reports whether everything in the state is durable, in a log that is durable up to an
// LSN: every later state has it, even after a crash.
func (cmd *Snapshot) IsDurable(committed event.LSN) bool {
	return committed > cmd.wrote
}

// State returns the state and the unread bodies.
func (cmd *Snapshot) State() (state *index.Snapshot, unread []event.Blob) {
	return cmd.state, cmd.unread
}

// Close releases the state, even one that is still to be taken.
func (cmd *Snapshot) Close() {
	cmd.mu.Lock()
	defer cmd.mu.Unlock()
	cmd.over = true
	if cmd.state != nil {
		cmd.state.Close()
	}
}
