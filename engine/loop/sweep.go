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

// sweepEvery is the least time between two passes over the messages of a queue. sweepRate bounds
// the average number of messages visited in a second, so a long queue is searched less often.
const (
	sweepEvery = time.Second
	sweepRate  = 100_000
)

// sweeps holds the searches for expired messages in queues with active receivers: without an active
// receiver no message expires (semantics.md 7.4).
type sweeps struct {
	list    list.List // of *sweeper, in the order of their creation
	running fifo.Queue[*sweeper]
	next    event.Time // when a pass may have to begin; 0: never
}

// sweeper searches one main queue.
type sweeper struct {
	slice     event.Slice
	receivers int            // active ones
	after     event.Time     // no pass begins before
	pass      engine.Command // rest of the current pass; nil: there is none
	place     *list.Element
}

// begin adds an active receiver of main queues.
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

// end removes one.
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

// sweeper returns the sweeper of a slice's main queue; nil: there is none.
func (e *entityReceivers) sweeper(id event.Slice) *sweeper {
	for _, w := range e.sweepers {
		if w.slice == id {
			return w
		}
	}
	return nil
}

// scheduleStored schedules a pass after a message of a slice became deliverable.
func (s *sweeps) scheduleStored(e *entityReceivers, id event.Slice, x *index.Index) {
	if w := e.sweeper(id); w != nil && w.pass == nil { // the end of a pass schedules the next
		s.schedule(w, x)
	}
}

// schedule makes a pass begin when the first message expires.
func (s *sweeps) schedule(w *sweeper, x *index.Index) {
	at := x.Soonest(w.slice)
	if at == event.EndOfTime {
		return
	}
	if at = max(at, w.after, 1); s.next == 0 || at < s.next {
		s.next = at
	}
}

// Next begins the passes that are due and returns the sweeper to take a step of; nil: none.
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

// Done ends the pass that Next returned.
func (s *sweeps) Done(now event.Time, x *index.Index) {
	w := s.running.Pop()
	rest := time.Duration(x.Count(w.slice, event.Main, index.Active)) * time.Second / sweepRate
	w.pass, w.after = nil, now.Add(max(sweepEvery, rest))
	s.schedule(w, x)
}
