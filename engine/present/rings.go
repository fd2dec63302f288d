package present

import (
	"container/list"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// mostRings is the number of entities that have a ring: those that were active most recently.
const mostRings = 1000

// Steps of a series, and the number of points that are kept of each.
const (
	fineStep     = 20 * time.Second
	finePoints   = 180 // an hour
	coarseStep   = 10 * time.Minute
	coarsePoints = 144 // a day
	// longestSeries is how far a series reaches back.
	longestSeries = coarsePoints * coarseStep
)

// step is one resolution of a series.
type step struct {
	name   string
	length time.Duration
}

// steps are the resolutions, by their place in a ring.
var steps = [...]step{{"20s", fineStep}, {"10m", coarseStep}}

// number returns the number of the point that has an instant.
func (s *step) number(t event.Time) int64 { return int64(t) / s.length.Milliseconds() }

// at returns when a point begins.
func (s *step) at(number int64) event.Time {
	return event.Time(number * s.length.Milliseconds())
}

// point is one point of a ring: received, delivered, completed, failed and died messages.
type point [5]uint32

// ring has the newest points of an entity, or of the namespace, in each step. It takes 6.5 KB, and
// those of 1,000 entities take 6.6 MB (TestMemoryOfRings).
type ring struct {
	id     event.EntityID
	from   event.Time // nothing is known of earlier times
	active event.Time // when something happened for the last time
	newest [len(steps)]int64
	fine   [finePoints]point
	coarse [coarsePoints]point
}

// points returns the points of a step. Point n is in place n modulo the length.
func (r *ring) points(of int) []point {
	if of == 0 {
		return r.fine[:]
	}
	return r.coarse[:]
}

// add adds what happened between two samples to the points in its middle. If the samples are far
// apart, and not in one point, it is not known to which points it belongs.
func (r *ring) add(took span, new counts) {
	middle := took.from + (took.to-took.from)/2
	for i := range steps {
		if took.length() > sampleWindow && !steps[i].contains(took) {
			continue
		}
		points, n := r.points(i), steps[i].number(middle)
		size := int64(len(points))
		for at := max(r.newest[i]+1, n-size+1); at <= n; at++ {
			points[at%size] = point{}
		}
		if r.newest[i] = max(r.newest[i], n); n <= r.newest[i]-size {
			continue
		}
		for j := range points[n%size] {
			points[n%size][j] += uint32(new[j])
		}
	}
}

// contains reports whether a time is in one point.
func (s *step) contains(t span) bool { return s.number(t.from) == s.number(t.to-1) }

// at returns a point of a step.
func (r *ring) at(of int, number int64) point {
	points := r.points(of)
	if size := int64(len(points)); number <= r.newest[of] && number > r.newest[of]-size {
		return points[number%size]
	}
	return point{}
}

// rings has the rings of the entities that were active most recently.
type rings struct {
	most  int
	byID  map[event.EntityID]*list.Element
	order *list.List // of *ring, the one that was active last in front
	// newest activity of which a ring was lost, or for which there was none: an entity without a
	// ring was idle after it
	lost event.Time
}

func newRings(most int) rings {
	return rings{most: most, byID: map[event.EntityID]*list.Element{}, order: list.New()}
}

// find returns the ring of an entity; nil: it has none.
func (r *rings) find(id event.EntityID) *ring {
	if e := r.byID[id]; e != nil {
		return e.Value.(*ring)
	}
	return nil
}

// of returns the ring of an entity that is active now. The entity that was idle longest loses its
// ring to a new one; nil: all that have one are active now, too.
func (r *rings) of(id event.EntityID, now event.Time) *ring {
	e := r.byID[id]
	switch {
	case e != nil:
	case r.order.Len() < r.most:
		e = r.order.PushFront(&ring{id: id, from: r.lost})
		r.byID[id] = e
	default:
		if e = r.order.Back(); e.Value.(*ring).active == now {
			r.lost = now
			return nil
		}
		was, from := e.Value.(*ring), r.lost
		r.lost = max(r.lost, was.active)
		delete(r.byID, was.id)
		*was = ring{id: id, from: from}
		r.byID[id] = e
	}
	r.order.MoveToFront(e)
	found := e.Value.(*ring)
	found.active = now
	return found
}
