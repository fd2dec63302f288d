package sim

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// history is what clients know, without the model's help: a second, simpler oracle.
type history struct {
	w        *world
	all      []*life
	copies   []*life // of those that were sent to topics, as far as anybody saw them
	bySeq    map[seqKey]*life
	byTok    map[model.Token]*life
	byID     map[idKey][]*life // acknowledged, by message-id
	tokens   []known           // of deliveries that were not settled yet
	old      []known
	aside    []numbered // deferred messages
	planned  []numbered // scheduled ones
	grants   []*held    // of sessions
	states   map[sessionKey]register
	newestIn map[sessionKey]uint64 // the largest number that was delivered from a session
}

type seqKey struct {
	q   int
	seq uint64
}

type idKey struct {
	q  int
	id string
}

type sessionKey struct {
	q  int
	id string
}

// register is what is known of a session's state.
type register struct {
	known bool
	state []byte
	asked int // writes that are not answered
}

// known is a token a client knows.
type known struct {
	q     *queue
	sub   model.Sub
	token model.Token
	step  int // in which it became known
}

// numbered is a message a client knows by its number.
type numbered struct {
	q    *queue
	sub  model.Sub
	seq  uint64
	step int // in which it became known
}

// held is a session somebody was given.
type held struct {
	q     *queue
	id    string
	token model.Token
	until int64 // as answered
	loose bool  // it may have ended early: a detach was asked for, or the power failed
	over  bool  // its holder was told that it ended
	step  int   // in which it was given
}

// life is one message as its clients saw it.
type life struct {
	sent
	of           *life  // what it is a copy of
	from         uint64 // number of a copy in its topic
	answered, ok bool   // of the send
	decidedAt    int64
	seq          uint64
	plan         uint64 // number while it was scheduled
	done         bool   // an accepted complete, or received and deleted, or cancelled
	doneAt       int64
	shown        bool
	aside        bool      // deferred
	asideIn      model.Sub // … where
	wasIn        bool      // delivered from its session before
	count        uint32
	token        model.Token // of the newest delivery
	until        int64       // as answered
	latest       int64       // … and at the most, with renewals that were asked for
	// the lock may have ended early: a settlement was asked for, or the power failed
	loose bool
}

// moved is the message that has a number in a queue to which it came by way of others.
func (h *history) moved(sender *life, q *queue, d *engine.Delivery, m *model.Message) *life {
	k := seqKey{q.n, uint64(d.Sequence)}
	if l := h.bySeq[k]; l != nil {
		if l.of != sender {
			h.w.broken("I12", "%s: sequence number %d was that of message %d and is now that of %d", q.path, d.Sequence, l.id, sender.id)
		}
		return l
	}
	l := &life{sent: sender.sent, of: sender, from: uint64(d.EnqueuedSequence), ok: true}
	l.q, l.session = q, m.Session
	// if clocks were set on its way the sender's word counts, and only the model knows what that
	// had become by then
	if h.w.stats.ClocksSet > 0 {
		l.due = 0
	}
	h.copies = append(h.copies, l)
	return l
}

func newHistory(w *world) history {
	return history{w: w, bySeq: map[seqKey]*life{}, byTok: map[model.Token]*life{}, byID: map[idKey][]*life{}, states: map[sessionKey]register{}, newestIn: map[sessionKey]uint64{}}
}

