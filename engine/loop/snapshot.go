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

	mu     sync.Mutex // guards what follows
	state  *index.Snapshot
	unread []event.Blob
	over   bool // nobody wants it any more
	// of the frame with the newest record that the state shows; 0: this run has written none
	wrote event.LSN
}

// Take takes the state as it is now, in its loop. What it shows may not be durable yet.
func (cmd *Snapshot) Take(l *Loop) (reply engine.Reply) {
	cmd.mu.Lock()
	defer cmd.mu.Unlock()
	if !cmd.over {
		cmd.state, cmd.wrote, cmd.unread = l.part.Index().Snapshot(), l.frames.wrote, bodiesInUse(l)
	}
	return reply
}

// IsDurable reports whether all that the state shows is durable, in a log that is durable up to an
// LSN: no later state lacks it, whatever happens.
func (cmd *Snapshot) IsDurable(committed event.LSN) bool {
	return committed > cmd.wrote
}

// State returns what was taken.
func (cmd *Snapshot) State() (state *index.Snapshot, unread []event.Blob) {
	return cmd.state, cmd.unread
}

// Close lets go of the state, also of one that is still to come.
func (cmd *Snapshot) Close() {
	cmd.mu.Lock()
	defer cmd.mu.Unlock()
	cmd.over = true
	if cmd.state != nil {
		cmd.state.Close()
	}
}
