package servicebus

import (
	"context"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// keptRefusals is the number of refused receiver links that a server remembers, and maxRefusal
// bounds the bytes of each text.
const (
	keptRefusals = 64
	maxRefusal   = 512
)

// receiverLook is a look at the receiver links of a sub-queue. Connections in the middle of a turn
// answer it at the end of the turn.
type receiverLook struct {
	of      engine.Target
	answers chan linksOf
}

type linksOf struct {
	connection uint64
	links      []engine.LinkNow
}

// Receivers returns the state that the connections have of the receiver links of a sub-queue. It
// takes the turn of each idle connection for a moment. A connection that does not end its turn
// before the context ends is listed as silent: it is reading a body, or waiting for room in the
// mailbox of a partition.
func (s *Server) Receivers(ctx context.Context, of engine.Target) (now engine.LinksNow) {
	s.init()
	s.mu.Lock()
	for i := range s.refusals {
		if r := &s.refusals[i]; r.Entity == of.Entity.ID {
			now.Refused = append(now.Refused, *r)
		}
	}
	var all []*conn
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	busy := slices.DeleteFunc(all, func(c *conn) bool {
		if !c.turn.TryLock() {
			return false
		}
		defer c.turn.Unlock()
		now.Links = c.sessions.look(now.Links, of)
		return true
	})
	k := &receiverLook{of, make(chan linksOf, len(busy))}
	asked := 0
	for _, c := range busy {
		now.Silent = append(now.Silent, c.number)
		if c.asked.CompareAndSwap(nil, k) {
			asked++
			c.outbox.poke()
		}
	}
	for ; asked > 0; asked-- {
		select {
		case said := <-k.answers:
			now.Links = append(now.Links, said.links...)
			now.Silent = slices.DeleteFunc(now.Silent, func(n uint64) bool { return n == said.connection })
		case <-ctx.Done():
			return now
		}
	}
	return now
}

// answer answers a look that arrived during a turn.
func (k *receiverLook) answer(connection uint64, t sessionTable) {
	k.answers <- linksOf{connection, t.look(nil, k.of)}
}

// look appends the receiver links of a sub-queue.
func (t sessionTable) look(list []engine.LinkNow, of engine.Target) []engine.LinkNow {
	at := map[*link]int{} // their places in the list
	for l := range t.links() {
		r := l.receiver
		if !l.detached && r != nil && r.engine != nil && r.engine.Entity.ID == of.Entity.ID && r.engine.SubQueue == of.SubQueue {
			at[l] = len(list)
			list = append(list, r.look(time.Now()))
		}
	}
	if len(at) == 0 {
		return list
	}
	for _, s := range t {
		for d := range s.unsettled.all() {
			if i, ok := at[d.link]; ok && d.link.receiver.locks() && !d.expired(d.link.c.broker.Now()) {
				addLock(&list[i], d.link, d.until)
			}
		}
	}
	return list
}

// addLock adds a lock to those of a link. A lock under a message session ends with the session.
func addLock(n *engine.LinkNow, l *link, until event.Time) {
	n.Locks++
	if l.filter == nil && (n.LockedUntil == 0 || until < n.LockedUntil) {
		n.LockedUntil = until
	}
}

// look returns the connection's current state of the link.
func (r *receiver) look(now time.Time) engine.LinkNow {
	c := r.l.c
	n := engine.LinkNow{
		Receiver: r.engine, Attaching: r.l.attaching != nil,
		Credit: max(0, r.credit.left()), Passed: max(0, int32(r.credit.granted-r.credit.assigned)), Unsent: r.unsent(),
		Unsettled: r.unsettled, Held: c.outstanding.count, MaxHeld: c.limits.Locked, Window: r.l.s.window,
		Backlog: c.out.backlog(), Blocked: c.out.blocked(now),
		NoMemory: slices.Contains(c.pump.starved, r.l), Unread: slices.Contains(c.pump.unread, r.l),
	}
	if r.locks() {
		for _, d := range r.waiting[r.next:] {
			addLock(&n, r.l, d.LockedUntil)
		}
	}
	return n
}

// blocked returns for how long the last write to the socket has been incomplete.
func (o *output) blocked(now time.Time) time.Duration {
	began := o.writer.began.Load()
	if began == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, began)))
}

// refused remembers a refused link, or one detached because of an error, if the peer would have
// received messages on it. The caller has the turn of the link's connection.
func (s *Server) refused(l *link, symbol amqp.Symbol, text string) {
	if l.at.node() {
		return
	}
	target := l.target
	if target.Entity == nil {
		target, _ = s.Broker.Resolve(l.at.path)
	}
	if target.Entity == nil {
		return // the entity does not exist
	}
	c := l.c
	r := engine.RefusedLink{At: c.now, Entity: target.Entity.ID, Condition: string(symbol), Text: cloneShort(text, maxRefusal),
		Origin: engine.Origin{Connection: c.number, RemoteAddress: c.remote, ContainerID: c.peer.container, Product: c.peer.product}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refusals) == keptRefusals {
		s.refusals = slices.Delete(s.refusals, 0, 1)
	}
	s.refusals = append(s.refusals, r)
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
