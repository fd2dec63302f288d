//go:build mutants

package host

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// split is where two planted bugs are: what one decision leads to becomes two records, and two frames if it can.
func split(r *recorder, now event.Time, out engine.Outcome) engine.Outcome {
	switch {
	case mutant.On(mutant.DeadLetterInTwo):
		return splitDeadLetter(r, now, out)
	case mutant.On(mutant.CopiesInTwo):
		return splitCopies(r, now, out)
	}
	return out
}

// splitDeadLetter is a planted bug: what comes before a dead-lettering gets a record of its own, and a frame if it can.
func splitDeadLetter(r *recorder, now event.Time, out engine.Outcome) engine.Outcome {
	n := len(out.Events) - 1
	if n > 0 && out.Events[n].Kind() == event.KindMessageDeadLettered {
		r.write(now, engine.Outcome{Events: out.Events[:n], Level: out.Level})
		r.commit()
		out.Events = out.Events[n:]
	}
	return out
}

// splitCopies is a planted bug: of the copies that a send makes the first gets a record of its own, and a frame if it can.
func splitCopies(r *recorder, now event.Time, out engine.Outcome) engine.Outcome {
	n := len(out.Events) - 1
	if n < 0 {
		return out
	}
	ev, ok := out.Events[n].(*event.MessagePublished)
	if !ok || len(ev.Copies) < 2 || ev.Batch > 0 {
		return out
	}
	first, rest := *ev, *ev
	first.Copies, rest.Copies = ev.Copies[:1], ev.Copies[1:]
	rest.Sequence, rest.DuplicateUntil = ev.Sequence+1, 0
	r.write(now, engine.Outcome{Events: append(slices.Clone(out.Events[:n]), &first), Level: out.Level})
	r.commit()
	out.Events = []event.Event{&rest}
	return out
}

// hasten is a planted bug: a change of a rule is in force before it is durable.
func hasten(part *engine.Partition, ev event.Event) {
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
