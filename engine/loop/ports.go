package loop

import "github.com/ledgerbus/ledgerbus/engine"

// Ports is the state that the ports of a receiver share.
type Ports struct {
	Left    int32  // deliveries that the link takes
	Flows   uint32 // newest flow in force
	Owing   uint32 // ports that have not answered the drain
	Looking int32  // ports that have not looked for a session
	Spoken  bool   // the attach has an answer
	Line    uint32 // ports in line for the last credit, a bit for each
	Last    uint8  // port of the last delivery that went by the line
	Taken   uint32 // credits taken
}

// PortsOf returns the state that the ports of a receiver share now.
func PortsOf(r *engine.Receiver) Ports {
	l := linkOf(r)
	s := l.credit.state()
	return Ports{Left: s.left, Flows: s.flows, Owing: s.owing, Looking: l.looking.Load(), Spoken: l.spoken.Load(),
		Line: l.line.ports.Load(), Last: uint8(l.line.last.Load()), Taken: l.line.taken.Load()}
}

// WatchPorts makes a function be called before each time that a port of a receiver reads the shared
// state. It reports whether the receiver has several ports.
func WatchPorts(r *engine.Receiver, look func()) bool {
	l := linkOf(r)
	if l.shared() {
		l.step = look
	}
	return l.shared()
}
