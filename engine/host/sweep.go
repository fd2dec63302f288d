package host

import (
	"container/list"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// sweepEvery is how often the messages of a queue are looked through at most; sweepRate is how many messages a second that
// costs at most, so that a long queue is looked through less often.
const (
	sweepEvery = time.Second
	sweepRate  = 100_000
)

// sweeps are the searches for expired messages in the queues that have active receivers: without one nothing expires
// (semantics.md 7.4).
type sweeps struct {
	list    list.List // of *sweeper, in the order in which they came
	running fifo[*sweeper]
	next    event.Time // when a pass may have to begin; 0: never
}

// sweeper looks through one main queue.
type sweeper struct {
	slice     event.Slice
	receivers int          // active ones
	after     event.Time   // no pass before
	pass      *index.Sweep // nil: none goes on
	place     *list.Element
}

// begin counts an active receiver of a main queue.
func (s *sweeps) begin(at *sliceReceivers) {
	if at.sweep == nil {
		at.sweep = &sweeper{slice: at.slice}
		at.sweep.place = s.list.PushBack(at.sweep)
		s.next = 1 // look
	}
	at.sweep.receivers++
}

// end counts one out.
func (s *sweeps) end(at *sliceReceivers) {
	w := at.sweep
	if w.receivers--; w.receivers > 0 {
		return
	}
	at.sweep = nil
	s.list.Remove(w.place)
	if w.pass != nil {
		s.running.keep(func(o *sweeper) bool { return o != w })
	}
}

// stored is called when a message became deliverable.
func (s *sweeps) stored(at *sliceReceivers, x *index.Index) {
	if w := at.sweep; w != nil && w.pass == nil { // the end of a pass looks
		s.schedule(w, x)
	}
}

// schedule sees to it that a pass begins when the first message expires.
func (s *sweeps) schedule(w *sweeper, x *index.Index) {
	at := x.Soonest(w.slice)
	if at == event.EndOfTime {
		return
	}
	if at = max(at, w.after, 1); s.next == 0 || at < s.next {
		s.next = at
	}
}

// Next begins the passes that are due and is the one to take a step of; nil: none.
func (s *sweeps) Next(now event.Time, x *index.Index) *sweeper {
	if s.next != 0 && s.next <= now {
		s.next = 0
		for e := s.list.Front(); e != nil; e = e.Next() {
			switch w := e.Value.(*sweeper); {
			case w.pass != nil:
			case x.Soonest(w.slice) <= now && w.after <= now:
				w.pass = &index.Sweep{Slice: w.slice}
				s.running.push(w)
			default:
				s.schedule(w, x)
			}
		}
	}
	if s.running.len() == 0 {
		return nil
	}
	return *s.running.front()
}

// Done ends the pass that Next gave.
func (s *sweeps) Done(now event.Time, x *index.Index) {
	w := s.running.pop()
	rest := time.Duration(x.Count(w.slice, event.Main, index.Active)) * time.Second / sweepRate
	w.pass, w.after = nil, now.Add(max(sweepEvery, rest))
	s.schedule(w, x)
}
