//go:build mutants

package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// alive are the invariants that are broken when a lock that has ended counts as alive, for a settlement or for whoever is next;
// or when the answer that refuses a settlement comes before the fact of it is in the log.
var alive = []string{"I1", "I6", "I5", "I10", "I17", "I26", "P21"}

// bugs are those that the simulation must find, with the number of seeds that it has for each, and the invariants by which it may find it.
var bugs = []struct {
	bug    mutant.Bug
	seeds  int
	damage bool
	broken []string
}{
	{"", 300, false, nil},
	{"", 2000, true, nil},
	{mutant.AckBeforeSync, 1000, false, []string{"I1", "I13"}},
	{mutant.TruncateAlways, 5000, true, []string{"I1"}},
	{mutant.NoPayloadChecksum, 5000, true, []string{"I2", "I4", "I14", "I24", "F4"}},
	{mutant.ShowBeforeDurable, 1000, false, []string{"I13"}},
	{mutant.CheckAtArrival, 2000, false, alive},
	{mutant.StaleToken, 500, false, alive},
	{mutant.WallClock, 500, false, []string{"I5 (F15)"}},
	{mutant.ReuseSequenceNumber, 1000, false, []string{"I12", "I20", "P19"}}, // of a queue, of a subscription
	{mutant.AbandonedToBack, 500, false, []string{"I8"}},
	{mutant.ForgetDuplicates, 1000, false, []string{"I18"}},
	{mutant.DeliverExpired, 500, false, []string{"I14", "I17", "I19"}}, // the lock of the delivery is a record that should not be
	{mutant.DeadLetterInTwo, 1000, false, []string{"I19"}},
	{mutant.TakeBeforeDurable, 1000, false, []string{"I1", "I13"}}, // SM-022: the power is cut while receive-and-delete delivers
	{mutant.CopiesInTwo, 1000, false, []string{"I12"}},             // the second frame needs a number of its own
	{mutant.RuleBeforeDurable, 1000, false, []string{"I20"}},
	{mutant.ForgetCopies, 1000, false, []string{"I20", "I24"}},
	{mutant.LongCopies, 1000, false, []string{"I14", "I26"}},
	{mutant.IdleThoughHeld, 1000, false, []string{"I1"}},
	{mutant.TakenByNumber, 1000, false, []string{"I1", "I13"}},
	{mutant.ManyTokens, 500, false, []string{"I1", "I13"}},
	{mutant.LookFirst, 500, false, []string{"I13"}},
	{mutant.DeliverBeforeWritten, 1000, false, []string{"I13", "I26"}},
	{mutant.DeliverBeforeDurable, 1000, false, []string{"I13"}},
	{mutant.ReturnBeforeDurable, 2000, false, []string{"I13"}},
	{mutant.WrittenTooSoon, 2000, false, []string{"I1"}}, // a kill takes a lock away that a client has seen
	{mutant.NumbersTooSoon, 1000, false, []string{"I12", "I13"}},
	{mutant.FactAwaited, 200, false, []string{"I26"}}, // a reply does not come, and what it stands for is in the log
	{mutant.FactSynced, 200, false, []string{"I26"}},
	{mutant.FactMisnamed, 1000, false, []string{"facts"}},
	{mutant.CommitInTwo, 1000, false, []string{"I19"}},
	{mutant.PinExpires, 1000, false, []string{"I7", "I10", "I17", "I19", "I26", "P21"}}, // it is noticed, by a look at the queue for one, or counts as a delivery, or what is staged is not its client's any more
	{mutant.ReservedStays, 1000, false, []string{"I1", "I2", "I12", "I19", "I26"}},      // a send is refused for which there is room: that is answered later than what is staged
	{mutant.ForgetArrivals, 1000, false, []string{"I21", "I24", "P21"}},                 // what comes again is stored again: that is another record
	{mutant.BaseForgetsArrivals, 1000, false, []string{"I24"}},
	{mutant.OverTooSoon, 1000, false, []string{"I13", "I21"}},
	{mutant.HighWaterMark, 5000, false, []string{"I21"}},
	{mutant.FloorWritten, 5000, false, []string{"I21"}},
	{mutant.UnsetReleases, 2000, false, []string{"I2", "I26", "I5", "I17", "I21", "P19", "P21"}},
	{mutant.HopsForgotten, 1000, false, []string{"I21"}},
	{mutant.GoneBeforeTold, 5000, false, []string{"I21", "I26"}},
	{mutant.BehindOthers, 2000, false, []string{"I21"}},
	{mutant.FullFails, 5000, false, []string{"I21"}},
	{mutant.NumberedTwice, 2000, false, []string{"P21 (assertion)"}},
	{mutant.FloorOfAll, 500, false, []string{"I21"}},
	{mutant.DropUntold, 500, false, []string{"I21"}},
	{mutant.ElsewhereFrom, 500, false, []string{"I21"}},
	{mutant.NeverAgain, 500, false, []string{"I26"}},
	{mutant.ToldTooSoon, 500, false, []string{"I1", "I21"}},
	{mutant.NotCarriedOn, 500, false, []string{"I21", "I26"}},
	{mutant.UnknownRefused, 1000, false, []string{"I21", "I2"}},
	{mutant.SettlesNoMore, 1000, false, []string{"I2", "I6", "I7", "I16"}},
	{mutant.StagedWhileHung, 1000, false, []string{"S4 (faults)"}},
	{mutant.GrantedWhileHung, 1000, false, []string{"S4 (faults)", "I5", "I26"}},
	{mutant.DrainUnanswered, 1000, false, []string{"I26"}},
	{mutant.SendsInNeed, 1000, false, []string{"I2", "S4 (faults)"}},
	{mutant.NumberUnpartitioned, 500, false, []string{"I12", "I20", "I24", "P21 (assertion)"}},
	{mutant.CreditGivenBack, 1000, false, []string{"I26", "P19", "I5"}},
	{mutant.TwoSessions, 2000, false, []string{"I5", "I9", "I26", "P19"}},
	{mutant.RefusedIsAdopted, 1000, false, []string{"I25"}},
	{mutant.BaseUnproved, 1000, false, []string{"I24", "I1", "space"}},
	{mutant.CutBodies, 1000, false, []string{"I1"}},
	{mutant.CutUnasked, 1000, false, []string{"I1"}},
	{mutant.CutUnsaid, 1000, false, []string{"space"}},
	{mutant.AnswerForgotten, 8000, false, []string{"I1"}},
	{mutant.ChangesDropped, 2000, false, []string{"I1"}},
	{mutant.ScheduledDropped, 2000, false, []string{"I1"}},
	{canary, 1, false, []string{string(canary)}},
}

