package servicebus

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// sender is a link on which the peer sends to an entity, to $cbs, to a $management node or to a
// coordinator.
type sender struct {
	l       *link
	maxSize int
	credit  grantedCredit
	noted   bool // the log has its attach

	declared map[event.TransactionID]*transaction // declared on a coordinator, and not discharged

	// the delivery with missing frames
	joining  bool
	skipping bool // it is over the limit, or there is no memory for it: the rest of it is dropped
	starved  bool // there was no memory for it
	delivery incomingDelivery
	joined   *chunk
	size     int
}

// incomingDelivery holds the fields of a delivery's first frame.
type incomingDelivery struct {
	id      uint32
	format  uint32
	tag     string // as much of it as is allowed; only if more frames follow
	settled bool
	resumed bool // from another attach of the link
	part    part // of a transaction
}

// maxDeliveryTag bounds the bytes of a delivery-tag (AMQP 2.8.7).
const maxDeliveryTag = 32

func newSender(l *link) *sender {
	s := &sender{l: l, maxSize: l.maxMessageSize()}
	s.credit.most = l.c.limits.SenderCredit
	if l.at.cbs || l.at.coordinator {
		s.credit.most = l.c.limits.SenderCreditLogin
	}
	return s
}

// grant tops up the credit if necessary.
func (s *sender) grant() {
	if !s.l.detached && s.credit.topUp() {
		s.sendFlow()
	}
}

func (s *sender) sendFlow() {
	s.l.s.writeFlow(&amqp.Flow{
		Handle: amqp.Some(s.l.handle), DeliveryCount: amqp.Some(s.credit.count), LinkCredit: amqp.Some(s.credit.left),
		Available: amqp.Some(uint32(0)),
	})
}

// begin takes the first frame of a delivery. It returns false if that ends the link or the session.
func (s *sender) begin(t *amqp.Transfer) bool {
	c, id := s.l.c, t.DeliveryID.Value
	switch {
	case !t.DeliveryID.Set:
		s.l.s.end(amqp.CondInvalidField, "The first transfer of a delivery has no delivery-id.")
		return false
	case s.l.s.unsettledHas(id):
		s.l.s.end(amqp.CondInvalidField, fmt.Sprintf("The delivery-id %d is that of another delivery, which is not settled.", id))
		return false
	case !s.credit.spend():
		s.l.end(amqp.CondTransferLimit, "A message was sent without credit.")
		return false
	}
	s.delivery = incomingDelivery{id: id, format: t.MessageFormat.Or(0), settled: t.Settled.Or(false), resumed: t.Resume}
	if t.More {
		s.delivery.tag = clipTag(t.DeliveryTag)
	}
	if !t.Resume {
		s.delivery.part = c.transactions.partOf(t.State)
	}
	return true
}

// goOn takes a later frame of a delivery. It returns false if the frame contradicts the first one,
// which ends the link (AMQP 2.7.5).
func (s *sender) goOn(t *amqp.Transfer) bool {
	d, field := &s.delivery, ""
	switch {
	case t.DeliveryID.Set && t.DeliveryID.Value != d.id:
		field = "delivery-id"
	case t.DeliveryTag != nil && clipTag(t.DeliveryTag) != d.tag:
		field = "delivery-tag"
	case t.MessageFormat.Set && t.MessageFormat.Value != d.format:
		field = "message-format"
	case t.Resume && !d.resumed:
		field = "resume flag"
	default:
		d.part.same(t.State)
		return true
	}
	s.l.end(amqp.CondInvalidField, fmt.Sprintf("A later frame of delivery %d has another %s than the first one.", d.id, field))
	return false
}

func clipTag(tag []byte) string { return string(tag[:min(len(tag), maxDeliveryTag)]) }

