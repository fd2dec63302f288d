package servicebus

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// outstanding counts the deliveries that the peer has to settle, of all sessions of a connection,
// and finds them by lock token.
type outstanding struct {
	count   int
	byToken map[event.LockToken]sentDelivery // nil until a delivery is named by its token
	swept   time.Time                        // when expired ones were last forgotten
	// receivers that want more than the limit left when they were last looked at, those that waited
	// longest first
	short []*receiver
	// of them, how many are to be looked at again, with room for one delivery each
	woken int
}

// sentDelivery is where a delivery is known.
type sentDelivery struct {
	s  *session
	id uint32
}

func (o *outstanding) add(token event.LockToken, at sentDelivery) {
	o.count++
	if o.byToken != nil {
		o.byToken[token] = at
	}
}

func (o *outstanding) remove(token event.LockToken) {
	o.count--
	if o.byToken != nil {
		delete(o.byToken, token)
	}
	if len(o.short) > 0 { // one, for there is room for one more
		r := o.short[0]
		o.short = o.short[1:]
		r.room = roomMade
		o.woken++
		r.makeReady()
	}
}

// roomWanted says whether a receiver wants more than a connection may have unsettled.
type roomWanted uint8

const (
	roomEnough roomWanted = iota // it does not
	roomShort                    // it does, and is in outstanding.short
	// it did, and there is room for one more: it is to be looked at again
	roomMade
)

// free is how many deliveries more a receiver may have unsettled, of a limit of the connection.
// What there is for those that were woken is theirs.
func (o *outstanding) free(limit int, r *receiver) int64 {
	if r.room == roomMade {
		o.forget(r)
	}
	return max(0, int64(limit-o.count-o.woken))
}

// wants notes that a receiver wants more than there is room for: others of the connection, whose
// deliveries are settled, make some.
func (o *outstanding) wants(r *receiver) {
	if r.room == roomEnough {
		r.room = roomShort
		o.short = append(o.short, r)
		r.l.c.timers.by(r.l.c, o.next())
	}
}

// next is when expired deliveries are to be forgotten, zero when nothing waits for that.
func (o *outstanding) next() (at time.Time) {
	if len(o.short) == 0 {
		return at
	}
	return o.swept.Add(sweepEvery)
}

// forget is called when a receiver is looked at again, or is gone.
func (o *outstanding) forget(r *receiver) {
	switch r.room {
	case roomShort:
		o.short = slices.DeleteFunc(o.short, func(s *receiver) bool { return s == r })
	case roomMade:
		o.woken--
	}
	r.room = roomEnough
}

// sweepEvery is how often expired deliveries are looked for at most.
const sweepEvery = time.Minute

// forgetExpired makes room for a peer that lets locks run out instead of settling.
func (o *outstanding) forgetExpired(in sessionTable, broker engine.Broker, now time.Time) {
	if now.Sub(o.swept) < sweepEvery {
		return
	}
	o.swept = now
	at := broker.Now()
	for _, s := range in {
		for d := range s.unsettled.all() {
			if d.expired(at) {
				s.forget(d)
			}
		}
	}
}

// renewed notes that the lock of a delivery of this connection's links ends later.
func (o *outstanding) renewed(in sessionTable, token event.LockToken, until event.Time) {
	if at, ok := o.find(in, token); ok {
		at.s.unsettled.find(at.id).until = until
	}
}

// find is where the delivery with a lock is known. Few peers name tokens of what they got over a
// link; tokens are indexed for those alone.
func (o *outstanding) find(in sessionTable, token event.LockToken) (at sentDelivery, ok bool) {
	if o.count == 0 {
		return at, false
	}
	if o.byToken == nil {
		o.byToken = make(map[event.LockToken]sentDelivery, o.count)
		for _, s := range in {
			for d := range s.unsettled.all() {
				o.byToken[d.token] = sentDelivery{s, d.id}
			}
		}
	}
	at, ok = o.byToken[token]
	return at, ok
}

// settledByToken forgets deliveries of this connection's links that were settled by their tokens.
func (o *outstanding) settledByToken(in sessionTable, tokens []event.LockToken) {
	for _, t := range tokens {
		if at, ok := o.find(in, t); ok {
			at.s.drop(at.s.unsettled.find(at.id))
		}
	}
}
