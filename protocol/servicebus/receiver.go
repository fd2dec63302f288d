package servicebus

import (
	"errors"
	"math"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// receiver is a link on which the peer receives messages of an entity, or answers of a $cbs or
// $management node.
type receiver struct {
	l       *link
	settled bool   // deliveries are sent settled
	replyTo string // target address, for the routing of answers (2.3)
	maxSize int    // bytes of the largest message that the peer accepts

	credit    credit
	unsettled int  // deliveries the peer has to settle
	queued    bool // in pump.ready
	room      roomWanted
	rest      []byte // unwritten bytes of the delivery that is partly written
	restAt    int
	tagged    [16]byte // tag of the delivery being written

	// deliveries of an entity
	engine  *engine.Receiver // nil for a node, and for a topic
	hosts   []engine.PartitionID
	tag     uint64
	waiting []*engine.Delivery
	next    int // of waiting
	ahead   readAhead
	// broker time of the last check of locks in this turn of the link; 0: none yet
	asOf  event.Time
	grant *engine.SessionGrant // for the message session that it holds
	// the turn of the batch after the one in which it last stepped back
	stepped uint64

	// answers of a node
	answers [][]byte
}

func newReceiver(l *link, a *amqp.Attach) *receiver {
	r := &receiver{l: l, settled: a.SenderSettleMode.Or(amqp.SenderMixed) == amqp.SenderSettled}
	r.maxSize = math.MaxInt32
	if n := a.MaxMessageSize.Or(0); n > 0 && n < math.MaxInt32 {
		r.maxSize = int(n)
	}
	r.replyTo = replyAddress(a)
	if l.at.cbs || l.at.management || nothingToReceive(l.target) {
		return r
	}
	r.engine = &engine.Receiver{Entity: l.target.Entity, SubQueue: l.target.SubQueue, Origin: l.origin, Since: l.c.broker.Now(), Sink: l.c.outbox}
	switch {
	case l.browses:
		// there is nothing to settle, so deliveries are sent settled unless the peer wants to
		// settle them
		r.engine.Mode = engine.Browse
		r.settled = a.SenderSettleMode.Or(amqp.SenderMixed) != amqp.SenderUnsettled
	case r.settled:
		r.engine.Mode = engine.ReceiveAndDelete
	}
	if l.filter != nil {
		r.engine.Session = l.filter.Request(a.Properties)
		if !r.engine.Session.Any {
			r.engine.Slice = l.target.Slice(l.target.OfSession(r.engine.Session.ID))
		}
	}
	r.engine.Away = r.away()
	r.hosts = r.engine.Hosts()
	r.tag = l.c.pendings.add(pendingEntry{kind: pendingReceiver, link: l})
	r.engine.Tag = r.tag
	return r
}

// away returns the log's partitions that do not serve, among those that hold an entity with several
// partitions.
func (r *receiver) away() (away []engine.PartitionID) {
	hosts := r.l.target.Entity.Hosts
	for _, h := range hosts {
		if len(hosts) > 1 && !r.l.c.broker.Serves(h) {
			away = append(away, h)
		}
	}
	return away
}

// lacks reports whether the receiver gets nothing from a partition that a new receiver would get
// messages from. A receiver that holds a session lacks nothing: the whole session is in one
// partition.
func (r *receiver) lacks(id engine.PartitionID) bool {
	return r.engine != nil && r.grant == nil && slices.Contains(r.engine.Away, id)
}

// start makes the link known to the engine.
func (r *receiver) start() {
	if r.engine != nil {
		r.submit(&engine.Attach{Receiver: r.engine, Noted: true}, r.tag)
	}
}

// submit sends a command of the receiver to all partitions that host slices of its entity; they
// give one answer together.
func (r *receiver) submit(cmd engine.Command, tag uint64) {
	for _, host := range r.hosts {
		r.l.c.batch.add(host, engine.Request{Command: cmd, Sink: r.l.c.outbox, Tag: tag})
	}
}

// done handles the engine's answer to an attach or a flow: a granted message session, or a refusal.
func (r *receiver) done(reply *engine.Reply) {
	switch {
	case r.l.detached:
	case r.l.attaching != nil:
		r.l.accepted(reply)
	case reply.Err != nil:
		cond, text := r.l.describe(reply.Err)
		r.l.end(cond.symbol, text)
	}
}

// ended is called when the engine no longer serves the receiver: its message session is lost, or
// its partition has stopped.
func (r *receiver) ended(err error) {
	var refusal *engine.Error
	if errors.As(err, &refusal) {
		r.l.messageSessionLost(err)
		return
	}
	cond, text := r.l.describe(err)
	r.l.end(cond.symbol, text)
}

// assigned takes a delivery of the engine. A delivery for a link that is gone never reaches the
// wire and is released.
func (r *receiver) assigned(d *engine.Delivery) {
	r.credit.assign()
	if r.l.detached {
		r.unlock(d.Token, engine.Release)
		return
	}
	r.waiting = append(r.waiting, d)
	r.makeReady()
}

// locks reports whether deliveries of the link hold locks.
func (r *receiver) locks() bool { return r.engine != nil && r.engine.Mode == engine.PeekLock }

// unlock ends a lock on behalf of a peer that cannot, with an outcome that makes the message
// available.
func (r *receiver) unlock(token event.LockToken, outcome engine.SettleOutcome) {
	if !r.locks() {
		return // receive-and-delete: the message is deleted (5.2)
	}
	at := r.l.target.OfToken(token)
	cmd := engine.Settle{
		Entity: r.engine.Entity, Slice: r.l.target.Slice(at), SubQueue: r.engine.SubQueue, Origin: r.engine.Origin,
		Token: token, Outcome: outcome,
	}
	r.l.c.batch.add(r.l.target.Host(at), engine.Request{Command: cmd.Recycled()})
}

// stepBack puts the peer's open credit after that of other links, once in each batch: the peer has
// released a message, and may no longer wait for messages (semantics.md 5.2). A message session has
// no other links.
func (r *receiver) stepBack() {
	b := &r.l.c.batch
	if r.grant != nil || r.stepped == b.turn+1 {
		return
	}
	r.stepped = b.turn + 1
	for _, host := range r.hosts {
		b.add(host, engine.Request{Command: &engine.StepBack{Receiver: r.engine}})
	}
}

// makeReady puts the link in the queue of links with something to write.
func (r *receiver) makeReady() {
	if r.queued || r.l.detached || r.l.c.phase != opened {
		return
	}
	r.queued = true
	r.l.c.pump.add(r.l)
}

// leave releases deliveries that never reached the wire. All other locks stay, unless the link
// holds a message session (4.7). If the peer still settles deliveries of the link, [session.settle]
// handles that.
func (r *receiver) leave(cause event.ReleaseCause, closed event.LinkClosed) {
	c := r.l.c
	c.outstanding.forget(r)
	for _, a := range r.answers {
		c.memory.dequeueAnswer(a)
	}
	r.dropRest()
	r.answers = nil
	r.ahead.drop()
	if r.engine == nil {
		return
	}
	var unsent []event.LockToken
	if r.locks() {
		for _, d := range r.waiting[r.next:] {
			unsent = append(unsent, d.Token)
		}
	}
	r.waiting, r.next = nil, 0
	if r.grant != nil {
		c.links.release(r.l)
		r.grant = nil
	}
	r.submit(&engine.Detach{Receiver: r.engine, Unsent: unsent, Cause: cause, Closed: closed}, c.pendings.add(pendingEntry{kind: pendingDetach, link: r.l}))
}

// forget drops the deliveries that the peer has not settled, once its link cannot come back.
// Nothing more is sent about them: an answer for a delivery of a link that is gone ends the session
// of one SDK.
func (r *receiver) forget() {
	s := r.l.s
	for d := range s.unsettled.all() {
		if r.unsettled == 0 {
			return
		}
		if d.link == r.l {
			s.silent.note(d.id)
			s.forget(d)
		}
	}
}

// empty reports whether nothing waits to be written.
func (r *receiver) empty() bool {
	return len(r.rest) == 0 && r.next == len(r.waiting) && len(r.answers) == 0
}

// unsent returns the number of the engine's deliveries that have not begun on the wire.
func (r *receiver) unsent() int { return len(r.waiting) - r.next }
