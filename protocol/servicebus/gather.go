package servicebus

import (
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
	"github.com/ledgerbus/ledgerbus/protocol/message"
)

// A request about an entity, and not about one message, is sent to the partitions of the entity one
// after the other, in the order of their numbers (docs/decisions/0051). Partitions that do not
// serve are left out, as long as one does.

// away reports whether a request was refused because its partition does not accept requests now. A
// refusal because the connection has no memory says nothing about the partition.
func away(err error) bool {
	refusal := (*engine.Error)(nil)
	return errors.As(err, &refusal) && refusal.Code == engine.Busy && refusal != errNoMemory
}

// partitionWalk is a request on its way through the partitions of an entity.
type partitionWalk struct {
	last   uint8 // the last partition to ask
	served bool  // a partition has answered
}

// over reports whether a partition is the last one to ask.
func (g *partitionWalk) over(partition uint8) bool { return partition >= g.last }

// peekWalk is a peek on its way through the partitions, in the order of the sequence numbers. So a
// client that continues after the last message it has seen gets every message once.
type peekWalk struct {
	partitionWalk
	cmd   engine.Peek // for the current partition
	view  message.View
	size  int  // bytes of the answer, if it has more than one message
	room  int  // of the peer's link
	full  bool // the last partition has more than fits
	found []engine.Delivery
}

func (p *peekWalk) ask(req *request) {
	cmd := p.cmd // for this partition only: the engine may change it
	req.onFailed = p.failed
	req.ask(p.cmd.Slice.Partition, &cmd, p.answered)
}

// answered takes the messages of one partition.
func (p *peekWalk) answered(req *request, r *engine.Reply) {
	p.served = true
	shown := r.Messages()
	p.full = r.More
	if len(p.found) > 0 && len(shown) > 0 && shown[0].Stored() > int64(p.cmd.MaxBytes) {
		// the first message of the whole answer fits in any case, but not the first of each
		// partition
		shown, p.full = nil, true
	}
	p.found = append(p.found, shown...)
	p.cmd.Count -= len(shown)
	for i := range shown {
		p.cmd.MaxBytes -= int(shown[i].Stored())
	}
	p.goOn(req)
}

// failed leaves out a partition that does not serve.
func (p *peekWalk) failed(req *request, err error) bool {
	if !away(err) || p.over(p.cmd.Slice.Partition) && !p.served {
		return false
	}
	p.goOn(req)
	return true
}

// goOn asks the next partition, or answers. A partition that has more than it returned is the last
// one: the peer's cursor, last + 1, would skip the rest.
func (p *peekWalk) goOn(req *request) {
	if !p.full && p.cmd.Count > 0 && p.cmd.MaxBytes > 0 && !p.over(p.cmd.Slice.Partition) {
		p.cmd.Slice.Partition++
		p.cmd.From = 0
		p.ask(req)
		return
	}
	c := req.l.c
	room := p.room - answerRoom
	if !c.memory.reserve(min(p.size, room)) {
		room = smallAnswer
	}
	messages := c.stored.list(req.l.target, p.found, p.view, room)
	switch {
	case len(p.found) == 0:
		req.nothing()
	case len(messages) == 0: // an empty answer would say that there are no more
		req.refuse(503, amqp.CondServerBusy, unreadable)
	default:
		req.succeed(amqp.Map{{Key: "messages", Value: messages}})
	}
}

// sessionListWalk is an enumeration of sessions on its way through the partitions.
type sessionListWalk struct {
	partitionWalk
	cmd  engine.ListSessions // for the current partition
	skip int                 // number that the client asked to skip
	ids  []string
}

func (l *sessionListWalk) ask(req *request) {
	cmd := l.cmd
	req.onFailed = l.failed
	req.ask(l.cmd.Slice.Partition, &cmd, l.answered)
}

// answered takes the sessions of one partition.
func (l *sessionListWalk) answered(req *request, r *engine.Reply) {
	l.served = true
	found := r.SessionIDs()
	l.ids = slices.Concat(l.ids, found.IDs)
	l.cmd.Skip, l.cmd.Top = found.Left, l.cmd.Top-len(found.IDs)
	l.goOn(req)
}

