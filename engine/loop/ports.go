package loop

import "github.com/ledgerbus/ledgerbus/engine"

// Ports is what the ports of a receiver share.
type Ports struct {
	Left    int32  // deliveries that it takes
	Flows   uint32 // that are in force, or were
	Owing   uint32 // ports that have not answered its drain
	Looking int32  // ports that have not looked for its session
	Spoken  bool   // its attach has an answer
	Line    uint32 // ports that stand in line for its last credit, a bit for each
	Last    uint8  // port that took the last one that went by the line
	Taken   uint32 // how many were taken
}

// PortsOf is what the ports of a receiver share now.
func PortsOf(r *engine.Receiver) Ports {
	l := linkOf(r)
	s := l.credit.state()
	return Ports{Left: s.left, Flows: s.flows, Owing: s.owing, Looking: l.looking.Load(), Spoken: l.spoken.Load(),
		Line: l.line.ports.Load(), Last: uint8(l.line.last.Load()), Taken: l.line.taken.Load()}
}

// WatchPorts has a function called before each look that a port of a receiver takes at what they
// share. It reports whether there are several.
func WatchPorts(r *engine.Receiver, look func()) bool {
	l := linkOf(r)
	if l.shared() {
		l.step = look
	}
	return l.shared()
}
