package loop

import (
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
)

// link is what the ports of a receiver link share. A port is the link's presence in a loop: a
// [receiver]. Loops know nothing of each other; here they agree, without waiting, on what is to
// happen once (docs/decisions/0034).
type link struct {
	hosts   []engine.PartitionID // of the ports, in their order
	serving int                  // of the ports, those with slices to receive from
	credit  credit
	line    line
	spoken  atomic.Bool  // the attach has an answer, or is about to get one
	pending atomic.Int32 // ports that have not attached
	closing atomic.Int32 // ports that have not detached
	// ports that have not looked for the session it wants: only when all have looked is it known
	// that there is none
	looking atomic.Int32

	// step, in a test, is called before each look at what is shared: there it says which loop goes
	// on.
	step func()
}

// newLink is what the ports of a receiver share, before any has attached.
func newLink(r *engine.Receiver) *link {
	l := &link{hosts: r.Hosts()}
	if len(l.hosts) <= 1 {
		l.serving = 1
		return l
	}
	for port, h := range l.hosts {
		if r.At(h) != 0 {
			l.serving++
			// until it has attached nobody knows whether it has messages
			l.line.put(uint8(port), r.Session == nil)
		}
	}
	l.looking.Store(int32(l.serving))
	if r.Session != nil {
		l.serving = 1 // the one that gets a session
	}
	l.pending.Store(int32(len(l.hosts)))
	l.closing.Store(int32(len(l.hosts)))
	return l
}

// linkOf is what the ports of a receiver share, whichever of them comes first.
func linkOf(r *engine.Receiver) *link {
	for {
		if l := attachedLink(r); l != nil {
			return l
		}
		l := newLink(r)
		// the latter if it was attached once before
		if r.Runtime.CompareAndSwap(nil, l) || r.Runtime.CompareAndSwap((*link)(nil), l) {
			return l
		}
	}
}

// attachedLink is what the ports of a receiver share; nil: there is none.
func attachedLink(r *engine.Receiver) *link {
	l, _ := r.Runtime.Load().(*link)
	return l
}

// shared reports whether there is more than one port.
func (l *link) shared() bool { return len(l.hosts) > 1 }

// openPorts counts the ports of a receiver that have not detached; nil: there is one.
func openPorts(r *engine.Receiver) *atomic.Int32 {
	if l := attachedLink(r); l != nil && l.shared() {
		return &l.closing
	}
	return nil
}

// answersRefusal reports whether a request that no loop will look at is answered: one that went to
// several ports of a link may have its answer from another port.
func answersRefusal(cmd engine.Command) bool {
	switch cmd := cmd.(type) {
	case *engine.Attach:
		return linkOf(cmd.Receiver).claimAnswer()
	case *engine.Detach:
		ports := openPorts(cmd.Receiver)
		return ports == nil || ports.Add(-1) == 0
	}
	return true
}

// pause is where a test lets other loops go on.
func (l *link) pause() {
	if l.step != nil {
		l.step()
	}
}

// isAnswered reports whether another port has answered the attach. The port that asks has not.
func (l *link) isAnswered() bool {
	if !l.shared() {
		return false
	}
	l.pause()
	return l.spoken.Load()
}

// countLook says that a port has looked for a session and found none, and reports whether all have:
// the last one ends the wait.
func (l *link) countLook() bool {
	if !l.shared() {
		return true
	}
	l.pause()
	return l.looking.Add(-1) == 0
}

// claimAnswer reports whether the port that asks is the one to answer the attach: with a session, a
// refusal, or that it was in vain. The others do nothing then.
func (l *link) claimAnswer() bool {
	if !l.shared() {
		return true
	}
	l.pause()
	return !l.spoken.Swap(true)
}
