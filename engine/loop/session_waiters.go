package loop

import (
	"container/heap"
	"container/list"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// entitySessions holds the receivers of an entity that have a session, each with its own queue, and
// the receivers that wait for one.
type entitySessions struct {
	held    map[messageSession]*receiverQueue
	waiters list.List // of *receiver, in the order in which they came
	open    bool      // is in receivers.open
	look    parts     // partitions where a session may have become available
	// queues whose receivers have as many messages as may be locked under one session
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

// waitDeadlines is a heap of the receivers that wait for a session, by the time when they give up.
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

// first returns the earliest time; 0: there is none.
func (h waitDeadlines) first() event.Time {
	if len(h) == 0 {
		return 0
	}
	return h[0].until
}

// sessionsOf returns the sessions of the entity that a receiver is attached to.
func (w *receivers) sessionsOf(r *receiver) *entitySessions { return &w.entities[r.Entity.ID].sessions }

// Wait puts a receiver at the end of the list of receivers that wait for a session. Only one port,
// the last one to get here, decides when the receiver gives up. So, however short the wait, the
// receiver is not refused before each port has looked for a session (semantics.md 10.4).
func (w *receivers) Wait(r *receiver) {
	r.place, r.index = w.sessionsOf(r).waiters.PushBack(r), -1
	if last := r.link.countLook(); last {
		heap.Push(&w.deadlines, r)
	}
}

// stopWaiting removes a receiver from the list of receivers that wait for a session, if it is
// there.
func (w *receivers) stopWaiting(r *receiver) {
	if r.place == nil {
		return
	}
	w.sessionsOf(r).waiters.Remove(r.place)
	if r.place = nil; r.index >= 0 {
		heap.Remove(&w.deadlines, r.index)
	}
}

// Granted records the session that a receiver got; the token says in which slice.
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

// NextWaiter returns the first receiver that waits where a session may have become available; nil:
// none.
func (w *receivers) NextWaiter() *receiver {
	for w.open.Len() > 0 {
		if first := (*w.open.Front()).sessions.waiters.Front(); first != nil {
			return first.Value.(*receiver)
		}
		w.NoSession()
	}
	return nil
}

// NoSession says that there is no session for the receiver of NextWaiter, nor for those after it.
func (w *receivers) NoSession() {
	s := &w.open.Pop().sessions
	s.open, s.look = false, 0
}

// Overdue returns a receiver whose wait for a session has ended; nil: there is none, or NextWaiter
// comes first. While the dispatcher is halted no receiver is served, so receivers give up in time
// as well.
func (w *receivers) Overdue(now event.Time, halted bool) *receiver {
	if len(w.deadlines) == 0 || w.deadlines[0].until > now || !halted && w.sessionsOf(w.deadlines[0]).open {
		return nil
	}
	return w.deadlines[0]
}

// OpenSessions notes that a session of a slice may have become available, or never will.
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

// markSessionMessage marks the receivers that may get a message of a session which has just become
// deliverable.
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

// endSession handles the end of a session's lock. It detaches and returns the holder, unless the
// holder ended the lock itself.
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

// LockLimit notes a queue that gets nothing more until its receiver has settled some messages, if
// that is so.
func (w *receivers) LockLimit(q *receiverQueue) {
	if q.holder == nil || !q.holder.served || q.limited || !w.atLimit(q) {
		return
	}
	q.limited = true
	s := w.sessionsOf(q.holder)
	s.limited = append(s.limited, q)
}

// atLimit reports whether the session of a queue has as many locked messages as it may.
func (w *receivers) atLimit(q *receiverQueue) bool {
	return w.part.SessionLocksFull(q.slice(), q.holder.sessionID)
}

// wakeLimited marks the queues of sessions that were at their limit of locks and are now below it.
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
