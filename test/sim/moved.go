package sim

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// What becomes of messages that move (docs/decisions/0035). Each row of the table there has to be
// met by many seeds, for each trigger: a run in which one never came up says nothing about it.

// fate is what becomes of a message that moves.
type fate uint8

const (
	arrives               fate = iota + 1
	isKnown                    // it is at its destination already
	isDuplicate                // the destination has had its id
	waits                      // it stays in transfer
	toDeadLetters              // of its source
	toTransferDeadLetters      // of its source
	goesBack                   // to the dead letters that it was one of
	staysThere                 // … which it does not leave: it has moved too often
)

// move is a kind of move, with how it ends.
type move struct {
	trigger model.Trigger
	fate    fate
	why     model.Refusal // Accepted: nobody refused it
}

var triggerNames = [...]string{model.Forward: "forwarded", model.ForwardDead: "forwarded as a dead letter", model.Via: "sent through an entity"}

func (m move) String() string {
	did := [...]string{arrives: "arrives", isKnown: "is known", isDuplicate: "is a duplicate", waits: "waits", toDeadLetters: "goes to the dead-letter queue",
		toTransferDeadLetters: "goes to the transfer dead-letter queue", goesBack: "goes back", staysThere: "stays"}[m.fate]
	return fmt.Sprintf("a message that is %s and %s (%v)", triggerNames[m.trigger], did, m.why)
}

// tooOften stands for a refusal in a [move] that was one too many.
const tooOften = model.Busy

// fates are those that many seeds must come across.
func fates() (all []move) {
	for t := model.Forward; t <= model.Via; t++ {
		for f := arrives; f <= isDuplicate; f++ {
			all = append(all, move{t, f, model.Accepted})
		}
	}
	refused := []model.Refusal{model.NotAllowed, model.TooLarge, model.NoMatch}
	// as forwarding.failures-to says
	for _, to := range []fate{toDeadLetters, toTransferDeadLetters} {
		for _, why := range append(refused, model.QuotaExceeded, model.Disabled, model.NoEntity, model.Invalid, tooOften) {
			all = append(all, move{model.Forward, to, why})
		}
		for _, why := range refused {
			all = append(all, move{model.ForwardDead, to, why})
		}
	}
	for _, why := range append(refused, model.Disabled, model.NoEntity) {
		all = append(all, move{model.Via, toTransferDeadLetters, why})
	}
	return append(all, move{model.ForwardDead, waits, model.QuotaExceeded}, move{model.ForwardDead, waits, model.Disabled}, move{model.Via, waits, model.QuotaExceeded},
		move{model.ForwardDead, goesBack, model.NoEntity}, move{model.ForwardDead, staysThere, tooOften})
}

// Unmoved lists the fates that no message had.
func (s *Stats) Unmoved() (all []move) {
	for _, m := range fates() {
		if s.Fates[m] == 0 {
			all = append(all, m)
		}
	}
	return all
}

func (w *world) fate(t model.Trigger, f fate, why model.Refusal) {
	if w.stats.Fates == nil {
		w.stats.Fates = map[move]int64{}
	}
	w.stats.Fates[move{t, f, why}]++
}

// landing notes what became of a message at its destination.
func (w *world) landing(from *queue, number uint64, l model.Landing) {
	m := from.model.Moving(number)
	if m == nil {
		return // it was offered before, and its transfer is over
	}
	w.refusals[moveKey{from.n, number}] = l.Refusal
	t := m.Transfer.Trigger
	switch {
	case l.Known:
		w.fate(t, isKnown, model.Accepted)
	case l.Dropped:
		w.fate(t, isDuplicate, model.Accepted)
	case l.Refusal == model.Accepted:
		w.fate(t, arrives, model.Accepted)
	case t != model.Forward && l.Refusal == model.QuotaExceeded, t == model.ForwardDead && l.Refusal == model.Disabled:
		w.fate(t, waits, l.Refusal)
	}
}

