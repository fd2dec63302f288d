package loop

import (
	"maps"
	"sync/atomic"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What was given to a receiver without a lock has no row any more, and its body is read when there
// is room for it on the wire, which may be much later. What a reply points to may be settled, or
// may expire, before its bodies are read. Until then history keeps them (docs/decisions/0050,
// 0065).

// unreadBody is a body that a port has given to a receiver that takes no locks, or only looks.
type unreadBody struct {
	partition uint8  // of the entity
	number    uint64 // of the delivery, from 1 on, among those from that partition
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

// unreadBodies are the bodies that receivers have been given and not read yet.
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

// unreadBodies is the bodies that replies point to.
type unreadBodies struct {
	of    map[unreadReply][]event.Blob
	limit int // how many there may be before those that were read are looked for
}

// unreadReply is a request: one sender may ask several things before it reads.
type unreadReply struct {
	over *atomic.Bool // the bodies are read
	tag  uint64
}

// note has the bodies of a reply kept.
func (u *unreadBodies) note(r unreadReply, bodies []event.Blob) {
	if u.of == nil {
		u.of = map[unreadReply][]event.Blob{}
	}
	if u.of[r] = bodies; len(u.of) > u.limit {
		u.tidy()
		u.limit = 16 + 2*len(u.of)
	}
}

// tidy lets go of what was read.
func (u *unreadBodies) tidy() {
	maps.DeleteFunc(u.of, func(r unreadReply, _ []event.Blob) bool { return r.over.Load() })
}

// keepBodies notes the bodies that a reply to a request points to. Of a request that is carried out
// in parts the reply of each part has all that was found.
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

// bodiesInUse are the bodies that are still to be read of what receivers were given and of what
// replies point to.
func bodiesInUse(l *Loop) []event.Blob {
	list := l.receivers.unreadBodies()
	l.replies.unread.tidy()
	for _, bodies := range l.replies.unread.of {
		list = append(list, bodies...)
	}
	return list
}
