package host

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// hall is where the receivers of one session queue are: those that hold a session, each with a line of its own, and those
// that wait for one.
type hall struct {
	slice    event.Slice
	held     map[string]*line // by session id
	waits    []*wait          // first come, first served
	attached int
	marked   bool    // is among the loop's halls in which a session may have become available
	crowded  []*line // whose receivers have as many messages as may be locked under one session
}

// wait is a receiver that waits for the next available session.
type wait struct {
	receiver *receiver
	sink     engine.Sink
	tag      uint64
	until    event.Time
	over     bool
}

// waits orders all that wait by the time at which they give up.
type waits []*wait

func (h waits) Len() int           { return len(h) }
func (h waits) Less(i, j int) bool { return h[i].until < h[j].until }
func (h waits) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waits) Push(x any)        { *h = append(*h, x.(*wait)) }
func (h *waits) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}

// attachSession gives a receiver its session, now or when one becomes available (semantics.md 8.3).
func (l *Loop) attachSession(now event.Time, r *receiver, sink engine.Sink, tag uint64) {
	if err := l.admit(r); err != nil {
		l.tell(r, held{sink: sink, reply: engine.Reply{Tag: tag, Err: err}}, l.solid)
		return
	}
	h := l.halls[r.Slice]
	if h == nil {
		h = &hall{slice: r.Slice, held: map[string]*line{}}
		l.halls[r.Slice] = h
	}
	h.attached++
	w := &wait{receiver: r, sink: sink, tag: tag, until: now.Add(r.Session.Wait)}
	r.wait = w
	l.attached[r.Receiver] = r
	var answered, again bool
	if !r.Session.Any || len(h.waits) == 0 {
		answered, again = l.acceptFor(now, h, w)
	}
	if !answered {
		h.waits = append(h.waits, w)
		heap.Push(&l.waits, w)
	}
	if again {
		l.markHall(h)
	}
}

// acceptFor tries to give a session to one that wants it, and reports whether it is answered, with a session or a refusal.
// When so many expired messages are in the way that others should have their turn first, it asks to be called again.
func (l *Loop) acceptFor(now event.Time, h *hall, w *wait) (answered, again bool) {
	r := w.receiver
	cmd := engine.AcceptSession(r.Receiver, l.tokens().In(r.Slice.Partition))
	out := l.part.Decide(now, cmd)
	for ; out.Again; out = l.part.Decide(now, cmd) {
		if l.chore(now, out); r.Session.Any && l.enough() {
			return false, true
		}
	}
	l.write(now, out)
	grant := out.Reply.SessionGrant()
	switch {
	case out.Reply.Err != nil:
		l.leaveHall(h, r)
	case grant == nil:
		return false, false
	default:
		ln := &line{key: lineKey{r.Slice, r.SubQueue}, attached: 1, holder: r}
		h.held[grant.ID] = ln
		r.line, r.session, r.sessionID, r.wait = ln, grant.Token, []byte(grant.ID), nil
	}
	w.over = true
	shows := l.solid
	if grant != nil {
		shows = l.showsSession(r, grant.ID)
	}
	out.Reply.Tag = w.tag
	l.tell(r, held{sink: w.sink, reply: out.Reply}, shows)
	return true, false
}

// showsSession is the newest of what the grant of a session shows: that nobody has its lock any more and, when it was not asked for by its
// name, that there is a message.
func (l *Loop) showsSession(r *receiver, session string) event.LSN {
	at := l.recent.freed(r.Slice, session)
	if m, ok := l.part.Index().FirstOf(r.Slice, []byte(session)); ok && r.Session.Any {
		at = max(at, l.recent.newest(r.Slice, m.Sequence, &m.Body))
	}
	return at
}

// leaveHall counts a receiver out.
func (l *Loop) leaveHall(h *hall, r *receiver) {
	r.wait = nil
	l.dismiss(r)
	if h.attached--; h.attached == 0 {
		delete(l.halls, h.slice)
	}
}

// giveUp ends a wait for a session without one.
func (l *Loop) giveUp(w *wait) {
	w.over = true
	h := l.halls[w.receiver.Slice]
	for i := range h.waits {
		if h.waits[i] == w {
			h.waits = append(h.waits[:i], h.waits[i+1:]...)
			break
		}
	}
	l.leaveHall(h, w.receiver)
	l.tell(w.receiver, held{sink: w.sink, reply: engine.Reply{Tag: w.tag,
		Err: engine.Refuse(engine.Timeout, "The operation did not complete within the allotted timeout of %s: no session became available.", hms(w.receiver.Session.Wait))}}, l.solid)
}