// TestPlantedBugs runs TestSim in a child process for every planted bug of reliability.md 6 that it has to find, and demands that
// it finds the bug within its number of seeds and by one of the invariants of reliability.md 5 that are named here. Where nothing
// is planted it must find nothing.
func TestPlantedBugs(t *testing.T) {
	for _, m := range bugs {
		name := string(m.bug)
		if name == "" {
			name = "none"
		}
		if m.damage {
			name += ", damage"
		}
		t.Run(name, func(t *testing.T) {
			broken, found, out := child(t, m.bug, m.seeds, m.damage)
			switch {
			case m.bug == "" && found != "":
				t.Errorf("nothing is planted, and there is a violation:\n%s", out)
			case m.bug != "" && found == "":
				t.Errorf("%s not found in %d seeds:\n%s", m.bug, m.seeds, out)
			case found != "" && !slices.Contains(m.broken, broken):
				t.Errorf("%s found as what it is not, one of %v was expected: %s", m.bug, m.broken, found)
			case found != "":
				t.Logf("%s found: %s", m.bug, found)
			default:
				t.Logf("no violation in %d seeds", m.seeds)
			}
		})
	}
}

// canary is a bug of the test itself: every seed reports a violation. It shows that reports arrive.
const canary mutant.Bug = "canary"

func init() { alwaysFail = mutant.On(canary) }

var violation = regexp.MustCompile(`VIOLATION (seed \d+: (.*?) broken .*)\n(?:.*\n)*?\s*after (\d+) seeds`)

// child runs TestSim with a bug planted and returns its first violation, and the invariant that it breaks. Seeds run one after
// the other, so that the first violation is always the same.
func child(t *testing.T, bug mutant.Bug, seeds int, damage bool) (broken, found, out string) {
	t.Helper()
	p, failed := planted.Run(t, bug, "-test.run", "^TestSim$", "-test.v", "-test.cpu", "1", "-seeds", strconv.Itoa(seeds), fmt.Sprintf("-damage=%v", damage))
	m := violation.FindSubmatch(p)
	if failed != (m != nil) {
		t.Fatalf("failed: %v, without a violation, or the other way round:\n%s", failed, p)
	}
	if m == nil {
		return "", "", string(p)
	}
	return string(m[2]), fmt.Sprintf("after %s seeds: %s", m[3], m[1]), string(p)
}
