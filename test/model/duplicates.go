package model

// Entry of the duplicate history: an id that was accepted (11).
type Entry struct {
	Until int64  // it is forgotten then
	First uint64 // number it was stored under
}

// duplicate reports whether an id was accepted within the window, and as what.
func (q *Queue) duplicate(now int64, id string) (uint64, bool) {
	e, ok := q.Seen[id]
	return e.First, ok && now < e.Until && q.Settings.Window > 0
}

// twice reports whether a draft is dropped as a duplicate, now or since it was staged.
func (q *Queue) twice(now int64, d *Draft) (uint64, bool) {
	if d.dropped {
		return d.original, true
	}
	return q.duplicate(now, d.ID)
}

// remember enters an id for the window in force.
func (p *Partition) remember(now int64, q *Queue, id string, seq uint64) {
	if q.Settings.Window == 0 {
		return
	}
	before, was := q.Seen[id]
	p.changing(func() {
		if delete(q.Seen, id); was {
			q.Seen[id] = before
		}
	})
	q.Seen[id] = Entry{now + q.Settings.Window, seq}
}
