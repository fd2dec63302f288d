package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// sent is a message a client sent.
type sent struct {
	id   uint64
	q    *queue
	body []byte
	ttl  int64 // ms; 0: none
}

// noise is what bodies are made of.
var noise = func() []byte {
	p := make([]byte, 64<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}()

// request makes a client ask for something.
func (w *world) request() {
	total := 0
	for _, n := range w.o.operation {
		total += n
	}
	n := w.rng.IntN(total)
	op := operation(0)
	for i, weight := range w.o.operation {
		if n -= weight; n < 0 {
			op = operation(i)
			break
		}
	}
	q := w.queues[w.rng.IntN(len(w.queues))]
	a := &ask{op: op, q: q, dead: w.chance(25), tag: w.tag(), asked: int64(w.clock.Now())}
	switch op {
	case opSend:
		w.sendAsk(a, 1)
	case opBatch:
		w.sendAsk(a, 2+w.rng.IntN(4))
	case opAttach:
		w.attach(a, w.chance(25))
	case opFlow, opDetach:
		if !w.flowOrDetach(a) {
			return
		}
	case opSettle, opSettleMany, opStale, opRenew:
		if !w.useTokens(a) {
			return
		}
	case opPeek:
		a.from, a.count, a.limitB = uint64(w.rng.IntN(int(q.model.Last)+2)), 1+w.rng.IntN(20), pick(w.rng, 1, 2000, 1<<20)
		a.cmd = &engine.Peek{Slice: q.slice, SubQueue: sub(a.dead), From: event.SequenceNumber(a.from), Count: a.count, MaxBytes: a.limitB}
	case opUpdate:
		props := queueProperties(w.rng)
		if w.chance(20) {
			props = w.decided(q)
		}
		w.update(a, props)
	}
	w.submit(a)
}

// submit puts a request into the inbox of the partition it is for.
func (w *world) submit(a *ask) {
	p := a.q.host
	if a.op == opUpdate {
		p = w.parts[0]
	}
	w.note("ask", int64(a.op), int64(a.q.n), int64(a.tag), int64(bit(a.dead)))
	w.hist.asked(a)
	p.inbox = append(p.inbox, a)
}

func (w *world) update(a *ask, props event.Properties) {
	a.props = props
	a.cmd = &engine.PutQueue{Path: a.q.path, Properties: props, Origin: w.origin()}
}

func sub(dead bool) event.SubQueue {
	if dead {
		return event.DeadLetter
	}
	return event.Main
}

func (w *world) sendAsk(a *ask, n int) {
	cmd := &engine.Send{Entity: a.q.entity, Slice: a.q.slice, Origin: w.origin()}
	for range n {
		m := w.hist.message(a.q)
		a.sent = append(a.sent, m)
		cmd.Messages = append(cmd.Messages, engine.Message{Body: m.body, ID: []byte("id"), TimeToLive: time.Duration(m.ttl) * time.Millisecond})
	}
	a.cmd = cmd
}

func (w *world) attach(a *ask, deletes bool) *receiver {
	r := &receiver{tag: a.tag, q: a.q, dead: a.dead, delete: deletes}
	r.real = &engine.Receiver{Entity: a.q.entity, Slice: a.q.slice, SubQueue: sub(a.dead), Origin: w.origin(), Sink: a.q.host, Tag: r.tag}
	if deletes {
		r.real.Mode = engine.ReceiveAndDelete
	}
	a.rcv, a.cmd = r, &engine.Attach{Receiver: r.real}
	w.receivers = append(w.receivers, r)
	return r
}

func (w *world) flowOrDetach(a *ask) bool {
	if len(w.receivers) == 0 {
		return false
	}
	i := w.rng.IntN(len(w.receivers))
	r := w.receivers[i]
	a.rcv, a.q, a.dead = r, r.q, r.dead
	if a.op == opFlow {
		a.limit, a.drain = r.got+uint32(w.rng.IntN(8)), w.chance(20)
		a.cmd = &engine.Flow{Receiver: r.real, Limit: a.limit, Drain: a.drain}
		return true
	}
	w.receivers = slices.Delete(w.receivers, i, i+1)
	cmd := &engine.Detach{Receiver: r.real}
	for _, t := range r.recent { // what lies in the connection and never reached the wire
		if w.chance(50) {
			a.tokens = append(a.tokens, t)
			cmd.Unsent = append(cmd.Unsent, event.LockToken(t))
		}
	}
	a.cmd = cmd
	return true
}

// useTokens makes a settlement or renewal with tokens the clients know, now and then dead ones or those of others.
func (w *world) useTokens(a *ask) bool {
	pool := &w.hist.tokens
	if a.op == opStale {
		pool = &w.hist.old
	}
	if len(*pool) == 0 {
		return false
	}
	n := 1
	if a.op == opSettleMany || a.op == opRenew {
		n = 1 + w.rng.IntN(3)
	}
	for range n {
		i := w.rng.IntN(len(*pool))
		switch n := w.rng.IntN(10); {
		case n < 2:
			i = 0 // the oldest: it may be about to end
		case n < 7:
			i = len(*pool) - 1
		}
		t := (*pool)[i]
		if len(a.tokens) > 0 && t.q != a.q && !w.chance(10) {
			continue
		}
		if len(a.tokens) == 0 {
			a.q, a.dead = t.q, t.dead
		}
		a.tokens = append(a.tokens, t.token)
		if a.op != opRenew && a.op != opStale && w.chance(80) {
			w.hist.tokens = slices.Delete(w.hist.tokens, i, i+1)
			w.hist.old = append(w.hist.old, t)
			if len(w.hist.tokens) == 0 {
				break
			}
		}
	}
	if w.chance(2) {
		a.dead = !a.dead
	}
	w.command(a)
	return true
}

// command fills in what is asked with the tokens.
func (w *world) command(a *ask) {
	var tokens []event.LockToken
	for _, t := range a.tokens {
		tokens = append(tokens, event.LockToken(t))
	}
	if a.op == opRenew {
		a.cmd = &engine.Renew{Entity: a.q.entity, Slice: a.q.slice, SubQueue: sub(a.dead), Origin: w.origin(), Tokens: tokens}
		return
	}
	if a.how == 0 {
		a.how = pick(w.rng, model.Complete, model.Complete, model.Complete, model.Abandon, model.Abandon, model.Release, model.Defer, model.DeadLetter)
	}
	if a.how == model.DeadLetter || (a.how == model.Abandon || a.how == model.Defer) && w.chance(40) {
		a.change = noise[w.rng.IntN(1000):][:1+w.rng.IntN(60)]
	}
	cmd := &engine.Settle{Entity: a.q.entity, Slice: a.q.slice, SubQueue: sub(a.dead), Origin: w.origin(),
		Token: tokens[0], More: tokens[1:], Changes: a.change}
	cmd.Outcome = map[model.Outcome]engine.SettleOutcome{model.Complete: engine.Complete, model.Abandon: engine.Abandon,
		model.Release: engine.Release, model.Defer: engine.Defer, model.DeadLetter: engine.MoveToDeadLetter}[a.how]
	a.cmd = cmd
}

var refusals = map[engine.Code]model.Refusal{
	engine.LockLost: model.LockLost, engine.NotAllowed: model.NotAllowed, engine.Disabled: model.Disabled,
	engine.MessageTooLarge: model.TooLarge, engine.QuotaExceeded: model.QuotaExceeded,
}

// reply compares a reply with what must be answered, then gives it to the client.
func (p *part) reply(r *engine.Reply, x *want) {
	w := p.w
	var e *engine.Error
	refusal := model.Accepted
	if errors.As(r.Err, &e) {
		refusal = refusals[e.Code]
		w.stats.Refusals++
		if refusal == model.Accepted {
			w.broken("I2", "partition %d: refused with code %d: %v", p.id, e.Code, e)
		}
	} else if r.Err != nil {
		w.broken("I26", "partition %d: %v", p.id, r.Err)
	}
	w.note("reply", int64(r.Tag), int64(r.Kind), int64(refusal), int64(len(r.Messages)))
	if refusal != x.refusal {
		id := "I2"
		if x.refusal == model.LockLost {
			id = "I6"
		} else if refusal == model.LockLost {
			id = "I7"
		}
		w.broken(id, "partition %d: request %d (operation %d, outcome %d) at %d was answered %v, it must be %v", p.id, x.tag, x.ask.op, x.ask.how, x.at, refusal, x.refusal)
	}
	switch {
	case r.Kind == engine.ReplyDelivery:
		p.delivered(r.Delivery, x)
	case r.Kind == engine.ReplyDrained:
	default:
		p.answered(r, x)
	}
}

func (p *part) answered(r *engine.Reply, x *want) {
	w, a := p.w, x.ask
	if a.op == opPeek {
		if len(r.Messages) != len(x.show) {
			w.broken("I17", "%s: peek from %d shows %d messages, there are %d", a.q.path, a.from, len(r.Messages), len(x.show))
		}
		for i := range r.Messages {
			p.same(&r.Messages[i], &x.show[i], a.q)
			p.content(&r.Messages[i], &x.show[i], a.q)
			w.hist.seen(a.q, &r.Messages[i], x.show[i].Body, a.asked)
		}
	}
	if a.op == opRenew && x.refusal == model.Accepted {
		if len(r.Times) != len(a.tokens) {
			w.broken("I5", "%d locks renewed, %d times answered", len(a.tokens), len(r.Times))
		}
		for _, t := range r.Times {
			if int64(t) != x.until {
				w.broken("I5", "%s: lock renewed until %d, it must be %d", a.q.path, t, x.until)
			}
		}
	}
	if a.op == opUpdate {
		w.configure(a.q, a.props)
	}
	w.hist.answered(a, x)
}

// delivered compares a delivery with the message that was next.
func (p *part) delivered(d *engine.Delivery, x *want) {
	w, m := p.w, &x.show[0]
	w.stats.Deliveries++
	w.note("delivery", int64(d.Sequence), int64(d.DeliveryCount), int64(d.LockedUntil))
	p.same(d, m, x.rcv.q)
	p.content(d, m, x.rcv.q)
	until, token := m.Until, m.Token
	if x.rcv.delete {
		until, token = 0, model.Token{}
	}
	if int64(d.LockedUntil) != until || model.Token(d.Token) != token {
		w.broken("I5", "%s: message %d delivered with lock %v until %d, it must be %x until %d", x.rcv.q.path, m.Seq, d.Token, d.LockedUntil, token, until)
	}
	x.rcv.got++
	w.hist.delivered(d, x)
}

// same compares what is shown of a message with the model.
func (p *part) same(d *engine.Delivery, m *model.Message, q *queue) {
	w := p.w
	switch {
	case uint64(d.Sequence) != m.Seq:
		w.broken("I12", "%s: message %d is shown, it must be %d", q.path, d.Sequence, m.Seq)
	case d.DeliveryCount != m.Count:
		w.broken("I10", "%s: message %d shows delivery count %d, it must be %d", q.path, m.Seq, d.DeliveryCount, m.Count)
	case int64(d.EnqueuedAt) != m.EnqueuedAt || int64(d.ExpiresAt) != m.ExpiresAt || d.TimeToLive.Milliseconds() != m.OwnTTL:
		w.broken("I14", "%s: message %d shows times %d, %d, %v, they must be %d, %d, %d ms", q.path, m.Seq, d.EnqueuedAt, d.ExpiresAt,
			d.TimeToLive, m.EnqueuedAt, m.ExpiresAt, m.OwnTTL)
	case d.SubQueue != sub(m.Dead) || (d.State == engine.MessageDeferred) != (m.State == model.Deferred):
		w.broken("I17", "%s: message %d is shown in %v, deferred %v; it must be %v, %v", q.path, m.Seq, d.SubQueue, (d.State == engine.MessageDeferred), sub(m.Dead), m.State)
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
	if p.w.gone() {
		return
	}
	if err != nil {
		p.w.broken("I1", "%s: %s of message %d cannot be read: %v", q.path, what, seq, err)
	}
	if !bytes.Equal(got, want) {
		p.w.broken("I2", "%s: %s of message %d is not what was sent: %d bytes, sent %d", q.path, what, seq, len(got), len(want))
	}
}

// history is what clients know, without the model's help: a second, simpler oracle.
type history struct {
	w      *world
	all    []*life
	bySeq  map[seqKey]*life
	byTok  map[model.Token]*life
	tokens []known // of deliveries that were not settled yet
	old    []known
}

type seqKey struct {
	q   int
	seq uint64
}

// known is a token a client knows.
type known struct {
	q     *queue
	dead  bool
	token model.Token
}

// life is one message as its clients saw it.
type life struct {
	sent
	answered, ok bool // of the send
	seq          uint64
	done         bool // an accepted complete, or received and deleted
	doneAt       int64
	count        uint32
	token        model.Token // of the newest delivery
	until        int64       // as answered
	latest       int64       // … and at the most, with renewals that were asked for
	loose        bool        // the lock may have ended early: a settlement was asked for, or the power failed
	expires      int64
}

// message makes a message nobody else sends.
func (h *history) message(q *queue) *sent {
	w := h.w
	id := uint64(len(h.all) + 1)
	n := 8 + w.rng.IntN(w.o.maxBody)
	if w.chance(2) {
		n = 0
	}
	body := make([]byte, n)
	if n > 0 {
		copy(body, noise[w.rng.IntN(len(noise)-n):])
		if w.o.forge && n > 200 && w.chance(50) { // a piece of the log itself
			if _, end := q.host.plog.Bounds(); end > 300 {
				q.host.plog.ReadAt(event.Position(w.rng.IntN(int(end)-200)&^7|8), body[8:])
			}
		}
		binary.BigEndian.PutUint64(body, id)
	}
	l := &life{sent: sent{id: id, q: q, body: body}}
	if w.o.ownTTL > 0 && w.chance(50) {
		l.ttl = 1 + w.rng.Int64N(w.o.ownTTL.Milliseconds())
	}
	h.all = append(h.all, l)
	return &l.sent
}

func (h *history) of(body []byte) *life {
	if len(body) < 8 {
		return nil
	}
	id := binary.BigEndian.Uint64(body)
	if id == 0 || id > uint64(len(h.all)) {
		h.w.broken("I2", "a message was seen that nobody sent")
	}
	return h.all[id-1]
}

// asked notes that a lock may end, or be renewed, from now on.
func (h *history) asked(a *ask) {
	for _, t := range a.tokens {
		l := h.byTok[t]
		switch {
		case l == nil || l.token != t:
		case a.op == opRenew:
			l.until, l.latest = 0, math.MaxInt64 // a renewal may also shorten it, when the settings have changed
		default:
			l.loose = true
		}
	}
}

// seen checks the identity of a message that was shown; asked is when the client wanted to see it.
func (h *history) seen(q *queue, d *engine.Delivery, body []byte, asked int64) *life {
	l := h.of(body)
	if l == nil {
		return nil
	}
	w := h.w
	if l.q != q || l.answered && !l.ok {
		w.broken("I2", "%s: message %d was sent to %s, accepted %v", q.path, l.id, l.q.path, l.ok)
	}
	if l.seq == 0 {
		k := seqKey{q.n, uint64(d.Sequence)}
		if o := h.bySeq[k]; o != nil {
			w.broken("I12", "%s: sequence number %d was that of message %d and is now that of message %d", q.path, d.Sequence, o.id, l.id)
		}
		l.seq = uint64(d.Sequence)
		if h.bySeq == nil {
			h.bySeq = map[seqKey]*life{}
		}
		h.bySeq[k] = l
	}
	if l.seq != uint64(d.Sequence) {
		w.broken("I3", "%s: message %d has sequence numbers %d and %d", q.path, l.id, l.seq, d.Sequence)
	}
	if l.done && asked > l.doneAt {
		w.broken("I4", "%s: message %d (%d) is shown at %d; that it was done was known at %d", q.path, l.id, l.seq, asked, l.doneAt)
	}
	if d.DeliveryCount < l.count {
		w.broken("I10", "%s: message %d shows delivery count %d after %d", q.path, l.id, d.DeliveryCount, l.count)
	}
	l.count, l.expires = d.DeliveryCount, int64(d.ExpiresAt)
	return l
}

func (h *history) delivered(d *engine.Delivery, x *want) {
	w, q := h.w, x.rcv.q
	if !x.rcv.delete {
		t := known{q, x.rcv.dead, model.Token(d.Token)}
		h.tokens = append(h.tokens, t)
		if len(h.tokens) > 64 {
			h.old = append(h.old, h.tokens[0])
			h.tokens = h.tokens[1:]
		}
		if x.rcv.recent = append(x.rcv.recent, t.token); len(x.rcv.recent) > 3 {
			x.rcv.recent = x.rcv.recent[1:]
		}
	}
	l := h.seen(q, d, x.show[0].Body, x.at)
	if l == nil {
		return
	}
	if l.done {
		w.broken("I4", "%s: message %d (%d) is delivered and was done", q.path, l.id, l.seq)
	}
	if l.until > x.at && !l.loose {
		w.broken("I5", "%s: message %d (%d) is locked anew at %d, its lock holds until %d", q.path, l.id, l.seq, x.at, l.until)
	}
	if d.SubQueue == event.Main && d.DeliveryCount >= q.maxEver {
		w.broken("I11", "%s: message %d is delivered with delivery count %d, the limit is %d", q.path, l.seq, d.DeliveryCount, q.maxEver)
	}
	if d.SubQueue == event.Main && d.ExpiresAt != 0 && x.at >= int64(d.ExpiresAt) {
		w.broken("I14", "%s: message %d is delivered at %d and expired at %d", q.path, l.seq, x.at, d.ExpiresAt)
	}
	if x.rcv.delete {
		l.done, l.doneAt = true, int64(w.clock.Now())
		return
	}
	l.token, l.until, l.latest, l.loose = model.Token(d.Token), int64(d.LockedUntil), int64(d.LockedUntil), false
	if h.byTok == nil {
		h.byTok = map[model.Token]*life{}
	}
	h.byTok[l.token] = l
}

func (h *history) answered(a *ask, x *want) {
	w := h.w
	if a.op == opSend || a.op == opBatch {
		for _, m := range a.sent {
			l := h.all[m.id-1]
			l.answered, l.ok = true, x.refusal == model.Accepted
			if l.seq != 0 && !l.ok {
				w.broken("I2", "%s: message %d was refused and seen", a.q.path, l.id)
			}
		}
	}
	if x.refusal != model.Accepted || len(a.tokens) == 0 || a.op == opDetach {
		return
	}
	for _, t := range a.tokens {
		l := h.byTok[t]
		if l == nil {
			continue
		}
		if l.token != t {
			w.broken("I6", "%s: message %d: an old token was accepted", a.q.path, l.seq)
		}
		if a.asked >= l.latest {
			w.broken("I7", "%s: message %d: token accepted, asked at %d, the lock ended at %d", a.q.path, l.seq, a.asked, l.latest)
		}
		switch {
		case a.op == opRenew:
			l.until = x.until
		case a.how == model.Complete:
			if l.done {
				w.broken("I6", "%s: message %d was completed twice", a.q.path, l.seq)
			}
			l.done, l.doneAt = true, int64(w.clock.Now())
		}
	}
}

// powerLost: locks that were not synced may be gone, and counts with them.
func (h *history) powerLost() {
	for _, l := range h.all {
		l.loose, l.count = true, 0
	}
}
