package loop

import (
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxShown bounds the messages shown to browsing receivers in one turn: browsing writes nothing, so
// no full frame ends it.
const maxShown = 1024

// dispatcher serves waiting receivers. For each receiver that [receivers] names, it makes the
// partition deliver messages, grant sessions and end expired messages, and it tells [receivers] the
// result.
type dispatcher struct {
	// set once in New
	part      *engine.Partition
	tokens    func() event.LockToken
	receivers *receivers
	recorder  *recorder
	links     *linkFacts
	frames    *frames
	replies   *replies

	// owned by the loop
	halted   bool           // the disk hangs: no receiver is served
	shown    int            // deliveries to browsing receivers in this turn
	yielding int            // queues that wait for ports in other loops, in this turn
	take     engine.Receive // scratch of serve
}

// turn does the dispatcher's part of the loop's turn.
func (d *dispatcher) turn(now event.Time) {
	if d.halted {
		d.endWaits(now)
		return
	}
	d.acceptWaiting(now)
	d.endWaits(now)
	d.sweep(now)
	d.serveAll(now)
}

// attach registers a receiver and answers it. A receiver that wants a session is answered when it
// gets one (semantics.md 8.3).
func (d *dispatcher) attach(now event.Time, link *engine.Receiver, noted bool, req *engine.Request) {
	r := &receiver{Receiver: link, noted: noted, asked: address{req.Sink, req.Tag}}
	if r.Session != nil {
		d.attachSession(now, r)
		return
	}
	// deleted since the receiver looked it up
	_, err := d.part.Entity(event.Slice{Entity: r.Entity.ID})
	if err == nil {
		err = d.receivers.Attach(r)
	}
	if err != nil {
		if linkOf(link).claimAnswer() {
			d.replies.answer(req, engine.Reply{Err: err})
		}
		return
	}
	d.replies.answerAttach(r)
	d.links.recordAttached(now, r)
}

// flow sets a receiver's credit. With drain, deliverable messages go out now and the rest of the
// credit is given up.
func (d *dispatcher) flow(now event.Time, cmd *engine.Flow) {
	r := d.receivers.receiver(cmd.Receiver)
	if r == nil || !r.served {
		return // it has lost its session, or waits for one, or another port has it
	}
	q := d.receivers.queueOf(r)
	if d.receivers.Flow(r, cmd.Limit, cmd.Drain); !cmd.Drain {
		return
	}
	// without credit there is nothing to wait for
	if waits := d.halted && q.grants.Len() > 0; !waits && d.serve(now, q) {
		d.endDrains(q)
	} else {
		d.receivers.mark(q) // there is more to do than fits in one turn
	}
}

// endDrains answers the draining receivers of a queue that has nothing more to deliver.
func (d *dispatcher) endDrains(q *receiverQueue) {
	for _, r := range q.TakeDrained() {
		d.replies.tellDrained(r)
	}
}

// detach forgets a receiver and returns deliveries that never reached the wire.
func (d *dispatcher) detach(now event.Time, cmd *engine.Detach) {
	r := d.receivers.receiver(cmd.Receiver)
	if r == nil {
		return // it has lost its session
	}
	r.link.pause()
	r.link.credit.close()
	if r.place != nil {
		d.giveUp(r)
	}
	if d.receivers.receiver(cmd.Receiver) == nil {
		return
	}
	holds := r.served
	d.receivers.Detach(r)
	switch {
	case r.Session != nil && holds:
		d.releaseSession(now, r, cmd.Cause)
	case r.Session == nil && r.Mode != engine.Browse:
		for _, t := range cmd.Unsent {
			if !r.link.shared() || r.local.has(t.Partition()) {
				d.releaseLock(now, r.Receiver, t)
			}
		}
	}
}

// serveAll serves receivers and grants sessions to waiting ones, until there is nothing more to do
// or no room.
func (d *dispatcher) serveAll(now event.Time) {
	if d.halted {
		return
	}
	for {
		d.serveReady(now)
		if d.receivers.NextWaiter() == nil || d.frames.full() || !d.acceptWaiting(now) {
			return
		}
	}
}

// serveReady delivers to the queues that may have both credit and messages, until the frame is
// large enough. Queues that need more than one turn come after the others.
func (d *dispatcher) serveReady(now event.Time) {
	for q := d.receivers.Next(); q != nil && !d.frames.full(); q = d.receivers.Next() {
		all := d.serve(now, q)
		if !all && d.frames.full() {
			break
		}
		if d.receivers.Served(all); all {
			d.endDrains(q)
		}
	}
	d.receivers.Resume()
}

// serve delivers to one queue until credit or messages run out, and reports whether they did. It
// stops early at a full frame, after many expired messages, and if the remaining credit belongs to
// other ports first.
func (d *dispatcher) serve(now event.Time, q *receiverQueue) bool {
	q.Look()
	yielded := 0
	for r := q.Next(); r != nil; r = q.Next() {
		partition, any := q.Turn()
		if !any {
			return true
		}
		if q.mustYield() {
			if yielded++; yielded >= q.grants.Len() {
				d.yielding++
				return false // until the other ports have taken the credit left to them
			}
			continue
		}
		if d.recorder.commitLarge(); d.frames.full() {
			return false
		}
		slice := event.Slice{Entity: q.entity, Partition: partition}
		d.take = engine.Receive{Slice: slice, SubQueue: r.SubQueue, Mode: r.Mode, Origin: r.Origin,
			HasSession: r.Session != nil, Session: r.session, SessionID: r.sessionID, From: r.browseFrom(partition)}
		switch r.Mode {
		case engine.PeekLock:
			d.take.Token = d.tokens().In(partition)
		case engine.Browse:
			if d.shown++; d.shown > maxShown {
				return false
			}
		}
		out := d.part.Decide(now, &d.take)
		if out.Again {
			if d.recorder.background(now, out); d.frames.spent() {
				return false
			}
			continue
		}
		message := out.Reply.Delivery()
		if message != nil && !q.Assign(message.Sequence) {
			continue // another port has used the credit: nothing was decided
		}
		d.recorder.write(now, out)
		if message == nil {
			d.receivers.LockLimit(q)
			q.MarkEmpty(partition)
			continue
		}
		r.noteUnread(partition, message)
		d.replies.deliver(r, slice, out.Reply)
	}
	return true
}

// returnUnsent returns deliveries whose receiver is gone to their queue, without counting them as
// attempts.
func (d *dispatcher) returnUnsent(returned []unsentDelivery) {
	if len(returned) == 0 {
		return
	}
	now := d.recorder.now()
	for _, u := range returned {
		if u.receiver.Mode == engine.PeekLock {
			d.releaseLock(now, u.receiver, u.token)
		}
	}
	d.serveAll(now)
}

// releaseLock ends the lock of a delivery that no client has seen.
func (d *dispatcher) releaseLock(now event.Time, r *engine.Receiver, token event.LockToken) {
	slice := event.Slice{Entity: r.Entity.ID, Partition: engine.Target{Entity: r.Entity}.OfToken(token)}
	d.recorder.write(now, d.part.Decide(now, &engine.Settle{Entity: r.Entity, Slice: slice, SubQueue: r.SubQueue, Origin: r.Origin,
		Token: token, Outcome: engine.Release}))
}

// attachSession grants a receiver its session, now or when one becomes available.
func (d *dispatcher) attachSession(now event.Time, r *receiver) {
	r.until = now.Add(r.Session.Wait)
	if err := d.receivers.Attach(r); err != nil {
		d.refuseSession(r, err)
		return
	}
	if r.local == 0 {
		return // it is only counted here
	}
	var answered, again bool
	if !r.Session.Any || d.receivers.sessionsOf(r).waiters.Len() == 0 {
		answered, again = d.accept(now, r, r.local)
	}
	if !answered {
		d.receivers.Wait(r)
	}
	if again {
		for partition := range r.local.all() {
			d.receivers.OpenSessions(event.Slice{Entity: r.Entity.ID, Partition: partition})
		}
	}
}

// refuseSession refuses a receiver that wants a session. If another port has granted it one, the
// receiver loses that.
func (d *dispatcher) refuseSession(r *receiver, err error) {
	if r.link.claimAnswer() {
		d.replies.refuseReceiver(r, err)
	} else {
		d.replies.tellEnded(r, err)
	}
}

// accept tries to grant a receiver a session of some slices, and reports whether the receiver is
// answered, with a session or a refusal. If it meets many expired messages, others should have
// their turn first: then it returns again, to be called again.
func (d *dispatcher) accept(now event.Time, r *receiver, in parts) (answered, again bool) {
	if d.halted {
		return false, true
	}
	for partition := range in.all() {
		if r.link.isAnswered() {
			break // another port has granted it a session
		}
		if answered, again = d.acceptIn(now, r, partition); answered || again {
			return answered, again
		}
	}
	if answered = r.link.isAnswered(); answered {
		d.receivers.stopWaiting(r)
	}
	return answered, false
}

// acceptIn is accept for one slice. If another port was faster, the partition's decision has no
// effect.
func (d *dispatcher) acceptIn(now event.Time, r *receiver, partition uint8) (answered, again bool) {
	cmd := engine.AcceptSession(event.Slice{Entity: r.Entity.ID, Partition: partition}, r.Receiver, d.tokens().In(partition))
	out := d.part.Decide(now, cmd)
	for ; out.Again; out = d.part.Decide(now, cmd) {
		if d.recorder.background(now, out); r.Session.Any && d.frames.spent() {
			return false, true
		}
	}
	grant := out.Reply.SessionGrant()
	if (grant != nil || out.Reply.Err != nil) && !r.link.claimAnswer() {
		return false, false
	}
	d.recorder.write(now, out)
	switch {
	case out.Reply.Err != nil:
		d.receivers.Detach(r)
		d.replies.refuseReceiver(r, out.Reply.Err)
	case grant == nil:
		return false, false
	default:
		d.receivers.Granted(r, grant.ID, grant.Token)
		d.replies.grantSession(r, grant.ID, out.Reply, d.part.Index())
		d.links.recordAttached(now, r)
	}
	return true, false
}

// acceptWaiting grants sessions to waiting receivers where some may have become available. It
// reports whether it finished; if not, there is more to do than fits in one turn.
func (d *dispatcher) acceptWaiting(now event.Time) bool {
	for r := d.receivers.NextWaiter(); r != nil && !d.frames.full(); r = d.receivers.NextWaiter() {
		answered, again := d.accept(now, r, d.receivers.sessionsOf(r).look&r.local)
		if again {
			return false
		}
		if !answered {
			d.receivers.NoSession()
		}
	}
	return true
}

// endWaits gives up waits for sessions that did not become available in time.
func (d *dispatcher) endWaits(now event.Time) {
	for r := d.receivers.Overdue(now, d.halted); r != nil; r = d.receivers.Overdue(now, d.halted) {
		d.giveUp(r)
	}
}

// giveUp ends a wait for a session without one, unless another port has one for the receiver.
func (d *dispatcher) giveUp(r *receiver) {
	if !r.link.claimAnswer() {
		d.receivers.stopWaiting(r)
		return
	}
	d.receivers.Detach(r)
	d.replies.refuseReceiver(r, engine.Refuse(engine.Timeout,
		"The operation did not complete within the allotted timeout of %s: no session became available.", serviceDuration(r.Session.Wait)))
}

// releaseSession ends the lock of the session that a receiver held.
func (d *dispatcher) releaseSession(now event.Time, r *receiver, cause event.ReleaseCause) {
	if cause == 0 {
		cause = event.ReleaseClosed
	}
	d.recorder.write(now, d.part.Decide(now, engine.ReleaseSession(event.Slice{Entity: r.Entity.ID, Partition: r.session.Partition()}, r.session, cause)))
}

// sweep takes one step of a search for expired messages.
func (d *dispatcher) sweep(now event.Time) {
	w := d.receivers.sweeps.Next(now, d.part.Index())
	if w == nil || d.frames.spent() {
		return
	}
	out := d.part.Decide(now, w.pass)
	if d.recorder.background(now, out); out.Again {
		w.pass = out.Rest
	} else {
		d.receivers.sweeps.Done(now, d.part.Index())
	}
}

// serviceDuration formats a duration as the service does, 00:01:00.
func serviceDuration(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
