package sim

import "iter"

// crank is one piece of a writer's work that has begun a sync and not ended it: the process waits
// for the disk, and everything else goes on. The two take turns in an order that the seed decides.
type crank struct {
	turn func() (struct{}, bool)
	stop func()
}

// work lets a writer begin its next piece of work, or end the sync that goes on. It reports whether
// there was anything to do.
func (p *part) work() (did bool) {
	w := p.w
	if c := p.crank; c != nil {
		p.crank = nil
		c.turn()
		c.stop()
		return true
	}
	var c crank
	c.turn, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		w.yield = yield
		did = p.writer.Work()
	})
	if _, syncing := c.turn(); syncing {
		p.crank = &c
		w.stats.LongSyncs++
		did = true
	}
	w.yield = nil
	return did
}

// during is called while a sync goes on. One that a loop waits for by itself, at a start, is over
// at once.
func (w *world) during(string) {
	if yield := w.yield; yield != nil {
		w.yield = nil
		yield(struct{}{})
	}
}

// stopSyncs drops what was under way in a process that is gone.
func (w *world) stopSyncs() {
	for _, p := range w.parts {
		if p.crank != nil {
			w.stats.DiedInSync++
			p.crank.stop()
			p.crank = nil
		}
	}
}