// message makes a message nobody else sends, though others may have the same message-id.
func (h *history) message(q, to *queue) *sent {
	w, through := h.w, q
	if to != nil { // through q
		q = to
	}
	id := uint64(len(h.all) + 1)
	n := 8 + w.rng.IntN(w.o.maxBody)
	if w.o.moves {
		n += movesBytes
	} else if w.chance(2) {
		n = 0
	}
	body := make([]byte, n)
	if n > 0 {
		copy(body, noise[w.rng.IntN(len(noise)-n):])
		if w.o.forge && n > 200 && w.chance(50) && q.host.plog != nil { // a piece of the log itself
			if _, end := q.host.plog.Bounds(); end > 300 {
				// longer than what it is read into: nothing is compared
				piece := event.Blob{Position: event.Position(w.rng.IntN(int(end)-200)&^7 | 8), Size: uint32(n - 7)}
				q.host.plog.ReadInto(piece, body[8:])
			}
		}
		binary.BigEndian.PutUint64(body, id)
	}
	l := &life{sent: sent{id: id, q: q, body: body}}
	if w.o.headers && w.chance(15) {
		w.large(&l.sent)
		binary.BigEndian.PutUint64(l.body, id)
	}
	if w.o.ownTTL > 0 && w.chance(50) {
		l.ttl = 1 + w.rng.Int64N(w.o.ownTTL.Milliseconds())
	}
	l.name, l.idType = "m"+string(rune('0'+w.rng.IntN(w.o.ids))), event.IDString
	if w.chance(10) {
		l.idType = event.IDBinary // the same bytes, another id
	}
	l.key = string(rune('0'+l.idType)) + l.name
	if props := q.entity.Properties; props.RequiresSession && !w.chance(2) || !props.RequiresSession && w.chance(10) {
		l.session, l.hasSession = pick(w.rng, w.o.sessions...), true
	}
	if q.kind == event.Topic {
		h.forTopic(l)
	}
	if q.several() {
		w.partitionKey(l)
	}
	if w.o.ahead > 0 && w.chance(25) {
		l.due = w.broker() + w.rng.Int64N(w.o.ahead.Milliseconds()) - w.o.ahead.Milliseconds()/8
	}
	if w.o.moves {
		h.forRules(l)
		w.describe(&l.sent)
	}
	l.q = through
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
	w := h.w
	for _, t := range a.tokens {
		l := h.byTok[t]
		switch {
		case l == nil || l.token != t:
		case a.op == opRenew:
			// a renewal may also shorten it, when the settings have changed
			l.until, l.latest = 0, math.MaxInt64
		default:
			l.loose = true
		}
	}
	switch a.op {
	case opDetach:
		a.rcv.leaving = true
		h.loosen(a.rcv)
	case opRenewSession:
		for _, g := range h.grants {
			if g.token == a.token {
				g.loose = true
			}
		}
	case opSetState:
		k := sessionKey{a.q.n, *a.session}
		reg := h.states[k]
		reg.asked++
		h.states[k] = reg
	case opDelete:
		for k, reg := range h.states {
			if q := w.queues[k.q].whole.parts[0]; q == a.q || q.topic == a.q {
				reg.known = false
				h.states[k] = reg
			}
		}
	}
}

// loosen: what a session receiver holds may go back from now on.
func (h *history) loosen(r *receiver) {
	for _, g := range h.grants {
		if g.q.whole == r.q.whole && (g.token == r.lock || r.lock == model.Token{}) {
			g.loose = true
			h.loosenAll(g)
		}
	}
}

// loosenAll: the locks under a session may be over.
func (h *history) loosenAll(g *held) {
	for l := range h.lives {
		if l.q == g.q && l.session == g.id {
			l.loose = true
		}
	}
}

