package listen

import "time"

// pace allows most of something at once, and as many more in every second (reliability.md 8, accepts). Its owner locks it.
type pace struct {
	most int
	paid time.Time // when what was taken so far no longer counts
}

// take counts one and returns how long it is until the next one may be taken.
func (p *pace) take(now time.Time) time.Duration {
	every := time.Second / time.Duration(p.most)
	if p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(every)
	return p.paid.Sub(now) - time.Duration(p.most-1)*every
}
