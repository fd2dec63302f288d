package model

// Clock is the newest decision that a log knows of about a clock that was far off, and by how much
// all such decisions together moved its times, ms.
type Clock struct {
	Number int
	Shift  int64
}

// SetClock is such a decision (reliability.md 1.4): every time that the partition has moves by that
// much, and records go on from the time to. The caller moves what it keeps when also is called;
// that is called with the opposite when the record is lost.
func (p *Partition) SetClock(number int, to, by int64, also func(by int64)) {
	p.record(to, true)
	was := p.Clock
	p.changing(func() {
		p.Clock = was
		p.move(-by)
		also(-by)
	})
	p.Clock, p.LastAt = Clock{number, was.Shift + by}, to
	p.move(by)
	also(by)
}

// Moved is a time moved by that much; none stays none.
func Moved(t, by int64) int64 {
	if t == 0 {
		return 0
	}
	return t + by
}

func (p *Partition) move(by int64) {
	for _, q := range p.Queues {
		for _, m := range q.Live {
			for _, t := range []*int64{&m.EnqueuedAt, &m.ExpiresAt, &m.For, &m.Until} {
				*t = Moved(*t, by)
			}
			if m.Draft != nil {
				d := *m.Draft
				d.For = Moved(d.For, by)
				m.Draft = &d
			}
		}
		for _, s := range q.Sessions {
			s.Until, s.SetAt = Moved(s.Until, by), Moved(s.SetAt, by)
		}
		for id, e := range q.Seen {
			e.Until += by
			q.Seen[id] = e
		}
	}
}