// seen checks the identity of a message that was shown; asked is when the client wanted to see it.
func (h *history) seen(q *queue, d *engine.Delivery, m *model.Message, asked int64) *life {
	l := h.of(m.Body)
	if l == nil {
		return nil
	}
	w := h.w
	if l.answered && !l.ok {
		w.broken("I2", "%s: message %d was refused", q.path, l.id)
	}
	if w.o.moves && (l.q != q || d.EnqueuedSequence != 0) {
		l = h.moved(l, q, d, m)
	} else if q.topic != nil && l.q == q.topic {
		l = h.copy(l, q, d, m)
	}
	if l.q != q {
		id := "I2"
		switch {
		case l.q.whole == q.whole:
			id = "I3" // it is in two partitions
		case l.q.path == q.path:
			id = "I23"
		}
		w.broken(id, "%s: message %d was sent to %s (%d, not %d)", q.path, l.id, l.q.path, l.q.n, q.n)
	}
	l.shown = true
	number := &l.seq
	if d.State == engine.MessageScheduled {
		number = &l.plan
	}
	h.numbered(l, number, uint64(d.Sequence))
	if l.plan != 0 && l.seq != 0 && l.plan >= l.seq {
		w.broken("I12", "%s: message %d was scheduled as %d and became active as %d", q.path, l.id, l.plan, l.seq)
	}
	if d.State == engine.MessageScheduled {
		if l.seq != 0 {
			w.broken("I15", "%s: message %d is scheduled again after it was active", q.path, l.id)
		}
		return l
	}
	// it was never where it had to wait
	if l.due > int64(d.EnqueuedAt) && d.SubQueue != event.TransferDeadLetter {
		w.broken("I15", "%s: message %d, scheduled for %d, became active at %d", q.path, l.id, l.due, d.EnqueuedAt)
	}
	if l.done && asked > l.doneAt {
		w.broken("I4", "%s: message %d (%d) is shown at %d; that it was done was known at %d", q.path, l.id, l.seq, asked, l.doneAt)
	}
	if d.DeliveryCount < l.count {
		w.broken("I10", "%s: message %d shows delivery count %d after %d", q.path, l.id, d.DeliveryCount, l.count)
	}
	l.count = d.DeliveryCount
	return l
}

// numbered checks that a message has one number, and no other message has it.
func (h *history) numbered(l *life, number *uint64, seq uint64) {
	if *number == 0 {
		k := seqKey{l.q.n, seq}
		if o := h.bySeq[k]; o != nil {
			h.w.broken("I12", "%s: sequence number %d was that of message %d and is now that of message %d", l.q.path, seq, o.id, l.id)
		}
		*number, h.bySeq[k] = seq, l
	}
	if *number != seq {
		h.w.broken("I3", "%s: message %d has sequence numbers %d and %d", l.q.path, l.id, *number, seq)
	}
}

// inOrder puts what became known in this step into an order of its own. Answers that wait for the
// same sync come in an order that depends on where one file ends and the next begins, and what a
// client asks for next depends on the order in which it learned of things.
func (h *history) inOrder() {
	byToken := func(a, b known) int { return bytes.Compare(a.token[:], b.token[:]) }
	byNumber := func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.q.n, b.q.n), cmp.Compare(a.sub, b.sub), cmp.Compare(a.seq, b.seq))
	}
	slices.SortFunc(newest(h.tokens, func(k known) bool { return k.step == h.w.step }), byToken)
	for _, list := range [][]numbered{h.aside, h.planned} {
		slices.SortFunc(newest(list, func(n numbered) bool { return n.step == h.w.step }), byNumber)
	}
	slices.SortFunc(newest(h.grants, func(g *held) bool { return g.step == h.w.step }), func(a, b *held) int { return bytes.Compare(a.token[:], b.token[:]) })
}

// newest is the longest end of a list in which everything is new.
func newest[T any](list []T, isNew func(T) bool) []T {
	i := len(list)
	for i > 0 && isNew(list[i-1]) {
		i--
	}
	return list[i:]
}

// locked notes a token that a client was given. When there are many, clients never settle the
// oldest: their locks end by themselves. That is not so while it drains: a ring of subscriptions
// hands out more at once, and what was not completed would come again whenever its lock ends, for
// longer than draining may take.
func (h *history) locked(q *queue, sub model.Sub, t model.Token) {
	h.tokens = append(h.tokens, known{q, sub, t, h.w.step})
	if len(h.tokens) > 64 && !h.w.draining {
		h.old = append(h.old, h.tokens[0])
		h.tokens = h.tokens[1:]
	}
}

