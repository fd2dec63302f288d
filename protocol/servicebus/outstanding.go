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
	byToken map[event.LockToken]sentDelivery // nil until the peer names a delivery by its token
	swept   time.Time                        // when expired deliveries were last forgotten
	// receivers that wanted more than the limit left at their last check, those that have waited
	// longest first
	short []*receiver
	// number of receivers that will be checked again, with room for one delivery each
	woken int
}

// sentDelivery is the place of a delivery.
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
	if len(o.short) > 0 { // one, because there is room for one more
		r := o.short[0]
		o.short = o.short[1:]
		r.room = roomMade
		o.woken++
		r.makeReady()
	}
}

// roomWanted says whether a receiver wants more deliveries than a connection may have unsettled.
type roomWanted uint8

const (
	roomEnough roomWanted = iota // it does not
	roomShort                    // it wants more, and is in outstanding.short
	// it wanted more, and there is room for one more: it will be checked again
	roomMade
)

// free returns how many more deliveries a receiver may have unsettled within a limit of the
// connection. The room of woken receivers is reserved for them.
func (o *outstanding) free(limit int, r *receiver) int64 {
	if r.room == roomMade {
		o.forget(r)
	}
	return max(0, int64(limit-o.count-o.woken))
}

// wants notes that a receiver wants more than there is room for. Settlements of the connection's
// other deliveries make room.
func (o *outstanding) wants(r *receiver) {
	if r.room == roomEnough {
		r.room = roomShort
		o.short = append(o.short, r)
		r.l.c.timers.by(r.l.c, o.next())
	}
}

// next returns when expired deliveries should be forgotten, zero if no receiver waits for that.
func (o *outstanding) next() (at time.Time) {
	if len(o.short) == 0 {
		return at
	}
	return o.swept.Add(sweepEvery)
}

// forget is called when a receiver is checked again, or is gone.
func (o *outstanding) forget(r *receiver) {
	switch r.room {
	case roomShort:
		o.short = slices.DeleteFunc(o.short, func(s *receiver) bool { return s == r })
	case roomMade:
		o.woken--
	}
	r.room = roomEnough
}

// sweepEvery is the minimum interval of searches for expired deliveries.
const sweepEvery = time.Minute

// forgetExpired makes room for a peer that lets locks expire instead of settling.
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

// renewed notes that the lock of a delivery on this connection's links was extended.
func (o *outstanding) renewed(in sessionTable, token event.LockToken, until event.Time) {
	if at, ok := o.find(in, token); ok {
		at.s.unsettled.find(at.id).until = until
	}
}

// find returns the place of the delivery with a lock. Few peers name tokens of deliveries that they
// got over a link, so tokens are indexed only for those peers.
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