// transfer handles one frame of a delivery (3.2).
func (s *sender) transfer(t *amqp.Transfer, payload []byte) {
	c := s.l.c
	if first := !s.joining; first && !s.begin(t) || !first && !s.goOn(t) {
		return
	}
	// nothing is unsettled when a link is attached, so it must be ignored (AMQP 2.7.5)
	if s.delivery.resumed {
		s.joining = t.More && !t.Aborted
		s.grant()
		return
	}
	if t.Settled.Or(false) {
		s.delivery.settled = true // may be set in any frame of the delivery (AMQP 2.7.5)
	}
	s.delivery.part.goesOn(t.More && !t.Aborted)
	if t.Aborted {
		s.discard()
		s.joining, s.skipping, s.starved = false, false, false
		s.grant()
		return
	}
	s.starved = s.starved || c.in.cut
	if s.skipping || s.starved || s.size+len(payload) > s.maxSize {
		s.throwAway(t.More)
		return
	}
	if !s.joining && !t.More {
		s.deliver(payload, c.in.chunk)
		return
	}
	if s.starved = !s.join(payload); s.starved {
		s.throwAway(t.More)
		return
	}
	if s.joining = t.More; t.More {
		return
	}
	body, buf := s.joined.buf[:s.size:s.size], s.joined
	c.unfinished.end(s)
	s.joined, s.size = nil, 0
	s.deliver(body, buf)
	buf.Release()
}

// join copies a frame after the earlier ones, and reports whether there is room for it. The buffer
// grows with the bytes that arrive (reliability.md S15).
func (s *sender) join(payload []byte) bool {
	c := s.l.c
	need := s.size + len(payload)
	if !s.mayJoin(len(payload)) {
		return false
	}
	if s.joined == nil || need > len(s.joined.buf) {
		grown := s.buffer(need)
		if grown == nil {
			return false
		}
		if s.joined != nil {
			copy(grown.buf, s.joined.buf[:s.size])
			s.joined.Release()
		} else {
			c.unfinished.begin(s)
		}
		s.joined = grown
	}
	copy(s.joined.buf[s.size:], payload)
	c.unfinished.bytes += len(payload)
	s.size = need
	return true
}

// throwAway drops the current delivery, and refuses it once all of its frames have arrived.
func (s *sender) throwAway(more bool) {
	s.discard()
	if s.joining, s.skipping = more, more; !more {
		s.thrownAway()
	}
}

func (s *sender) discard() {
	if s.joined != nil {
		s.l.c.unfinished.end(s)
		s.joined.Release()
		s.joined, s.size = nil, 0
	}
}

// tooLarge refuses a delivery over a limit in bytes. The link stays (semantics.md 16.3,
// docs/decisions/0005).
func (s *sender) tooLarge(limit int) {
	s.reject(amqp.CondMessageSizeExceeded, fmt.Sprintf("The received message (delivery-id:%d) exceeds the limit (%d bytes) currently allowed on the link.",
		s.delivery.id, limit))
}

// leave drops an incomplete delivery. Sends that the engine has continue, and their answers are
// dropped. Transactions that were declared on the link are rolled back.
func (s *sender) leave(closed event.LinkClosed) {
	s.delivery.part.goesOn(false)
	s.joining, s.skipping, s.starved = false, false, false
	s.discard()
	if s.l.at.coordinator {
		s.l.c.transactions.coordinatorGone(s)
	}
	if s.noted {
		s.note(func() event.Event { own := closed; return &own })
	}
}

// deliver handles a whole delivery, whose bytes are in buf.
func (s *sender) deliver(body []byte, buf *chunk) {
	switch {
	case s.delivery.part.marked && (s.l.at.cbs || s.l.at.coordinator):
		s.reject(amqp.CondNotAllowed, noPartText)
		return
	case s.l.at.coordinator:
		s.control(body)
		return
	case s.l.at.cbs || s.l.at.management:
		s.request(body)
	case s.delivery.part.unknown != nil:
		s.refuse(s.delivery.part.unknown)
		return
	case s.delivery.format == amqp.MessageFormatPlain || s.delivery.format == amqp.MessageFormatBatch:
		s.send(body, buf)
	default:
		s.reject(amqp.CondNotImplemented, fmt.Sprintf("The message format 0x%08x is not known.", s.delivery.format))
		return
	}
	s.grant()
}