// endWaits gives up on sessions that did not become available in time.
func (l *Loop) endWaits(now event.Time) {
	for len(l.waits) > 0 {
		w := l.waits[0]
		if !w.over && (w.until > now || l.halls[w.receiver.Slice].marked) {
			return // its time is not over, or it has not been looked at yet
		}
		heap.Pop(&l.waits)
		if !w.over {
			l.giveUp(w)
		}
	}
}

// nextWait is when the first wait is over, 0 when there is none.
func (l *Loop) nextWait() event.Time {
	for len(l.waits) > 0 {
		if w := l.waits[0]; !w.over {
			return w.until
		}
		heap.Pop(&l.waits)
	}
	return 0
}

// markHall notes that a session may have become available.
func (l *Loop) markHall(h *hall) {
	if !h.marked && len(h.waits) > 0 {
		h.marked = true
		l.openHalls.push(h)
	}
}

// acceptWaiting gives sessions to those that wait, where some may have become available. It reports whether it came to an
// end; else there is more than one turn should do.
func (l *Loop) acceptWaiting(now event.Time) bool {
	for l.openHalls.len() > 0 && !l.full() {
		h := l.openHalls.front()
		for len(h.waits) > 0 {
			answered, again := l.acceptFor(now, h, h.waits[0])
			if again {
				return false
			}
			if !answered {
				break
			}
			h.waits[0] = nil
			h.waits = h.waits[1:]
		}
		h.marked = false
		l.openHalls.pop()
	}
	return true
}

// arrived marks whoever may get a message of a session queue that has just become deliverable.
func (l *Loop) arrived(h *hall, id event.Slice, seq event.SequenceNumber) {
	m, ok := l.part.Index().Message(id, seq)
	if !ok || !m.InSession {
		return
	}
	if ln := h.held[m.SessionID]; ln != nil {
		l.markLine(ln)
	} else {
		l.markHall(h)
	}
}

// sessionEnded is called when the lock of a session has ended. Its holder hears of it, unless it was the one to end it.
func (l *Loop) sessionEnded(h *hall, ev *event.SessionReleased) {
	if ln := h.held[string(ev.SessionID)]; ln != nil {
		r := ln.holder
		l.leaveSession(h, r)
		l.tell(r, held{sink: r.Sink, reply: engine.Reply{Kind: engine.ReplyEnded, Tag: r.Tag, Err: engine.SessionLost()}}, l.solid)
	}
	if l.halls[h.slice] != nil {
		l.markHall(h)
	}
}

// crowd notes a line that gets nothing more until its receiver has settled some of what it has.
func (l *Loop) crowd(ln *line) {
	if ln.holder == nil || ln.holder.line != ln || !l.crowdedOut(ln.holder) {
		return
	}
	if h := l.halls[ln.key.slice]; !slices.Contains(h.crowded, ln) {
		h.crowded = append(h.crowded, ln)
	}
}

// crowdedOut tells whether the session that a receiver holds has as many locked messages as it may.
func (l *Loop) crowdedOut(r *receiver) bool { return l.part.Crowded(r.Slice, r.sessionID) }

// settled marks the lines of a session queue that were full and have room again.
func (l *Loop) settled(id event.Slice) {
	h := l.halls[id]
	if h == nil || len(h.crowded) == 0 {
		return
	}
	h.crowded = slices.DeleteFunc(h.crowded, func(ln *line) bool {
		if l.crowdedOut(ln.holder) {
			return false
		}
		l.markLine(ln)
		return true
	})
}

// leaveSession takes a receiver's session away, or its wait for one.
func (l *Loop) leaveSession(h *hall, r *receiver) {
	ln := r.line
	ln.set(r, 0)
	h.crowded = slices.DeleteFunc(h.crowded, func(o *line) bool { return o == ln })
	delete(h.held, string(r.sessionID))
	l.rests(r)
	r.line = nil
	l.leaveHall(h, r)
}

// detachSession forgets a receiver that holds a session or waits for one.
func (l *Loop) detachSession(now event.Time, r *receiver, cause event.ReleaseCause) {
	if r.wait != nil {
		l.giveUp(r.wait)
		return
	}
	l.leaveSession(l.halls[r.Slice], r)
	if cause == 0 {
		cause = event.ReleaseClosed
	}
	l.write(now, l.part.Decide(now, engine.ReleaseSession(r.Slice, r.session, cause)))
}

// hms is a duration as the service writes it, 00:01:00.
func hms(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
