package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

var refusals = map[engine.Code]model.Refusal{
	engine.LockLost: model.LockLost, engine.NotAllowed: model.NotAllowed, engine.Disabled: model.Disabled,
	engine.MessageTooLarge: model.TooLarge, engine.EntityFull: model.QuotaExceeded,
	engine.SessionLockLost: model.SessionLost, engine.SessionCannotBeLocked: model.SessionTaken, engine.Timeout: model.TimedOut,
	engine.MessageNotFound: model.NotFound, engine.NotFound: model.NoEntity, engine.InvalidArgument: model.Invalid,
	engine.AlreadyExists: model.Exists, engine.NoMatchingSubscription: model.NoMatch,
	engine.UnknownTransaction: model.UnknownTransaction, engine.TransactionFailed: model.TransactionFailed, engine.Busy: model.Busy, engine.QuotaExceeded: model.TooMany,
}

// reply compares a reply with what must be answered, then gives it to the client.
func (p *part) reply(r *engine.Reply, x *want) {
	w := p.w
	var e *engine.Error
	refusal := model.Accepted
	if errors.As(r.Err, &e) {
		refusal = refusals[e.Code]
		w.stats.Refusals++
		if x.ask.op < operations {
			w.stats.Cells[x.ask.op][ofRefused]++
		}
		if refusal == model.Accepted {
			w.broken("I2", "partition %d: refused with code %d: %v", p.id, e.Code, e)
		}
	} else if r.Err != nil {
		w.broken("I26", "partition %d: %v", p.id, r.Err)
	}
	if x.ask != nil && x.ask.op == opImport {
		if (refusal == model.Busy) != (x.refusal == model.Busy) {
			w.broken("S4 (faults)", "partition %d: what arrives is answered %v, it must be %v", p.id, refusal, x.refusal)
		}
		p.imported(r, x)
		return
	}
	w.note("reply", int64(r.Tag), int64(r.Kind), int64(refusal), int64(len(r.Messages())))
	if refusal != x.refusal {
		id := "I2"
		switch {
		case x.refusal == model.LockLost || x.refusal == model.SessionLost:
			id = "I6"
		case refusal == model.LockLost || refusal == model.SessionLost:
			id = "I7"
		case x.refusal == model.SessionTaken || refusal == model.SessionTaken:
			id = "I5"
		case x.ask.op == opRecall:
			id = "I16"
		case x.ask.op == opCancel:
			id = "I15"
		case x.ask.op == opAccept:
			id = "I9"
		case x.refusal == model.NoMatch || refusal == model.NoMatch:
			id = "I20"
		}
		w.broken(id, "partition %d: request %d (%v, outcome %d) at %d was answered %v, it must be %v", p.id, x.tag, x.ask.op, x.ask.how, x.at, refusal, x.refusal)
	}
	switch {
	case r.Kind == engine.ReplyDelivery:
		p.delivered(r.Delivery(), x)
	case r.Kind == engine.ReplyDrained:
		x.ask.drained()
	default:
		p.answered(r, x)
		x.ask.wasRead()
	}
}

// wasRead: the client has read what the answer points to.
func (a *ask) wasRead() {
	if a.done != nil { // it was asked for by a client
		a.done.Store(true)
	}
}