// send sends the messages of a delivery to the engine, or refuses all of them.
func (s *sender) send(body []byte, buf *chunk) {
	c := s.l.c
	var one *singleSend
	var kept keptSend
	if x := s.delivery.part.in; x != nil {
		kept = x.keep(body, s.delivery.format)
		one, body, buf = &kept.singleSend, kept.body, nil
	} else {
		one = c.batch.newSend(buf)
	}
	cmd := &one.send
	cmd.Entity, cmd.Destination, cmd.Origin = s.l.target.Entity, s.l.transfer.destination, s.l.origin
	var e *amqp.Error
	if s.delivery.format == amqp.MessageFormatBatch {
		if limit := min(s.maxSize, c.limits.BatchSize); len(body) > limit {
			s.tooLarge(limit)
			return
		}
		e = c.ingestBatch(cmd, body, buf, kept.room)
	} else {
		cmd.Messages = one.message[:]
		e = c.ingestOne(cmd, body, buf, kept.room)
	}
	if e != nil {
		s.reject(e.Condition, e.Description)
		return
	}
	if len(cmd.Messages) == 0 { // an empty batch succeeds without effect (semantics.md 5.1)
		releaseBuffer(cmd)
		s.accept()
		return
	}
	if err := s.delivery.part.in.place(s.l.target, cmd); err != nil {
		releaseBuffer(cmd)
		s.refuse(err)
		return
	}
	size := len(body) + len(cmd.Messages)*sendCost
	if seen, ok := cmd.Buffer.(*filterInput); ok {
		size += seen.size()
	}
	paid := 0
	if buf != nil && buf.paid != nil {
		paid = len(body)
	}
	if !c.memory.reserve(size - paid) {
		releaseBuffer(cmd)
		s.refuse(errNoMemory)
		return
	}
	at := cmd.Slice.Partition
	asked, refused := engine.Command(cmd), (*engine.Error)(nil)
	if x := s.delivery.part.in; x != nil {
		cmd.Buffer = nil // the data for filters belongs to the transaction as well
		asked, refused = c.transactions.stage(x, cmd, stagedOperation{s.l.target, at, len(cmd.Messages), kept.memory(size), keyOfSend(cmd), &kept.stage}, c.now)
	}
	if refused != nil {
		s.refuse(refused)
		return
	}
	s.credit.submit()
	tag := c.pendings.add(pendingEntry{
		kind: pendingSend, link: s.l, delivery: s.delivery.id, settled: s.delivery.settled, size: uint32(size), paid: uint32(paid), in: s.delivery.part.in,
	})
	c.batch.add(s.l.target.Host(at), engine.Request{Command: asked, Sink: c.outbox, Tag: tag})
}

// releaseBuffer frees the memory of a send that is not handed to the engine.
func releaseBuffer(cmd *engine.Send) {
	if cmd.Buffer != nil {
		cmd.Buffer.Release()
	}
}

// accept settles the current delivery as accepted.
func (s *sender) accept() {
	if !s.delivery.settled {
		s.l.c.answers.settleIn(s.delivery.part.in.name(), s.l.s, amqp.RoleReceiver, s.delivery.id, accepted)
	}
}

// sent handles the engine's answer to a send.
func (s *sender) sent(p *pendingEntry, err error) {
	s.credit.answered()
	c := s.l.c
	if err != nil {
		p.in.refused(err)
	}
	if s.l.detached {
		return
	}
	if err == nil {
		if !p.settled {
			c.answers.settleIn(p.in.name(), s.l.s, amqp.RoleReceiver, p.delivery, accepted)
		}
		s.grant()
		return
	}
	cond, text := s.l.describe(err)
	switch {
	case cond.ends == endsLink:
		s.l.end(cond.symbol, text)
		return
	case !p.settled:
		c.answers.reject(s.l.s, amqp.RoleReceiver, p.delivery, cond.symbol, c.texts.suffixed(text, s.l.at.path, c.now))
	}
	s.grant()
}

// refuse is reject for a refusal that the engine might have made.
func (s *sender) refuse(err *engine.Error) {
	cond, text := s.l.describe(err)
	s.reject(cond.symbol, text)
}

// reject refuses the current delivery; the link continues. A pre-settled delivery is dropped
// silently (semantics.md 5.1). The transaction of the delivery is marked as failed.
func (s *sender) reject(symbol amqp.Symbol, text string) {
	c := s.l.c
	s.delivery.part.in.fail()
	c.log.Debug("servicebus: delivery rejected", "link", loggable(s.l.name), "condition", symbol, "text", loggable(text))
	s.l.noteUnsent(symbol)
	if !s.delivery.settled {
		c.answers.reject(s.l.s, amqp.RoleReceiver, s.delivery.id, symbol, c.texts.suffixed(text, s.l.at.path, c.now))
	}
	s.grant()
}