// failed leaves out a partition that does not serve.
func (l *sessionListWalk) failed(req *request, err error) bool {
	if !away(err) || l.over(l.cmd.Slice.Partition) && !l.served {
		return false
	}
	l.goOn(req)
	return true
}

// goOn asks the next partition, or answers.
func (l *sessionListWalk) goOn(req *request) {
	if l.cmd.Top > 0 && !l.over(l.cmd.Slice.Partition) {
		l.cmd.Slice.Partition++
		l.ask(req)
		return
	}
	if len(l.ids) == 0 {
		req.nothing()
		return
	}
	ids := amqp.Array{Elem: amqp.CodeStr8}
	for _, id := range l.ids {
		ids.Values = append(ids.Values, id)
	}
	req.succeed(amqp.Map{{Key: "skip", Value: int32(min(int64(l.skip)+int64(len(l.ids)), 1<<31-1))}, {Key: "sessions-ids", Value: ids}})
}

// share is the part of a request's items that is in one partition.
type share[T any] struct {
	partition uint8
	of        []T
}

// byPartition groups the items of a request by partition, in the order in which the request has
// them.
func byPartition[T any](all []T, of func(T) uint8) (shares []share[T]) {
	for _, one := range all {
		at := slices.IndexFunc(shares, func(s share[T]) bool { return s.partition == of(one) })
		if at < 0 {
			at, shares = len(shares), append(shares, share[T]{partition: of(one)})
		}
		shares[at].of = append(shares[at].of, one)
	}
	return shares
}

// cancelWalk is a request to cancel scheduled messages on its way through the partitions. If the
// messages are in several partitions, each is first asked whether it could cancel its own, so that
// a refused request cancels nothing. Between the two steps a message can become active, or a
// partition stop serving. Then the messages of the partitions before it stay cancelled.
type cancelWalk struct {
	cmd   engine.CancelScheduled
	parts []share[event.SequenceNumber]
	next  int
}

func (p *cancelWalk) ask(req *request) {
	cmd, part := p.cmd, p.parts[p.next]
	cmd.Slice, cmd.Sequences = req.l.target.Slice(part.partition), part.of
	req.ask(part.partition, &cmd, p.answered)
}

func (p *cancelWalk) answered(req *request, _ *engine.Reply) {
	switch p.next++; {
	case p.next < len(p.parts):
		p.ask(req)
	case p.cmd.Try:
		p.cmd.Try, p.next = false, 0
		p.ask(req)
	default:
		req.succeed(nil)
	}
}

// renewWalk is a request to renew locks on its way through the partitions. If a partition refuses,
// the locks in those before it have been renewed, which is harmless.
type renewWalk struct {
	cmd    engine.Renew
	tokens []event.LockToken
	parts  []share[event.LockToken]
	next   int
	until  map[event.LockToken]event.Time
}

func (p *renewWalk) ask(req *request) {
	cmd, part := p.cmd, p.parts[p.next]
	cmd.Slice, cmd.Tokens = req.l.target.Slice(part.partition), part.of
	req.ask(part.partition, &cmd, p.answered)
}

func (p *renewWalk) answered(req *request, r *engine.Reply) {
	for i, at := range r.Times() {
		token := p.parts[p.next].of[i]
		p.until[token] = at
		req.l.c.outstanding.renewed(req.l.c.sessions, token, at)
	}
	if p.next++; p.next < len(p.parts) {
		p.ask(req)
		return
	}
	expirations := amqp.Array{Elem: amqp.CodeTimestamp}
	for _, t := range p.tokens {
		expirations.Values = append(expirations.Values, amqp.Timestamp(p.until[t]))
	}
	req.succeed(amqp.Map{{Key: "expirations", Value: expirations}})
}

// inOnePartition refuses a request in a transaction whose tokens or numbers are of several
// partitions: a transaction is in one partition.
func inOnePartition[T event.LockToken | event.SequenceNumber](req *request, all []T, of func(T) uint8) bool {
	for _, one := range all[1:] {
		if of(one) != of(all[0]) {
			req.refuse(400, amqp.CondNotAllowed, "The messages of one request must be in one partition of the entity.")
			return false
		}
	}
	return true
}