// delivered checks a message that was handed out, by a receiver or by number.
func (h *history) delivered(q *queue, d *engine.Delivery, x *want, m *model.Message, taken, byNumber bool) {
	w := h.w
	dead := d.SubQueue != event.Main
	if !taken {
		h.locked(q, model.Sub(d.SubQueue), model.Token(d.Token))
	}
	l := h.seen(q, d, m, x.at)
	if l == nil {
		return
	}
	if l.done {
		w.broken("I4", "%s: message %d (%d) is delivered and was done", q.path, l.id, l.seq)
	}
	if l.until > x.at && !l.loose {
		w.broken("I5", "%s: message %d (%d) is locked anew at %d, its lock holds until %d", q.path, l.id, l.seq, x.at, l.until)
	}
	if !dead && d.DeliveryCount >= q.maxEver && !byNumber {
		w.broken("I11", "%s: message %d is delivered with delivery count %d, the limit is %d", q.path, l.seq, d.DeliveryCount, q.maxEver)
	}
	if !dead && d.ExpiresAt != 0 && x.at >= int64(d.ExpiresAt) {
		w.broken("I14", "%s: message %d is delivered at %d and expired at %d", q.path, l.seq, x.at, d.ExpiresAt)
	}
	if l.due > x.at && d.SubQueue != event.TransferDeadLetter {
		w.broken("I15", "%s: message %d is delivered at %d and scheduled for %d", q.path, l.seq, x.at, l.due)
	}
	if l.aside && l.asideIn == model.Sub(d.SubQueue) && !byNumber {
		w.broken("I16", "%s: message %d is deferred and was delivered in the normal flow", q.path, l.seq)
	}
	if q.entity.Properties.RequiresSession && !dead && !byNumber {
		h.inSession(q, l, x)
	}
	if taken {
		l.done, l.doneAt = true, w.broker()
		return
	}
	l.token, l.until, l.latest, l.loose = model.Token(d.Token), int64(d.LockedUntil), int64(d.LockedUntil), false
	h.byTok[l.token] = l
	if q.entity.Properties.RequiresSession && !dead {
		l.until, l.latest = 0, math.MaxInt64 // the session's
	}
}

// inSession checks a delivery to the holder of a session: from no other session, and for the first
// time in the order sent.
func (h *history) inSession(q *queue, l *life, x *want) {
	if x.rcv.session != l.session {
		h.w.broken("I9", "%s: message %d of session %q is delivered to the holder of %q", q.path, l.seq, l.session, x.rcv.session)
	}
	k := sessionKey{q.n, l.session}
	if l.count == 0 && !l.wasIn && l.seq < h.newestIn[k] {
		h.w.broken("I8", "%s: message %d of session %q is delivered for the first time after %d", q.path, l.seq, l.session, h.newestIn[k])
	}
	l.wasIn, h.newestIn[k] = true, max(h.newestIn[k], l.seq)
}

// granted checks that a session is given to one at a time.
func (h *history) granted(q *queue, r *receiver, g *engine.SessionGrant, at int64) {
	for _, o := range h.grants {
		if o.q == q && o.id == g.ID && !o.over {
			if o.until > at && !o.loose {
				h.w.broken("I5", "%s: session %q is given to a second at %d, the first has it until %d", q.path, g.ID, at, o.until)
			}
			o.over = true
		}
	}
	h.grants = append(h.grants, &held{q: q, id: g.ID, token: model.Token(g.Token), until: int64(g.LockedUntil), loose: r.client().leaving, step: h.w.step})
	if len(h.grants) > 40 {
		h.grants = slices.Clone(h.grants[10:])
	}
}

// answered notes what an answer says.
func (h *history) answered(a *ask, x *want, r *engine.Reply) {
	ok := x.refusal == model.Accepted
	switch {
	case a.op == opCommit || a.op == opRollback:
		h.discharged(a, x)
		return
	case a.txn != nil:
		h.stagedAnswered(a, x)
		return
	}
	switch a.op {
	case opSend, opBatch:
		h.sent(a, x, r, ok)
	case opEnded:
		for _, g := range h.grants {
			if g.q.whole == a.q.whole && g.token == a.rcv.lock {
				g.over = true
				h.loosenAll(g)
			}
		}
	case opAccept:
		if ok {
			h.granted(x.where(), a.rcv, r.SessionGrant(), x.at)
		}
	case opRecall:
		taken := r.Messages()
		for i := range taken {
			h.delivered(a.q, &taken[i], x, &x.show[i], a.deletes, true)
		}
	case opCancel:
		if ok {
			h.cancelled(a)
		}
	case opSetState, opGetState:
		h.stateAnswered(a, x, ok)
	}
	if ok && a.op != opDetach && len(x.show) == 0 {
		h.settled(a, x)
	}
}

