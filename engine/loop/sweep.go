package loop

import (
	"container/list"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/fifo"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// sweepEvery is how often the messages of a queue are looked through at most; sweepRate is how many
// messages a second that costs at most, so that a long queue is looked through less often.
const (
	sweepEvery = time.Second
	sweepRate  = 100_000
)

// sweeps are the searches for expired messages in the queues that have active receivers: without
// one nothing expires (semantics.md 7.4).
type sweeps struct {
	list    list.List // of *sweeper, in the order in which they came
	running fifo.Queue[*sweeper]
	next    event.Time // when a pass may have to begin; 0: never
}

// sweeper looks through one main queue.
type sweeper struct {
	slice     event.Slice
	receivers int            // active ones
	after     event.Time     // no pass before
	pass      engine.Command // what is left of one; nil: none goes on
	place     *list.Element
}

// begin counts an active receiver of main queues.
func (s *sweeps) begin(e *entityReceivers, in parts) {
	for partition := range in.all() {
		id := event.Slice{Entity: e.entity, Partition: partition}
		w := e.sweeper(id)
		if w == nil {
			w = &sweeper{slice: id}
			e.sweepers = append(e.sweepers, w)
			w.place = s.list.PushBack(w)
			s.next = 1 // look
		}
		w.receivers++
	}
}

// end counts one out.
func (s *sweeps) end(e *entityReceivers, in parts) {
	for partition := range in.all() {
		w := e.sweeper(event.Slice{Entity: e.entity, Partition: partition})
		if w.receivers--; w.receivers > 0 {
			continue
		}
		e.sweepers = slices.DeleteFunc(e.sweepers, func(o *sweeper) bool { return o == w })
		s.list.Remove(w.place)
		if w.pass != nil {
			s.running.Keep(func(o *sweeper) bool { return o != w })
		}
	}
}

// sweeper is what looks through the main queue of a slice; nil: nothing does.
func (e *entityReceivers) sweeper(id event.Slice) *sweeper {
	for _, w := range e.sweepers {
		if w.slice == id {
			return w
		}
	}
	return nil
}

// scheduleStored is called when a message of a slice became deliverable.
func (s *sweeps) scheduleStored(e *entityReceivers, id event.Slice, x *index.Index) {
	if w := e.sweeper(id); w != nil && w.pass == nil { // the end of a pass looks
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
				w.pass = engine.Sweep(w.slice)
				s.running.Push(w)
			default:
				s.schedule(w, x)
			}
		}
	}
	if s.running.Len() == 0 {
		return nil
	}
	return *s.running.Front()
}

// Done ends the pass that Next gave.
func (s *sweeps) Done(now event.Time, x *index.Index) {
	w := s.running.Pop()
	rest := time.Duration(x.Count(w.slice, event.Main, index.Active)) * time.Second / sweepRate
	w.pass, w.after = nil, now.Add(max(sweepEvery, rest))
	s.schedule(w, x)
}
