package engine

// sweepStep is how many messages one step of a sweep looks at, and sweepEnds how many it ends, so
// that other commands get their turn in between.
const (
	sweepStep = 8192
	sweepEnds = 1024
)

// sweepSome ends messages whose time to live has passed, wherever in the main queue they stand. It
// asks to be decided again until the pass is over.
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

// maxFront is how many expired messages at the head of a queue one decision ends.
const maxFront = 256
