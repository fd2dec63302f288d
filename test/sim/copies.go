package sim

import (
	"cmp"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// What clients know of messages that were sent to a topic: each may be seen in several
// subscriptions, as copies with numbers of their own.

// forTopic gives a message what rules look at.
func (h *history) forTopic(l *life) {
	w := h.w
	if len(l.body) > 0 && len(l.body) < seenBytes {
		l.body = append(l.body, make([]byte, seenBytes-len(l.body))...)
	}
	if l.session, l.hasSession = "", false; len(l.body) == 0 {
		return // nothing can be read back of it
	}
	if w.chance(70) {
		l.session, l.hasSession = pick(w.rng, w.o.sessions...), true
	}
	h.forRules(l)
	w.describe(&l.sent)
}

// forRules gives a message the properties that rules look at.
func (h *history) forRules(l *life) {
	w := h.w
	l.color = pick(w.rng, colors...)
	if w.chance(75) {
		n := w.rng.Int64N(numbersUpTo)
		l.n = &n
	}
}

// lives are all messages, and all copies of them that were seen.
func (h *history) lives(yield func(*life) bool) {
	for _, list := range [...][]*life{h.all, h.copies} {
		for _, l := range list {
			if !yield(l) {
				return
			}
		}
	}
}

// copy is the copy of a message that has a number in a subscription. All copies have the number the
// message got in its topic.
func (h *history) copy(sender *life, q *queue, d *engine.Delivery, m *model.Message) *life {
	w := h.w
	from := uint64(d.EnqueuedSequence)
	sender.shown = true
	h.numbered(sender, &sender.seq, from)
	if sender.plan != 0 && sender.plan >= sender.seq {
		w.broken("I12", "%s: message %d was scheduled as %d and published as %d", sender.q.path, sender.id, sender.plan, sender.seq)
	}
	if sender.done {
		w.broken("I15", "%s: message %d was cancelled, and a copy is in %s", sender.q.path, sender.id, q.path)
	}
	if l := h.bySeq[seqKey{q.n, uint64(d.Sequence)}]; l != nil {
		if l.of != sender {
			w.broken("I12", "%s: sequence number %d was that of a copy of message %d and is now that of one of %d", q.path, d.Sequence, l.id, sender.id)
		}
		return l
	}
	l := &life{sent: sender.sent, of: sender, from: from, ok: true}
	l.q, l.session = q, m.Session // a rule can change it
	h.copies = append(h.copies, l)
	return l
}

// fannedOut closes the books on copies: in each subscription they have the order of the topic, and
// those of one message follow one another, for they came in one step (I20).
func (h *history) fannedOut() {
	slices.SortFunc(h.copies, func(a, b *life) int { return cmp.Or(cmp.Compare(a.q.n, b.q.n), cmp.Compare(a.seq, b.seq)) })
	for i, l := range h.copies {
		if i == 0 || h.copies[i-1].q != l.q {
			continue
		}
		switch before := h.copies[i-1]; {
		case before.from > l.from:
			h.w.broken("I20", "%s: %d is a copy of number %d in the topic, %d before it one of %d", l.q.path, l.seq, l.from, before.seq, before.from)
		case (before.from == l.from) != (before.of == l.of):
			h.w.broken("I20", "%s: %d and %d are copies of messages %d and %d, which have the numbers %d and %d in the topic", l.q.path, before.seq,
				l.seq, before.of.id, l.of.id, before.from, l.from)
		}
	}
}

// duplicates closes the books on duplicate detection: no two that were stored came within the
// smallest window there ever was.
func (h *history) duplicates() {
	for k, ls := range h.byID {
		q := h.w.queues[k.q]
		if !q.entity.Properties.RequiresDuplicateDetection {
			continue
		}
		// in the order in which they were answered: that of their decisions
		ls = slices.DeleteFunc(ls, func(l *life) bool { return !l.shown })
		for i := 1; i < len(ls); i++ {
			if a, b := ls[i-1].decidedAt, ls[i].decidedAt; b < a+q.leastSeen.Milliseconds() {
				h.w.broken("I18", "%s: id %q was stored at %d and again at %d, the window is %v", q.path, k.id, a, b, q.leastSeen)
			}
		}
	}
}
