//go:build mutants

package sim

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugs runs TestSim in a child process for every planted bug of reliability.md 6 that is its to find, and
// demands that it finds it within its budget of seeds; and that it finds nothing where nothing is planted.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	for _, m := range []struct {
		bug    mutant.Bug
		seeds  int
		damage bool
	}{
		{"", 300, false},
		{"", 300, true},
		{mutant.AckBeforeSync, 1000, false},
		{mutant.TruncateAlways, 1000, false},
		{mutant.NoPayloadChecksum, 5000, true},
		{mutant.ShowBeforeDurable, 1000, false},
		{mutant.CheckAtArrival, 2000, false},
		{mutant.StaleToken, 500, false},
		{mutant.WallClock, 500, false},
		{mutant.ReuseSequenceNumber, 1000, false},
		{mutant.AbandonedToBack, 500, false},
		{mutant.ForgetDuplicates, 1000, false},
		{mutant.DeliverExpired, 500, false},
		{mutant.DeadLetterInTwo, 1000, false},
		{mutant.TakeBeforeDurable, 1000, false},
		{mutant.CopiesInTwo, 1000, false},
		{mutant.RuleBeforeDurable, 1000, false},
		{mutant.ForgetCopies, 1000, false},
		{mutant.LongCopies, 1000, false},
		{canary, 1, false},
	} {
		name := string(m.bug)
		if name == "" {
			name = "none"
		}
		if m.damage {
			name += ", damage"
		}
		t.Run(name, func(t *testing.T) {
			found, out := child(t, m.bug, m.seeds, m.damage)
			switch {
			case m.bug == "" && found != "":
				t.Errorf("nothing is planted, and there is a violation:\n%s", out)
			case m.bug != "" && found == "":
				t.Errorf("%s not found in %d seeds:\n%s", m.bug, m.seeds, out)
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

var violation = regexp.MustCompile(`VIOLATION (.*)\n\s*after (\d+) seeds`)

// child runs TestSim with a bug planted and returns its first violation.
func child(t *testing.T, bug mutant.Bug, seeds int, damage bool) (found, out string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestSim$", "-test.v", "-seeds", strconv.Itoa(seeds), fmt.Sprintf("-damage=%v", damage))
	cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(bug))
	p, err := cmd.CombinedOutput()
	m := violation.FindSubmatch(p)
	if (err != nil) != (m != nil) {
		t.Fatalf("child ended with %v:\n%s", err, p)
	}
	if m == nil {
		return "", string(p)
	}
	return fmt.Sprintf("after %s seeds: %s", m[2], m[1]), string(p)
}
