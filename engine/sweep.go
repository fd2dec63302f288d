package engine

// sweepStep is the number of messages that one step of a sweep looks at, and sweepEnds the number
// that it ends, so that other commands get their turn.
const (
	sweepStep = 8192
	sweepEnds = 1024
)

// sweepSome ends expired messages, wherever they are in the main queue. It asks to be decided again
// until the pass is complete.
func sweepSome(d *decision, cmd *sweep) {
	pass := cmd.pass
	found, done := d.index.Step(&pass, d.now, sweepStep, sweepEnds)
	if s, err := d.slice(pass.Slice); err == nil {
		s.end(overdueItems{messages: found})
	}
	if !done {
		d.goOn(&sweep{pass})
	}
}

// maxFront is the most expired messages at the head of a queue that one decision ends.
const maxFront = 256
