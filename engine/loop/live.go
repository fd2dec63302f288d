package loop

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
)

// Look returns the command that asks for the receivers of a sub-queue. Its answer, [LookAnswer],
// leaves at once: what it tells is in no log.
func Look(of engine.Target) engine.Command { return &lookCommand{of: of} }

type lookCommand struct {
	engine.Internal
	of engine.Target
}

// LookAnswer is the answer to [Look].
type LookAnswer struct {
	engine.Internal
	Late int // late requests of all connections
	// receivers of the entity that count towards the limit, and the limit
	Attached, MaxAttached int
	Ports                 []engine.PortNow // receivers of the sub-queue
}

// tell returns what the loop knows about the receivers of the sub-queue.
func (k *lookCommand) tell(l *Loop) engine.Reply {
	w := &l.receivers
	counted := k.of.Entity.Topic
	if counted == 0 {
		counted = k.of.Entity.ID
	}
	said := LookAnswer{Late: l.late.count, Attached: w.counts[counted], MaxAttached: w.limit}
	unwritten := map[*receiver]int{} // deliveries that wait for the log
	for i := range l.replies.grants {
		if h := &l.replies.grants[i]; h.receiver != nil && h.reply.Kind == engine.ReplyDelivery {
			unwritten[h.receiver]++
		}
	}
	places := map[*receiverQueue]map[*receiver]int{}
	for _, a := range w.attached {
		r, q := a.receiver, a.queue
		if r.Entity.ID != k.of.Entity.ID || r.SubQueue != k.of.SubQueue {
			continue
		}
		p := engine.PortNow{Receiver: r.Receiver, Credit: r.credit(), Queued: r.queued, Unwritten: unwritten[r]}
		if first := l.late.of[r.Sink]; first != nil {
			p.Late = len(first.requests)
		}
		if q != nil {
			if places[q] == nil {
				places[q] = q.places()
			}
			p.Before = places[q][r]
			if q.holder != nil {
				p.HasSession, p.Session, p.SessionFull = true, string(r.sessionID), w.atLimit(q)
				held, _ := w.part.Index().Session(q.slice(), r.sessionID)
				p.SessionUntil = held.Until
			}
		}
		said.Ports = append(said.Ports, p)
	}
	return engine.Reply{Answer: said}
}

// places returns, for each receiver with credit in the queue, how many receivers' credit comes
// before its own.
func (q *receiverQueue) places() map[*receiver]int {
	places := map[*receiver]int{}
	for _, g := range q.grants.All() {
		if _, known := places[g.receiver]; !known {
			places[g.receiver] = len(places)
		}
	}
	return places
}

// Backlog returns how many requests wait for the loop, how many may, and how long its turn has
// lasted; 0: it sleeps. It waits for nothing, so it works for a loop that does not answer.
func (l *Loop) Backlog() (mail, most int, turn time.Duration) {
	return l.mail.length(), maxMail, l.turn.duration()
}

// length returns how many requests the loop has not taken.
func (m *mailbox) length() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mail)
}
