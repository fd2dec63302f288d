package loop

import (
	"maps"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A message that was given to a receiver without a lock no longer has a row. Its body is read when
// there is room for it on the wire, which may be much later. A message that a reply points to may
// be settled, or may expire, before its body is read. Until then history keeps these bodies
// (docs/decisions/0050, 0065).

// unreadBody is a body that a port has given to a receiver that takes no locks, or browses.
type unreadBody struct {
	partition uint8  // of the entity
	number    uint64 // number of the delivery, from 1 on, among those from that partition
	body      event.Blob
}

// noteUnread notes a delivery without a lock.
func (r *receiver) noteUnread(partition uint8, d *engine.Delivery) {
	if r.Mode == engine.PeekLock {
		return
	}
	if r.numbers == nil {
		r.numbers = new([event.MaxEntityPartitions]uint64)
	}
	r.numbers[partition]++
	n := r.numbers[partition]
	for r.unread.Len() > 0 && r.isRead(r.unread.Front()) {
		r.unread.Pop()
	}
	if d.Body.Size > 0 {
		r.unread.Push(unreadBody{partition, n, d.Body})
	}
	for _, b := range d.Changes {
		r.unread.Push(unreadBody{partition, n, b})
	}
}

func (r *receiver) isRead(g *unreadBody) bool { return g.number <= r.Read[g.partition].Load() }

// unreadBodies returns the bodies that receivers have been given and not read yet.
func (w *receivers) unreadBodies() (list []event.Blob) {
	for i := range w.attached {
		r := w.attached[i].receiver
		unread := r.unread.All()
		for i := range unread {
			if g := &unread[i]; !r.isRead(g) {
				list = append(list, g.body)
			}
		}
	}
	return list
}

// unreadBodies holds the bodies that replies point to.
type unreadBodies struct {
	of    map[unreadReply][]event.Blob
	limit int // number of replies from which read ones are dropped
}

// unreadReply names a request: one sender may have several open at a time.
type unreadReply struct {
	over *atomic.Bool // true when the bodies are read
	tag  uint64
}

// note keeps the bodies of a reply.
func (u *unreadBodies) note(r unreadReply, bodies []event.Blob) {
	if u.of == nil {
		u.of = map[unreadReply][]event.Blob{}
	}
	if u.of[r] = bodies; len(u.of) > u.limit {
		u.tidy()
		u.limit = 16 + 2*len(u.of)
	}
}

// tidy drops bodies that were read.
func (u *unreadBodies) tidy() {
	maps.DeleteFunc(u.of, func(r unreadReply, _ []event.Blob) bool { return r.over.Load() })
}

// keepBodies keeps the bodies that a reply to a request points to. If the request is carried out in
// parts, the reply of each part has everything found so far.
func (p *replies) keepBodies(req *engine.Request, reply *engine.Reply) {
	if req.Read == nil || reply.Answer == nil {
		return
	}
	var bodies []event.Blob
	note := func(b event.Blob) {
		if b.Size > 0 {
			bodies = append(bodies, b)
		}
	}
	messages := reply.Messages()
	for i := range messages {
		note(messages[i].Body)
		for _, b := range messages[i].Changes {
			note(b)
		}
	}
	if state := reply.SessionState(); state != nil {
		note(*state)
	}
	if len(bodies) == 0 {
		return
	}
	p.unread.note(unreadReply{req.Read, req.Tag}, bodies)
}

// bodiesInUse returns the bodies that are still to be read, of deliveries and of replies.
func bodiesInUse(l *Loop) []event.Blob {
	list := l.receivers.unreadBodies()
	l.replies.unread.tidy()
	for _, bodies := range l.replies.unread.of {
		list = append(list, bodies...)
	}
	return list
}
