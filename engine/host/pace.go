package host

import "time"

// maxPatience is the longest a frame waits for company, whatever the disk's pace.
const maxPatience = 2 * time.Millisecond

// pacer keeps frames of equal size going (docs/decisions/0003). When a large frame is durable its replies go out, and the few requests
// that came meanwhile would make a small frame that keeps the disk busy while all the others queue up behind it: large and small frames
// would take turns, and disk and clients with them. So a frame much smaller than the one before waits a moment for the answers to those
// replies. A lone sender never waits: its frames are all of the same size.
//
// A group that nobody waits for, such as one of settlements that want no answer, goes at most every maxPatience: each sync costs the
// processors of those who do wait.
//
// The zero value never waits. A simulation uses that: what a pacer does depends on the real clock.
type pacer struct {
	on        bool
	last      int           // records in the frame that became durable last
	sealed    time.Time     // when it was handed over
	patience  time.Duration // half of what it took
	committed time.Time
}

func (p *pacer) seal(records int) {
	if p.on {
		p.last, p.sealed = records, time.Now()
	}
}

func (p *pacer) land() {
	if p.on {
		p.committed = time.Now()
		p.patience = min(p.committed.Sub(p.sealed)/2, maxPatience)
	}
}

// wait is how long a group of that many records should still wait; 0: it should go. awaited: a reply waits for it.
func (p *pacer) wait(records int, awaited bool) time.Duration {
	switch {
	case !p.on:
		return 0
	case !awaited:
		return max(0, maxPatience-time.Since(p.committed))
	case records >= p.last/2:
		return 0
	}
	return max(0, p.patience-time.Since(p.committed))
}
