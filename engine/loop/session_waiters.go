package loop

import (
	"container/heap"
	"container/list"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// entitySessions is the part of an entity's receivers that have a session, each with a queue of its
// own, or wait for one.
type entitySessions struct {
	held    map[messageSession]*receiverQueue
	waiters list.List // of *receiver: first come, first served
	open    bool      // is among waiting.open
	look    parts     // where one may have become available
	// whose receivers have as many messages as may be locked under one session
	limited []*receiverQueue
}

// messageSession names a session of an entity.
type messageSession struct {
	partition uint8
	id        string
}

// leave takes the session from the receiver that holds it.
func (s *entitySessions) leave(r *receiver, q *receiverQueue) {
	delete(s.held, messageSession{q.slice().Partition, string(r.sessionID)})
	if q.limited {
		q.limited = false
		s.limited = slices.DeleteFunc(s.limited, func(other *receiverQueue) bool { return other == q })
	}
}

// waitDeadlines is a heap of the receivers that wait for a session, by the time at which they give
// up.
type waitDeadlines []*receiver

func (h waitDeadlines) Len() int           { return len(h) }
func (h waitDeadlines) Less(i, j int) bool { return h[i].until < h[j].until }
func (h waitDeadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *waitDeadlines) Push(x any) {
	r := x.(*receiver)
	r.index = len(*h)
	*h = append(*h, r)
}

// Pop implements [heap.Interface].
func (h *waitDeadlines) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return r
}

// first is the time of the first, 0 when there is none.
func (h waitDeadlines) first() event.Time {
	if len(h) == 0 {
		return 0
	}
	return h[0].until
}

// sessionsOf is the sessions of the entity that a receiver is attached to.
func (w *receivers) sessionsOf(r *receiver) *entitySessions { return &w.entities[r.Entity.ID].sessions }

// Wait puts a receiver behind the others that wait for a session. One port alone decides when it
// gives up, the last one to come here. So, however short the wait, nobody says that there is no
// session before each port has looked for one (semantics.md 10.4).
func (w *receivers) Wait(r *receiver) {
	r.place, r.index = w.sessionsOf(r).waiters.PushBack(r), -1
	if last := r.link.countLook(); last {
		heap.Push(&w.deadlines, r)
	}
}

// stopWaiting takes a receiver from among those that wait for a session, if it is there.
func (w *receivers) stopWaiting(r *receiver) {
	if r.place == nil {
		return
	}
	w.sessionsOf(r).waiters.Remove(r.place)
	if r.place = nil; r.index >= 0 {
		heap.Remove(&w.deadlines, r.index)
	}
}

// Granted gives a receiver the session it got; the token says in which slice that is.
func (w *receivers) Granted(r *receiver, id string, token event.LockToken) {
	w.stopWaiting(r)
	s := w.sessionsOf(r)
	if s.held == nil {
		s.held = map[messageSession]*receiverQueue{}
	}
	partition := token.Partition()
	q := &receiverQueue{entity: r.Entity.ID, local: 1 << partition, holder: r}
	s.held[messageSession{partition, id}] = q
	w.attached[r.number].queue, r.served = q, true
	r.session, r.sessionID = token, []byte(id)
}

// NextWaiter is the receiver that comes first where a session may have become available; nil: none.
func (w *receivers) NextWaiter() *receiver {
	for w.open.Len() > 0 {
		if first := (*w.open.Front()).sessions.waiters.Front(); first != nil {
			return first.Value.(*receiver)
		}
		w.NoSession()
	}
	return nil
}

// NoSession says that there is none for the receiver that NextWaiter gave, nor for those behind it.
func (w *receivers) NoSession() {
	s := &w.open.Pop().sessions
	s.open, s.look = false, 0
}

// Overdue is a receiver that has waited for a session for as long as it would; nil: there is none,
// or it comes after those that NextWaiter gives. While the dispatcher is halted nobody is served,
// so those give up in time as well.
func (w *receivers) Overdue(now event.Time, halted bool) *receiver {
	if len(w.deadlines) == 0 || w.deadlines[0].until > now || !halted && w.sessionsOf(w.deadlines[0]).open {
		return nil
	}
	return w.deadlines[0]
}

// OpenSessions notes that a session of a slice may have become available, or that there will be
// none.
func (w *receivers) OpenSessions(id event.Slice) {
	if e := w.entities[id.Entity]; e != nil {
		w.openSessions(e, id.Partition)
	}
}

func (w *receivers) openSessions(e *entityReceivers, partition uint8) {
	s := &e.sessions
	if s.waiters.Len() == 0 {
		return
	}
	if s.look |= 1 << partition; !s.open {
		s.open = true
		w.open.Push(e)
	}
}

// markSessionMessage marks whoever may get a message of a session that has just become deliverable.
func (w *receivers) markSessionMessage(e *entityReceivers, id event.Slice, seq event.SequenceNumber) {
	if len(e.sessions.held) == 0 && e.sessions.waiters.Len() == 0 {
		return
	}
	m, ok := w.part.Index().Message(id, seq)
	if !ok || !m.InSession {
		return
	}
	if q := e.sessions.held[messageSession{id.Partition, m.SessionID}]; q != nil {
		w.wake(q, id.Partition)
	} else {
		w.openSessions(e, id.Partition)
	}
}

// endSession takes the end of a session's lock. Its holder is detached and returned, unless it
// was the one to end it.
func (w *receivers) endSession(ev *event.SessionReleased) (lost *receiver) {
	e := w.entities[ev.Slice.Entity]
	if e == nil {
		return nil
	}
	w.sweeps.scheduleStored(e, ev.Slice, w.part.Index())
	if q := e.sessions.held[messageSession{ev.Slice.Partition, string(ev.SessionID)}]; q != nil {
		lost = q.holder
		w.Detach(lost)
	}
	w.openSessions(e, ev.Slice.Partition)
	return lost
}

// LockLimit notes a queue that gets nothing more until its receiver has settled some of what it
// has, if that is so.
func (w *receivers) LockLimit(q *receiverQueue) {
	if q.holder == nil || !q.holder.served || q.limited || !w.atLimit(q) {
		return
	}
	q.limited = true
	s := w.sessionsOf(q.holder)
	s.limited = append(s.limited, q)
}

// atLimit reports whether the session that a queue is for has as many locked messages as it may.
func (w *receivers) atLimit(q *receiverQueue) bool {
	return w.part.SessionLocksFull(q.slice(), q.holder.sessionID)
}

// wakeLimited marks the queues of sessions that were at their limit of locks and are below it
// again.
func (w *receivers) wakeLimited(id event.Slice) {
	e := w.entities[id.Entity]
	if e == nil || len(e.sessions.limited) == 0 {
		return
	}
	e.sessions.limited = slices.DeleteFunc(e.sessions.limited, func(q *receiverQueue) bool {
		if w.atLimit(q) {
			return false
		}
		q.limited = false
		w.wake(q, q.slice().Partition)
		return true
	})
}
