package host

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxReceivers is how many receivers a queue, or all subscriptions of a topic together, may have: on its sub-queues, with
// sessions and without, those that wait for one too (semantics.md 16.3).
const maxReceivers = 5000

// admit counts a receiver, or refuses it.
func (l *Loop) admit(r *receiver) *engine.Error {
	if l.receivers[r.counted()] >= l.maxReceivers {
		return engine.Refuse(engine.QuotaExceeded, "The maximum of %d concurrent receivers of '%s' is reached.", l.maxReceivers, r.Entity.TopicPath())
	}
	l.receivers[r.counted()]++
	return nil
}

// dismiss forgets a receiver and counts it out.
func (l *Loop) dismiss(r *receiver) {
	delete(l.attached, r.Receiver)
	id := r.counted()
	if l.receivers[id]--; l.receivers[id] == 0 {
		delete(l.receivers, id)
	}
}

// counted is the entity whose receivers are counted together.
func (r *receiver) counted() event.EntityID {
	if r.Entity.Topic != 0 {
		return r.Entity.Topic
	}
	return r.Entity.ID
}

// attach makes a receiver known and says so. One that wants a session is told when it has it.
func (l *Loop) attach(now event.Time, link *engine.Receiver, req *engine.Request) {
	r := &receiver{Receiver: link}
	if r.Session != nil {
		l.attachSession(now, r, req.Sink, req.Tag)
	} else if err := l.lineUp(r); err != nil {
		l.answer(req, engine.Reply{Err: err})
	} else {
		l.attached[link] = r
		l.tell(r, held{sink: req.Sink, reply: engine.Reply{Tag: req.Tag}}, 0)
	}
}

// lineUp makes a receiver known to its line.
func (l *Loop) lineUp(r *receiver) *engine.Error {
	if _, err := l.part.Entity(r.Slice); err != nil {
		return err // deleted since the receiver looked it up
	}
	if err := l.admit(r); err != nil {
		return err
	}
	if r.Mode == engine.Browse {
		ln := &line{key: lineKey{r.Slice, r.SubQueue}, attached: 1}
		l.browsers[r.Slice] = append(l.browsers[r.Slice], ln)
		r.line = ln
		return nil
	}
	lines := l.lines[r.Slice]
	if lines == nil {
		lines = new([3]*line)
		l.lines[r.Slice] = lines
	}
	ln := lines[r.SubQueue]
	if ln == nil {
		ln = &line{key: lineKey{r.Slice, r.SubQueue}}
		lines[r.SubQueue] = ln
	}
	ln.attached++
	r.line = ln
	return nil
}

// flow sets a receiver's credit; with drain what is deliverable goes out now and the rest of the credit is given up.
func (l *Loop) flow(now event.Time, cmd *engine.Flow) {
	r := l.attached[cmd.Receiver]
	if r == nil || r.line == nil {
		return // it has lost its session, or waits for one
	}
	ln := r.line
	credit := max(0, int32(cmd.Limit-r.assigned))
	ln.set(r, credit)
	l.pulls(r, credit)
	r.draining, r.drainTo = cmd.Drain, cmd.Limit
	if !cmd.Drain {
		l.markLine(ln)
		return
	}
	ln.draining = append(ln.draining, r)
	if l.serve(now, ln) {
		l.endDrains(ln)
	} else {
		l.markLine(ln) // there is more than one turn should do
	}
}

// endDrains gives up the credit of receivers that are draining: their line has nothing more to deliver.
func (l *Loop) endDrains(ln *line) {
	for _, r := range ln.draining {
		if !r.draining || r.line != ln {
			continue // it thought better of it, or is gone
		}
		ln.set(r, 0)
		to := r.drainTo
		r.assigned, r.limit, r.draining = to, to, false
		l.tell(r, held{sink: r.Sink, reply: engine.Reply{Kind: engine.ReplyDrained, Tag: r.Tag}}, l.solid)
	}
	ln.draining = ln.draining[:0]
}

// pulls counts a receiver as active from its first credit on: one that is attached and never asks for anything, as an SDK
// does before it peeks, makes nothing expire (semantics.md 7.4).
func (l *Loop) pulls(r *receiver, credit int32) {
	if credit > 0 && !r.pulls && r.SubQueue == event.Main && r.Mode != engine.Browse {
		r.pulls = true
		l.sweepers.begin(r.Slice)
	}
}

