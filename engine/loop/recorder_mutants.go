//go:build mutants

package loop

import (
	"slices"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// splitRecord is where planted bugs are: what one decision leads to becomes two records, and two frames if it can.
func splitRecord(r *recorder, now event.Time, out engine.Outcome) engine.Outcome {
	first, rest := engine.Outcome{}, out
	switch {
	case mutant.On(mutant.DeadLetterInTwo):
		first, rest = splitDeadLetter(out)
	case mutant.On(mutant.CopiesInTwo):
		first, rest = splitCopies(out)
	case mutant.On(mutant.CommitInTwo):
		first, rest = splitCommit(out)
	}
	if len(first.Events) > 0 {
		r.record(now, first)
		r.commit()
	}
	return rest
}

// splitDeadLetter is a planted bug: what comes before a dead-lettering gets a record of its own, and a frame if it can.
func splitDeadLetter(out engine.Outcome) (first, rest engine.Outcome) {
	n := len(out.Events) - 1
	if n > 0 && out.Events[n].Kind() == event.KindMessageDeadLettered {
		first = engine.Outcome{Events: out.Events[:n], Level: out.Level}
		out.Events = out.Events[n:]
	}
	return first, out
}

// splitCopies is a planted bug: of the copies that a send makes the first gets a record of its own, and a frame if it can.
func splitCopies(out engine.Outcome) (first, rest engine.Outcome) {
	n := len(out.Events) - 1
	if n < 0 {
		return first, out
	}
	ev, ok := out.Events[n].(*event.MessagePublished)
	if !ok || len(ev.Copies) < 2 || ev.Batch > 0 {
		return first, out
	}
	one, others := *ev, *ev
	one.Copies, others.Copies = ev.Copies[:1], ev.Copies[1:]
	others.Sequence, others.DuplicateUntil = ev.Sequence+1, 0
	first = engine.Outcome{Events: append(slices.Clone(out.Events[:n]), &one), Level: out.Level}
	out.Events = []event.Event{&others}
	return first, out
}

// splitCommit is a planted bug: the last event of a commit gets a record of its own, and a frame if it can.
func splitCommit(out engine.Outcome) (first, rest engine.Outcome) {
	n := len(out.Events) - 1
	if slices.ContainsFunc(out.Events, func(ev event.Event) bool { return ev.Kind() == event.KindTransactionCommitted }) &&
		out.Events[n].Kind() != event.KindTransactionCommitted {
		first = engine.Outcome{Events: out.Events[:n], Level: out.Level}
		out.Events = out.Events[n:]
	}
	return first, out
}

// applyRuleEarly is a planted bug: a change of a rule is in force before it is durable.
func applyRuleEarly(part *engine.Partition, ev event.Event) {
	if !mutant.On(mutant.RuleBeforeDurable) {
		return
	}
	sub, err := part.Entity(ev.Common().Slice)
	if err != nil {
		return
	}
	switch ev := ev.(type) {
	case *event.RuleAdded:
		part.ConfigureRule(sub, ev.Rule)
	case *event.RuleUpdated:
		part.ConfigureRule(sub, ev.Rule)
	case *event.RuleRemoved:
		part.ForgetRule(sub, ev.Rule.Name)
	}
}

// decidedSends are the sends of each loop that another partition could have taken, where mutant.RoutedAgain is planted.
var decidedSends sync.Map // of *Loop to []engine.Request

func keepDecided(l *Loop, req *engine.Request) {
	if send, ok := req.Command.(*engine.Send); ok && send.Others > 0 && mutant.On(mutant.RoutedAgain) {
		all, _ := decidedSends.LoadOrStore(l, []engine.Request(nil))
		decidedSends.Store(l, append(all.([]engine.Request), *req))
	}
}

// routeAgain is a planted bug: sends that were decided, and whose outcome nobody knows when the loop ends, go to other partitions, and are not answered.
func routeAgain(l *Loop) {
	all, ok := decidedSends.LoadAndDelete(l)
	if !ok {
		return
	}
	for _, req := range all.([]engine.Request) {
		for _, hs := range [][]held{l.replies.acks.front[l.replies.acks.next:], l.replies.acks.back} {
			for i := range hs {
				h := &hs[i]
				if h.reply.Tag == req.Tag && h.sink == req.Sink && h.reply.Err == nil && len(l.others.take([]engine.Request{req})) == 0 {
					h.receiver = new(receiver) // who gets no answer
				}
			}
		}
	}
}
