package ledger

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// firstLook is the number of events after which a slow answer reports its progress for the first
// time.
const firstLook = 100_000

// progress counts the events of a walk through a log. The zero value has passed none.
type progress struct{ passed, due int }

// pass counts events, and reports whether progress is to be told: after firstLook events, and then
// each time their number has grown fourfold.
func (r *progress) pass(events int) bool {
	r.passed += events
	if r.passed < max(r.due, firstLook) {
		return false
	}
	r.due = 4 * max(r.due, firstLook)
	return true
}

// tellProgress counts the events of a record, and tells how far the walk has come when that is due.
func (l *Ledger) tellProgress(r *progress, events int, at event.Time, what string) error {
	if !r.pass(events) {
		return nil
	}
	return l.tell(Line{Part: Note, Text: fmt.Sprintf("running: %s up to %s, after %s events", what, at, grouped(r.passed)),
		Fields: print.Object{print.Named("Running", true), print.Named("Time", at.String()), print.Named("Events", r.passed)}})
}