func (p *part) answered(r *engine.Reply, x *want) {
	w, a := p.w, x.ask
	ok, messages := x.refusal == model.Accepted, r.Messages()
	if len(messages) != len(x.show) {
		id := "I17"
		if a.op == opRecall {
			id = "I16"
		}
		w.broken(id, "%s: %v from %d shows %d messages, there are %d", a.q.path, a.op, a.from, len(messages), len(x.show))
	}
	for i := range messages {
		p.same(&messages[i], &x.show[i], a.q, nil)
		p.content(&messages[i], &x.show[i], a.q)
		if a.op == opPeek {
			w.hist.seen(a.q, &messages[i], &x.show[i], a.asked)
		} else {
			p.lock(&messages[i], &x.show[i], a.q, a.deletes || len(a.tokens) > 0)
		}
	}
	if len(a.tokens) > 0 && len(x.show) > 0 {
		w.askAgain(a, x)
	}
	switch {
	case (a.op == opRenew || a.op == opRenewSession) && ok:
		times := r.Times()
		if len(times) != max(1, len(a.tokens)) {
			w.broken("I5", "%d locks renewed, %d times answered", len(a.tokens), len(times))
		}
		for _, t := range times {
			if int64(t) != x.until {
				w.broken("I5", "%s: lock renewed until %d, it must be %d", a.q.path, t, x.until)
			}
		}
	case (a.op == opSend || a.op == opBatch) && ok && a.plain().(*engine.Send).Numbers:
		numbers := r.Numbers()
		if !slices.EqualFunc(numbers, x.numbers, func(a event.SequenceNumber, b uint64) bool { return uint64(a) == b }) {
			id := "I12"
			if slices.Contains(numbers, 0) || slices.Contains(x.numbers, 0) {
				id = "I18" // something was dropped, or should have been
			}
			w.broken(id, "%s: the messages sent have the numbers %v, they must have %v", a.q.path, numbers, x.numbers)
		}
	case a.op == opAccept && ok:
		a.rcv.hasSession(x.lock)
		if g := r.SessionGrant(); g == nil || g.ID != *x.session || model.Token(g.Token) != x.lock || int64(g.LockedUntil) != x.until {
			w.broken("I9", "%s: session %+v is given, it must be %q with lock %x until %d", a.q.path, g, *x.session, x.lock, x.until)
		}
	case a.op == opGetState && ok:
		state := r.SessionState()
		if (state != nil) != (x.state != nil) {
			w.broken("I9", "%s: session %q has a state: %v, it must: %v", a.q.path, *a.session, state != nil, x.state != nil)
		}
		if state != nil {
			p.bytes(*state, x.state, a.q, 0, "session state")
		}
	case a.op == opList && !slices.Equal(r.SessionIDs().IDs, x.ids):
		w.broken("I9", "%s: sessions %q are listed, it must be %q", a.q.path, r.SessionIDs().IDs, x.ids)
	case a.op == opUsage:
		w.collector.answered(w, x.busy, r.Answer.(*loop.Usage).IDs)
	case a.op == opPurge && r.Deleted() != x.n:
		w.broken("I17", "%s: batch delete removed %d messages, it must be %d", a.q.path, r.Deleted(), x.n)
	case a.op == opUpdate || a.op == opDelete || a.op == opPutRule || a.op == opDropRule || a.op == opDrop || a.op == opEnforce ||
		a.op == opTouch || a.op == opOrder:
		w.administered(a, ok)
	}
	if a.op == opEnded || (a.op == opAccept || a.op == opAttach) && !ok {
		w.forgetReceiver(a.rcv.client())
	}
	w.hist.answered(a, x, r)
}

// delivered compares a delivery with the message that was next.
func (p *part) delivered(d *engine.Delivery, x *want) {
	w, m := p.w, &x.show[0]
	w.stats.Deliveries++
	w.note("delivery", int64(d.Sequence), int64(d.DeliveryCount), int64(d.LockedUntil))
	p.same(d, m, x.q, x.rcv)
	if !p.ended(d) {
		p.content(d, m, x.q)
	}
	p.lock(d, m, x.q, x.rcv.delete)
	r := x.rcv.client()
	if r.mail.read++; r.mail.early > 0 {
		r.mail.early--
	} else {
		w.withinCredit(r)
		r.got++
	}
	if x.rcv.delete {
		r.real.Read[d.Sequence.Partition()].Add(1)
	} else {
		if r.recent = append(r.recent, model.Token(d.Token)); len(r.recent) > 3 {
			r.recent = r.recent[1:]
		}
	}
	w.hist.delivered(x.q, d, x, m, x.rcv.delete, false)
}

