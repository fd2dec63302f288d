package host

import (
	"container/heap"
	"container/list"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// sliceSessions is the part of a slice's receivers that have a session, each with a queue of its own, or wait for one.
type sliceSessions struct {
	held    map[string]*receiverQueue // by session id
	waiters list.List                 // of *receiver: first come, first served
	open    bool                      // is among waiting.open
	limited []*receiverQueue          // whose receivers have as many messages as may be locked under one session
}

// leave takes the session from the receiver that holds it.
func (s *sliceSessions) leave(r *receiver, q *receiverQueue) {
	delete(s.held, string(r.sessionID))
	if q.limited {
		q.limited = false
		s.limited = slices.DeleteFunc(s.limited, func(other *receiverQueue) bool { return other == q })
	}
}

// waitDeadlines is a heap of the receivers that wait for a session, by the time at which they give up.
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

// Wait puts a receiver behind the others that wait for a session.
func (w *waiting) Wait(r *receiver) {
	r.place = r.at.sessions.waiters.PushBack(r)
	heap.Push(&w.deadlines, r)
}

// stopWaiting takes a receiver from among those that wait for a session, if it is there.
func (w *waiting) stopWaiting(r *receiver) {
	if r.place == nil {
		return
	}
	r.at.sessions.waiters.Remove(r.place)
	r.place = nil
	heap.Remove(&w.deadlines, r.index)
}

// Granted gives a receiver the session it got.
func (w *waiting) Granted(r *receiver, id string, token event.LockToken) {
	w.stopWaiting(r)
	s := &r.at.sessions
	if s.held == nil {
		s.held = map[string]*receiverQueue{}
	}
	r.queue = &receiverQueue{slice: r.Slice, holder: r}
	s.held[id] = r.queue
	r.session, r.sessionID = token, []byte(id)
}

// NextWaiter is the receiver that comes first where a session may have become available; nil: none.
func (w *waiting) NextWaiter() *receiver {
	for w.open.len() > 0 {
		if first := (*w.open.front()).sessions.waiters.Front(); first != nil {
			return first.Value.(*receiver)
		}
		w.NoSession()
	}
	return nil
}

// NoSession says that there is none for the receiver that NextWaiter gave, nor for those behind it.
func (w *waiting) NoSession() { w.open.pop().sessions.open = false }

// Overdue is a receiver that has waited for a session for as long as it would; nil: there is none, or it comes after those that
// NextWaiter gives.
func (w *waiting) Overdue(now event.Time) *receiver {
	if len(w.deadlines) == 0 || w.deadlines[0].until > now || w.deadlines[0].at.sessions.open {
		return nil
	}
	return w.deadlines[0]
}

// OpenSessions notes that a session of a slice may have become available, or that there will be none.
func (w *waiting) OpenSessions(id event.Slice) {
	if s := w.slices[id]; s != nil {
		w.openSessions(s)
	}
}

func (w *waiting) openSessions(s *sliceReceivers) {
	if !s.sessions.open && s.sessions.waiters.Len() > 0 {
		s.sessions.open = true
		w.open.push(s)
	}
}

// sessionMessage marks whoever may get a message of a session that has just become deliverable.
func (w *waiting) sessionMessage(s *sliceReceivers, seq event.SequenceNumber) {
	if len(s.sessions.held) == 0 && s.sessions.waiters.Len() == 0 {
		return
	}
	m, ok := w.part.Index().Message(s.slice, seq)
	if !ok || !m.InSession {
		return
	}
	if q := s.sessions.held[m.SessionID]; q != nil {
		w.mark(q)
	} else {
		w.openSessions(s)
	}
}

// sessionEnded takes the end of a session's lock. Its holder is detached and returned, unless it was the one to end it.
func (w *waiting) sessionEnded(ev *event.SessionReleased) (lost *receiver) {
	s := w.slices[ev.Slice]
	if s == nil {
		return nil
	}
	w.sweeps.stored(s, w.part.Index())
	if q := s.sessions.held[string(ev.SessionID)]; q != nil {
		lost = q.holder
		w.Detach(lost)
	}
	w.openSessions(s)
	return lost
}

// LockLimit notes a queue that gets nothing more until its receiver has settled some of what it has, if that is so.
func (w *waiting) LockLimit(q *receiverQueue) {
	if q.holder == nil || q.holder.queue != q || q.limited || !w.atLimit(q) {
		return
	}
	q.limited = true
	s := &q.holder.at.sessions
	s.limited = append(s.limited, q)
}

// atLimit reports whether the session that a queue is for has as many locked messages as it may.
func (w *waiting) atLimit(q *receiverQueue) bool { return w.part.Crowded(q.slice, q.holder.sessionID) }

// settled marks the queues of sessions that were at their limit of locks and are below it again.
func (w *waiting) settled(id event.Slice) {
	s := w.slices[id]
	if s == nil || len(s.sessions.limited) == 0 {
		return
	}
	s.sessions.limited = slices.DeleteFunc(s.sessions.limited, func(q *receiverQueue) bool {
		if w.atLimit(q) {
			return false
		}
		q.limited = false
		w.mark(q)
		return true
	})
}

// waiters are all that wait for a session, in no order.
func (w *waiting) waiters() []*receiver { return slices.Clone(w.deadlines) }
