package ledger

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// firstLook is after how many events an answer that takes its time says so for the first time.
const firstLook = 100_000

// running counts the events of a walk through a log. The zero value has passed none.
type progress struct{ passed, due int }

// pass counts events, and reports whether it is time to say how far the walk has come: after
// firstLook of them, and then each time they are four times as many.
func (r *progress) pass(events int) bool {
	r.passed += events
	if r.passed < max(r.due, firstLook) {
		return false
	}
	r.due = 4 * max(r.due, firstLook)
	return true
}

// passes counts the events of a record, and tells how far the walk has come when it is time to.
func (l *Ledger) tellProgress(r *progress, events int, at event.Time, what string) error {
	if !r.pass(events) {
		return nil
	}
	return l.tell(Line{Part: Note, Text: fmt.Sprintf("running: %s up to %s, after %s events", what, at, grouped(r.passed)),
		Fields: print.Object{print.Named("Running", true), print.Named("Time", at.String()), print.Named("Events", r.passed)}})
}
