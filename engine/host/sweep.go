package host

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// sweepEvery is how often the messages of a queue are looked through at most; sweepRate is how many messages a second that
// costs at most, so that a long queue is looked through less often.
const (
	sweepEvery = time.Second
	sweepRate  = 100_000
)

// sweepers looks for expired messages in the queues that have active receivers: without one nothing expires
// (semantics.md 7.4).
type sweepers struct {
	by      map[event.Slice]*sweeper
	list    []*sweeper // in the order in which they came
	running []*sweeper
	next    event.Time // when a pass may have to begin; 0: never
}

type sweeper struct {
	slice     event.Slice
	receivers int
	after     event.Time // no pass before
	pass      *index.Sweep
}

func newSweepers() sweepers { return sweepers{by: map[event.Slice]*sweeper{}} }

// begin counts an active receiver of a main queue.
func (s *sweepers) begin(id event.Slice) {
	w := s.by[id]
	if w == nil {
		w = &sweeper{slice: id}
		s.by[id] = w
		s.list = append(s.list, w)
		s.next = 1 // look
	}
	w.receivers++
}

// end counts one out.
func (s *sweepers) end(id event.Slice) {
	w := s.by[id]
	if w.receivers--; w.receivers > 0 {
		return
	}
	delete(s.by, id)
	s.list = slices.DeleteFunc(s.list, func(o *sweeper) bool { return o == w })
	s.running = slices.DeleteFunc(s.running, func(o *sweeper) bool { return o == w })
}

// stored is called when a message became deliverable.
func (s *sweepers) stored(id event.Slice, x *index.Index) {
	if len(s.by) == 0 {
		return
	}
	w := s.by[id]
	if w == nil || w.pass != nil { // the end of a pass looks
		return
	}
	if at := x.Soonest(id); at != event.EndOfTime {
		w.soon(s, at)
	}
}

func (w *sweeper) soon(s *sweepers, at event.Time) {
	if at = max(at, w.after, 1); s.next == 0 || at < s.next {
		s.next = at
	}
}

// sweep begins the passes that are due and takes one step of one of them.
func (l *Loop) sweep(now event.Time) {
	s := &l.sweepers
	if s.next != 0 && s.next <= now {
		s.next = 0
		for _, w := range s.list {
			switch at := l.part.Index().Soonest(w.slice); {
			case w.pass != nil || at == event.EndOfTime:
			case at <= now && w.after <= now:
				w.pass = &index.Sweep{Slice: w.slice}
				s.running = append(s.running, w)
			default:
				w.soon(s, at)
			}
		}
	}
	if len(s.running) == 0 || l.enough() {
		return
	}
	w := s.running[0]
	out := l.part.Decide(now, engine.Sweep(w.pass))
	if l.chore(now, out); out.Again {
		return
	}
	x := l.part.Index()
	rest := time.Duration(x.Count(w.slice, event.Main, index.Active)) * time.Second / sweepRate
	w.pass, w.after = nil, now.Add(max(sweepEvery, rest))
	s.running = slices.Delete(s.running, 0, 1)
	if at := x.Soonest(w.slice); at != event.EndOfTime {
		w.soon(s, at)
	}
}