// rests counts an active receiver out.
func (l *Loop) rests(r *receiver) {
	if r.pulls {
		r.pulls = false
		l.sweepers.end(r.Slice)
	}
}

// detach forgets a receiver and takes back what never reached the wire.
func (l *Loop) detach(now event.Time, cmd *engine.Detach) {
	r := l.attached[cmd.Receiver]
	if r == nil {
		return // it has lost its session
	}
	if r.Session != nil {
		l.detachSession(now, r, cmd.Cause)
		return
	}
	ln := r.line
	ln.set(r, 0)
	r.line = nil
	l.rests(r)
	l.dismiss(r)
	if r.Mode == engine.Browse {
		l.leaveBrowsers(ln)
		return
	}
	if ln.attached--; ln.attached == 0 {
		lines := l.lines[ln.key.slice]
		lines[ln.key.subQueue] = nil
		if *lines == [3]*line{} {
			delete(l.lines, ln.key.slice)
		}
	}
	for _, t := range cmd.Unsent {
		l.putBack(now, r.Receiver, t)
	}
}

// mark notes that a message has become deliverable, or may have, for those who wait for it.
func (l *Loop) mark(id event.Slice, seq event.SequenceNumber) {
	l.sweepers.stored(id, l.part.Index())
	if h := l.halls[id]; h != nil {
		l.arrived(h, id, seq)
	}
	l.markBrowsers(id)
	if len(l.lines) == 0 {
		return
	}
	if lines := l.lines[id]; lines != nil {
		for _, ln := range lines {
			if ln != nil {
				l.markLine(ln)
			}
		}
	}
}

func (l *Loop) markLine(ln *line) {
	if !ln.marked && len(ln.grants) > 0 {
		ln.marked = true
		l.marked.push(ln)
	}
}

// serveMarked delivers to the lines that may have both credit and messages, until the frame is large enough. Lines that
// need more than one turn stay marked, behind the others.
func (l *Loop) serveMarked(now event.Time) {
	var later []*line
	for l.marked.len() > 0 && !l.full() {
		ln := l.marked.front()
		done := l.serve(now, ln)
		if !done && l.full() {
			break
		}
		l.marked.pop()
		if !done {
			later = append(later, ln)
			continue
		}
		ln.marked = false
		l.endDrains(ln)
	}
	for _, ln := range later {
		l.marked.push(ln)
	}
}

// serveAll serves receivers and gives sessions to those that wait, until there is nothing more to do or no room.
func (l *Loop) serveAll(now event.Time) {
	for {
		l.serveMarked(now)
		if l.openHalls.len() == 0 || l.full() || !l.acceptWaiting(now) {
			return
		}
	}
}

// serve delivers to one line until credit or messages run out, and reports whether they did; it stops at a full frame, and
// when many expired messages are in the way.
func (l *Loop) serve(now event.Time, ln *line) bool {
	used := 0
	defer func() {
		if used > 0 {
			ln.trim()
		}
	}()
	for i := 0; i < len(ln.grants); {
		g := &ln.grants[i]
		if g.credit == 0 {
			i++
			continue
		}
		if l.handOn(); l.full() {
			return false
		}
		r := g.receiver
		l.take = engine.Receive{Slice: r.Slice, SubQueue: r.SubQueue, Mode: r.Mode, Origin: r.Origin,
			HasSession: r.Session != nil, Session: r.session, SessionID: r.sessionID, From: r.next}
		switch r.Mode {
		case engine.PeekLock:
			l.take.Token = l.tokens()
		case engine.Browse:
			if l.shown++; l.shown > maxShown {
				return false
			}
		}
		out := l.part.Decide(now, &l.take)
		if out.Again {
			if l.chore(now, out); l.enough() {
				return false
			}
			continue
		}
		l.write(now, out)
		out.Reply.Tag = r.Tag
		d := out.Reply.Delivery()
		if d == nil {
			l.crowd(ln)
			return true
		}
		g.credit--
		used++
		r.assigned++
		r.next = d.Sequence + 1
		shows := l.solid // receive-and-delete shows that the message is gone
		if r.Mode == engine.PeekLock {
			shows = l.recent.newest(r.Slice, d.Sequence, &d.Body)
			if r.Session != nil { // in a session, that nothing comes before it (P19)
				shows = max(shows, l.recent.cleared(r.Slice))
			}
		}
		l.tell(r, held{sink: r.Sink, reply: out.Reply, receiver: r}, shows)
	}
	return true
}