func (h *history) cancelled(a *ask) {
	for _, seq := range a.seqs {
		if l := h.bySeq[seqKey{a.q.n, seq}]; l != nil {
			if l.seq != 0 {
				h.w.broken("I15", "%s: message %d is active, and was cancelled", a.q.path, l.seq)
			}
			l.done, l.doneAt = true, h.w.broker()
		}
	}
}

// stateAnswered takes in what a session's state was set to, or checks that what was read is what
// was set last.
func (h *history) stateAnswered(a *ask, x *want, ok bool) {
	k := sessionKey{a.q.n, *a.session}
	reg := h.states[k]
	switch {
	case a.op == opSetState:
		if reg.asked--; ok {
			reg.known, reg.state = true, a.state
		}
		h.states[k] = reg
	case ok && reg.known && reg.asked == 0 && string(reg.state) != string(x.state):
		h.w.broken("I9", "%s: session %q has another state than was set last", a.q.path, *a.session)
	}
}

// settled takes in what came of the messages whose tokens were accepted.
func (h *history) settled(a *ask, x *want) {
	w := h.w
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
			l.done, l.doneAt = true, w.broker()
		case a.how == model.Defer:
			l.aside, l.asideIn = true, a.sub
			h.aside = append(h.aside, numbered{a.q, a.sub, l.seq, h.w.step})
		case a.how == model.DeadLetter:
			l.aside = false
		}
	}
}

// sent: two that were accepted with one id within the window are one message (I18).
func (h *history) sent(a *ask, x *want, r *engine.Reply, ok bool) {
	numbers := r.Numbers()
	for i, m := range a.sent {
		l := h.all[m.id-1]
		l.answered, l.ok, l.decidedAt = true, ok, x.at
		if !ok {
			if l.seq != 0 || l.plan != 0 {
				h.w.broken("I2", "%s: message %d was refused and seen", a.q.path, l.id)
			}
			continue
		}
		if h.byID[idKey{a.q.n, m.identity()}] = append(h.byID[idKey{a.q.n, m.identity()}], l); len(numbers) == 0 || numbers[i] == 0 {
			continue
		}
		seq, planned := uint64(numbers[i]), l.due > x.at && a.to == nil
		if planned {
			h.planned = append(h.planned, numbered{a.q, model.Main, seq, h.w.step})
		}
		switch {
		case a.q.entity.Properties.RequiresDuplicateDetection && a.to == nil:
			// it may be the number of the first with this id
		case planned:
			h.numbered(l, &l.plan, seq)
		default:
			h.numbered(l, &l.seq, seq)
		}
	}
}

// idle checks, when an entity deletes itself, that nobody has sent anything to it for long enough,
// as far as the broker can know after a start.
func (h *history) idle(q *queue, now int64) {
	after := max(now-q.entity.Properties.AutoDeleteOnIdle.Milliseconds(), h.w.started)
	for _, l := range h.all {
		if l.q.whole == q.whole && l.ok && l.decidedAt > after {
			h.w.broken("I1", "%s deletes itself at %d, message %d was sent at %d", q.path, now, l.id, l.decidedAt)
		}
	}
}

// powerLostIn: locks that were not synced in a partition may be gone, and counts with them.
func (h *history) powerLostIn(p *part) {
	for l := range h.lives {
		if l.q.host == p {
			l.loose, l.count = true, 0
		}
	}
}

// restarted: nobody holds a session any more, and writes that were not answered may have happened.
func (h *history) restarted() {
	for k, reg := range h.states {
		if reg.asked > 0 {
			h.states[k] = register{}
		}
	}
	for _, g := range h.grants {
		g.loose = true
		h.loosenAll(g)
	}
}