// lock compares the lock of a delivery.
func (p *part) lock(d *engine.Delivery, m *model.Message, q *queue, taken bool) {
	until, token := m.Until, m.Token
	if taken {
		until, token = 0, model.Token{}
	}
	if int64(d.LockedUntil) != until || model.Token(d.Token) != token {
		p.w.broken("I5", "%s: message %d delivered with lock %v until %d, it must be %x until %d", q.path, m.Seq, d.Token, d.LockedUntil, token, until)
	}
}

// shown is what clients are told of a message's state.
func shown(m *model.Message) engine.MessageState {
	switch m.State {
	case model.Deferred, model.DeferredLocked:
		return engine.MessageDeferred
	case model.Scheduled:
		return engine.MessageScheduled
	}
	return engine.MessageActive
}

// same compares what is shown of a message with the model.
func (p *part) same(d *engine.Delivery, m *model.Message, q *queue, r *receiver) {
	w, ttl := p.w, d.TimeToLive.Milliseconds()
	if d.TimeToLive < 0 && m.TransferDead { // as it was sent: its time has not begun
		ttl = int64(binary.BigEndian.Uint32(m.Body[ttlAt:]))
	}
	switch {
	case uint64(d.Sequence) != m.Seq:
		id := "I12"
		if r != nil {
			id = "P19"
			if r.real.Session != nil {
				id = "I8"
			}
		}
		w.broken(id, "%s: message %d is shown, it must be %d", q.path, d.Sequence, m.Seq)
	case d.DeliveryCount != m.Count:
		w.broken("I10", "%s: message %d shows delivery count %d, it must be %d", q.path, m.Seq, d.DeliveryCount, m.Count)
	case int64(d.EnqueuedAt) != m.EnqueuedAt || int64(d.ExpiresAt) != m.ExpiresAt || ttl != m.OwnTTL:
		w.broken("I14", "%s: message %d shows times %d, %d, %v, they must be %d, %d, %d ms", q.path, m.Seq, d.EnqueuedAt, d.ExpiresAt,
			d.TimeToLive, m.EnqueuedAt, m.ExpiresAt, m.OwnTTL)
	case uint64(d.EnqueuedSequence) != m.From:
		w.broken("I20", "%s: message %d was number %d in its topic, it must have been %d", q.path, m.Seq, d.EnqueuedSequence, m.From)
	case d.DeadLetterSource != m.Source:
		w.broken("I21", "%s: message %d shows that it comes from the dead-letter queue of %q, it was %q", q.path, m.Seq, d.DeadLetterSource, m.Source)
	case d.SubQueue != in(m.Sub()) || d.State != shown(m) || d.WasScheduled != m.Waited:
		w.broken("I17", "%s: message %d is shown in %v, state %v, was scheduled: %v; it must be dead %v, %v, %v", q.path, m.Seq, d.SubQueue,
			d.State, d.WasScheduled, m.Dead, m.State, m.Waited)
	}
}

// content reads the bytes back and compares them with what was sent.
func (p *part) content(d *engine.Delivery, m *model.Message, q *queue) {
	p.bytes(d.Body, m.Body, q, m.Seq, "body")
	if len(d.Changes) != len(m.Changes) {
		p.w.broken("I17", "%s: message %d has %d property changes, it must have %d", q.path, m.Seq, len(d.Changes), len(m.Changes))
	}
	for i, c := range d.Changes {
		p.bytes(c, m.Changes[i], q, m.Seq, "property changes")
	}
}

func (p *part) bytes(b event.Blob, want []byte, q *queue, seq uint64, what string) {
	got, err := p.plog.ReadBlob(b, nil)
	if p.w.gone() || p.erased(b, err) {
		return
	}
	if err != nil {
		p.w.broken("I1", "%s: %s of message %d cannot be read: %v", q.path, what, seq, err)
	}
	if !bytes.Equal(got, want) {
		p.w.broken("I2", "%s: %s of message %d is not what was sent: %d bytes, sent %d", q.path, what, seq, len(got), len(want))
	}
}
