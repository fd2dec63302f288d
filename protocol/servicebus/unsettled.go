package servicebus

import (
	"slices"
	"sort"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// unsettled is a delivery the peer has to settle.
type unsettled struct {
	link   *link
	token  event.LockToken
	until  event.Time // end of the lock as it was delivered; renewals are not seen here
	header uint32     // bytes of the message beside its body
}

// waits books a delivery that the peer has to settle.
func (s *session) waits(id uint32, u unsettled) {
	if s.unsettled == nil {
		s.unsettled = make(map[uint32]unsettled)
	}
	s.unsettled[id] = u
	s.sent.add(s, id)
	u.link.receiver.unsettled++
	s.c.locked++
	if s.c.byToken != nil {
		s.c.byToken[u.token] = sentDelivery{s, id}
	}
}

// forget drops a delivery that nobody has to settle any more.
func (s *session) forget(id uint32, u *unsettled) {
	delete(s.unsettled, id)
	u.link.receiver.unsettled--
	s.c.locked--
	if s.c.byToken != nil {
		delete(s.c.byToken, u.token)
	}
}

// forgetAll drops all of them.
func (s *session) forgetAll() {
	for id, u := range s.unsettled {
		s.forget(id, &u)
	}
	s.unsettled, s.sent = nil, nil
}

// unsettledIn appends those of a delivery-id and the n behind it that wait to be settled, in order. What it costs depends on how many
// those are.
func (s *session) unsettledIn(ids []uint32, first, n uint32) []uint32 {
	o := s.sent
	if len(o) == 0 {
		return ids
	}
	base := o[0].id
	i := 0
	if from := int32(first - base); from > 0 {
		i = sort.Search(len(o), func(i int) bool { return int32(o[i].id-base) >= from })
	}
	for i = o.next(s, i); i < len(o) && o[i].id-first <= n; i = o.next(s, i+1) {
		ids = append(ids, o[i].id)
	}
	return ids
}

// sentOrder is delivery-ids in the order in which they were sent: those that wait to be settled, and some that do no more.
type sentOrder []sentID

// sentID is one of them. Of those that are settled gap says how many in a row are, from it on, as far as was seen.
type sentID struct{ id, gap uint32 }

// add appends the newest. When most of the others are settled they go, so each costs little.
func (o *sentOrder) add(s *session, id uint32) {
	if n := len(*o); n >= 64 && n > 2*len(s.unsettled) {
		*o = slices.DeleteFunc(*o, func(e sentID) bool { _, waits := s.unsettled[e.id]; return !waits })
	}
	*o = append(*o, sentID{id: id})
}

// next is the place of the first that waits to be settled, from i on. It notes the gap it went over: nobody goes over it in single
// steps again.
func (o sentOrder) next(s *session, i int) int {
	from := i
	for i < len(o) {
		if o[i].gap == 0 {
			if _, waits := s.unsettled[o[i].id]; waits {
				break
			}
			o[i].gap = 1
		}
		i += int(o[i].gap)
	}
	for from < i {
		gap := o[from].gap
		o[from].gap = uint32(i - from)
		from += int(gap)
	}
	return i
}

// sentDelivery is where a delivery is known.
type sentDelivery struct {
	s  *session
	id uint32
}

// settledElsewhere forgets deliveries of this connection's links that were settled by their tokens. Few peers settle so what they
// got over a link; only for them tokens are looked up.
func (c *conn) settledElsewhere(tokens []event.LockToken) {
	if c.locked == 0 {
		return
	}
	if c.byToken == nil {
		c.byToken = make(map[event.LockToken]sentDelivery, c.locked)
		for _, s := range c.sessions {
			for id, u := range s.unsettled {
				c.byToken[u.token] = sentDelivery{s, id}
			}
		}
	}
	for _, t := range tokens {
		at, ok := c.byToken[t]
		if !ok {
			continue
		}
		u := at.s.unsettled[at.id]
		at.s.forget(at.id, &u)
		at.s.settled.note(at.id, u.link.at.path)
		u.link.receiver.pass()
	}
}
