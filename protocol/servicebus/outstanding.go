package servicebus

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// outstanding counts the deliveries that the peer has to settle, of all sessions of a connection, and finds them by lock token.
type outstanding struct {
	count   int
	byToken map[event.LockToken]sentDelivery // nil until a delivery is settled by its token
	swept   time.Time                        // when expired ones were last forgotten
	short   []*receiver                      // receivers that want more than the limit left when they were last looked at, those that waited longest first
	woken   int                              // of them, how many are to be looked at again, with room for one delivery each
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
	roomMade                     // it did, and there is room for one more: it is to be looked at again
)

// free is how many deliveries more a receiver may have unsettled, of a limit of the connection. What there is for those that were woken is theirs.
func (o *outstanding) free(limit int, r *receiver) int64 {
	if r.room == roomMade {
		o.forget(r)
	}
	return max(0, int64(limit-o.count-o.woken))
}

// wants notes that a receiver wants more than there is room for: others of the connection, whose deliveries are settled, make some.
func (o *outstanding) wants(r *receiver) {
	if r.room == roomEnough {
		r.room = roomShort
		o.short = append(o.short, r)
	}
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

// expiredFor is how long after the end of its lock a delivery is remembered at least: it may have been renewed.
const expiredFor = time.Hour

// forgetExpired makes room for a peer that lets locks run out instead of settling.
func (o *outstanding) forgetExpired(in sessionTable, broker engine.Broker, now time.Time) {
	if now.Sub(o.swept) < time.Minute {
		return
	}
	o.swept = now
	before := broker.Now().Add(-expiredFor)
	for _, s := range in {
		for d := range s.unsettled.all() {
			if d.until < before && d.link.filter == nil { // a lock under a message session ends with the session
				s.forget(d)
			}
		}
	}
}

// settledByToken forgets deliveries of this connection's links that were settled by their tokens. Few peers settle in this way what they got
// over a link; tokens are indexed for those alone.
func (o *outstanding) settledByToken(in sessionTable, tokens []event.LockToken) {
	if o.count == 0 {
		return
	}
	if o.byToken == nil {
		o.byToken = make(map[event.LockToken]sentDelivery, o.count)
		for _, s := range in {
			for d := range s.unsettled.all() {
				o.byToken[d.token] = sentDelivery{s, d.id}
			}
		}
	}
	for _, t := range tokens {
		at, ok := o.byToken[t]
		if !ok {
			continue
		}
		u := at.s.forget(at.s.unsettled.find(at.id))
		at.s.settled.note(at.id, u.link.at.path)
		u.link.receiver.pass()
	}
}
