package sim

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// What becomes of messages that move (docs/decisions/0035). Each row of the table there has to be met by many seeds, for each trigger: a run in which one
// never came up says nothing about it.

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

// move is one of a kind.
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
	for _, to := range []fate{toDeadLetters, toTransferDeadLetters} { // as forwarding.failures-to says
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

// landing counts what became of a message at its destination.
func (w *world) landing(m *model.Message, l model.Landing) {
	if m == nil {
		return // it was offered before, and its transfer is over
	}
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