// failure counts a transfer that failed, by where its message goes.
func (w *world) failure(t event.Trigger, sub event.SubQueue, back bool, why model.Refusal) {
	f := toDeadLetters
	switch {
	case back:
		f = goesBack
	case sub == event.TransferDeadLetter:
		f = toTransferDeadLetters
	}
	w.fate(triggers[t], f, why)
}

var triggers = map[event.Trigger]model.Trigger{event.TriggerForward: model.Forward, event.TriggerDeadLetter: model.ForwardDead, event.TriggerVia: model.Via}

// inOrder checks that what goes one way arrives in the order in which it left: offers come in
// order, and what left before a message is known at the destination, or was refused in this run.
func (w *world) inOrder(from, to *queue, items []model.Arriving) {
	var last uint64
	for i := range items {
		n := items[i].Number
		m := from.model.Moving(n)
		if n <= last {
			w.broken("I21", "%s: transfer %d is offered to %s behind %d", from.path, n, to.path, last)
		}
		if last = n; i > 0 || m == nil {
			continue
		}
		for _, o := range from.model.Live {
			if t := o.Transfer; t != nil && t.To == m.Transfer.To && t.Trigger == m.Transfer.Trigger && t.Number < n &&
				!to.model.Arrived[from.n+1].Knows(t.Number) && w.refusals[moveKey{from.n, t.Number}] == model.Accepted {
				w.broken("I21", "%s: transfer %d is offered to %s, and %d, which is before it, was not", from.path, n, to.path, t.Number)
			}
		}
	}
}

// moveKey names a transfer.
type moveKey struct {
	from   int // of [queue].n
	number uint64
}

// mayFail checks that a transfer fails where the table of docs/decisions/0035 says so, with what
// its destination said, and that its message goes where the table says.
func (w *world) mayFail(q *queue, trigger model.Trigger, f *engine.FailTransfer) {
	why, said := refusals[f.Refusal.Code], w.refusals[moveKey{q.n, uint64(f.Number)}]
	m := q.model.Moving(uint64(f.Number))
	if m == nil {
		w.broken("I21", "%s: transfer %d fails, and was not open", q.path, f.Number)
	}
	gone := m.Transfer.To == 0 || w.queues[m.Transfer.To-1].ended
	if why != said && !(why == model.NoEntity && gone) {
		w.broken("I21", "%s: transfer %d fails because of %v, its destination said %v", q.path, f.Number, why, said)
	}
	to, back := w.o.failuresTo, false
	switch {
	case trigger == model.Forward:
	case why == model.QuotaExceeded, why == model.Disabled && trigger == model.ForwardDead:
		w.broken("I21", "%s: transfer %d (%s) fails because of %v: it must wait", q.path, f.Number, triggerNames[trigger], why)
	case trigger == model.Via:
		to = event.TransferDeadLetter
	case why == model.NoEntity:
		to, back = event.DeadLetter, true
	}
	if f.SubQueue != to || f.Back != back {
		w.broken("I21", "%s: the message of transfer %d (%s), refused with %v, goes to %v (back: %v), it must to %v (%v)", q.path, f.Number, triggerNames[trigger], why, f.SubQueue,
			f.Back, to, back)
	}
}

// comesFrom checks that what has arrived says where it comes from (docs/decisions/0035): the slice
// it left, and the message that it was there.
func (w *world) comesFrom(ev event.Event) {
	var a *event.Arrival
	var from event.Source
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		a, from = ev.Arrival, ev.Details.Source
	case *event.MessageScheduled:
		a, from = ev.Arrival, ev.Details.Source
	case *event.MessagePublished:
		a, from = ev.Arrival, ev.Details.Source
	}
	if a == nil {
		return
	}
	q := w.queueOf(a.Source.Entity)
	seq, known := w.leaving[moveKey{q.n, uint64(a.Number)}]
	if from.Relation != event.Forwarded || from.Slice != a.Source || known && uint64(from.Sequence) != seq {
		w.broken("I21", "what was transfer %d of %s says that it comes from %+v, it was message %d", a.Number, q.path, from, seq)
	}
}
