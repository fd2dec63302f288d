package loop

import (
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
)

// link is the state that the ports of a receiver link share. A port is the link's presence in a
// loop: a [receiver]. Loops know nothing of each other; through the link they agree, without
// waiting, on what happens only once (docs/decisions/0034).
type link struct {
	hosts   []engine.PartitionID // partitions of the ports, in their order
	serving int                  // number of ports with slices to receive from
	credit  credit
	line    line
	spoken  atomic.Bool  // the attach has an answer, or is about to get one
	pending atomic.Int32 // ports that have not attached
	closing atomic.Int32 // ports that have not detached
	// ports that have not looked for the session it wants: it is known that there is none only when
	// all have looked
	looking atomic.Int32

	// step, in a test, is called before each access to the shared state: the test decides there
	// which loop runs next.
	step func()
}

// newLink returns the shared state of a receiver's ports, before any of them has attached.
func newLink(r *engine.Receiver) *link {
	l := &link{hosts: r.Hosts()}
	if len(l.hosts) <= 1 {
		l.serving = 1
		return l
	}
	for port, h := range l.hosts {
		if r.At(h) != 0 {
			l.serving++
			// before it attaches it is unknown whether it has messages
			l.line.put(uint8(port), r.Session == nil)
		}
	}
	l.looking.Store(int32(l.serving))
	if r.Session != nil {
		l.serving = 1 // only the port that gets a session
	}
	l.pending.Store(int32(len(l.hosts)))
	l.closing.Store(int32(len(l.hosts)))
	return l
}

// linkOf returns the shared state of a receiver's ports. The first port to ask creates it.
func linkOf(r *engine.Receiver) *link {
	for {
		if l := attachedLink(r); l != nil {
			return l
		}
		l := newLink(r)
		// the latter if it was attached before
		if r.Runtime.CompareAndSwap(nil, l) || r.Runtime.CompareAndSwap((*link)(nil), l) {
			return l
		}
	}
}

// attachedLink returns the shared state of a receiver's ports; nil: there is none.
func attachedLink(r *engine.Receiver) *link {
	l, _ := r.Runtime.Load().(*link)
	return l
}

// shared reports whether there is more than one port.
func (l *link) shared() bool { return len(l.hosts) > 1 }

// openPorts returns the counter of a receiver's ports that have not detached; nil: there is one
// port.
func openPorts(r *engine.Receiver) *atomic.Int32 {
	if l := attachedLink(r); l != nil && l.shared() {
		return &l.closing
	}
	return nil
}

// answersRefusal reports whether a request that no loop will process is answered here. If it went
// to several ports of a link, another port may answer it.
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

// pause lets a test run other loops.
func (l *link) pause() {
	if l.step != nil {
		l.step()
	}
}

// isAnswered reports whether another port has answered the attach.
func (l *link) isAnswered() bool {
	if !l.shared() {
		return false
	}
	l.pause()
	return l.spoken.Load()
}

// countLook notes that a port has looked for a session and found none. It reports whether all ports
// have: the last one ends the wait.
func (l *link) countLook() bool {
	if !l.shared() {
		return true
	}
	l.pause()
	return l.looking.Add(-1) == 0
}

// claimAnswer reports whether the calling port answers the attach: with a session, a refusal, or
// the end of a wait in vain. The other ports then do nothing.
func (l *link) claimAnswer() bool {
	if !l.shared() {
		return true
	}
	l.pause()
	return !l.spoken.Swap(true)
}
