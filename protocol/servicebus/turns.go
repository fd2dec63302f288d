package servicebus

import "time"

// A connection's state belongs to the goroutine that has its turn. Most turns are run's. The reader
// itself handles what it has read if no other goroutine has the turn: handing it to another
// goroutine costs more than handling it, and on most systems wakes a thread.

// takeTurn begins a turn of run.
func (c *conn) takeTurn() {
	c.turn.Lock()
	c.now = time.Now()
}

// readTurn is a turn of the reader, with the frames of one read. It accepts only ordinary frames of
// an open connection. It reports whether they have been handled; if not, run does it. Frames are
// handled in order: those of all earlier reads must have been handled.
func (c *conn) readTurn(in readResult, number uint64) bool {
	if in.err != nil || !c.turn.TryLock() {
		return false
	}
	defer c.turn.Unlock()
	if c.done || c.phase != opened || number != c.in.taken+1 || c.in.waits() {
		return false
	}
	if c.now = time.Now(); !c.mayRead() {
		return false
	}
	c.guard(func() {
		c.receive(in)
		c.drain() // replies that have arrived meanwhile are sent with the answers
		c.settleUp()
		c.flush()
	})
	if c.failed != nil || c.phase != opened || c.in.waits() || !c.mayRead() {
		select {
		case c.reader.out <- readResult{}: // run checks for work before it takes more
		default: // it is about to check
		}
	}
	return true
}
