//go:build mutants

package loop

import (
	"regexp"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs runs TestPorts in a child process for each planted bug that TestPorts has to find, and demands that it reports the bug as what it is.
// Where nothing is planted it must find nothing.
func TestPlantedBugs(t *testing.T) {
	for _, m := range []struct {
		bug   mutant.Bug
		finds string
	}{
		{"", ""},
		{mutant.CreditGivenBack, "has [0-9]+ deliveries for a credit of|left and must have"},
		{mutant.TwoSessions, "is answered twice|sessions are locked for"},
		{mutant.NoneTooSoon, "is told that there is no session"},
	} {
		t.Run("bug "+string(m.bug), func(t *testing.T) {
			out, failed := planted.Run(t, m.bug, "-test.run", "^TestPorts$", "-test.v", "-ports", "500")
			switch found := regexp.MustCompile(`(?m)^.*seed \d+: .*$`).Find(out); {
			case m.bug == "" && failed:
				t.Errorf("nothing is planted:\n%s", out)
			case m.bug != "" && (!failed || !regexp.MustCompile(m.finds).Match(found)):
				t.Errorf("%s is not found as what it is:\n%s", m.bug, out)
			default:
				t.Logf("found: %s", found)
			}
		})
	}
}

// TestPlantedBugsOfFaults does the same with the tests of what is refused while the disk hangs or there is no memory.
func TestPlantedBugsOfFaults(t *testing.T) {
	for _, m := range []struct {
		bug   mutant.Bug
		finds string
	}{
		{"", "^PASS"},
		{mutant.SettlesNoMore, "complete is answered .*it has no memory"},
		{mutant.StagedWhileHung, "send in a transaction, the disk hangs true: 1 of 1 pass"},
		{mutant.GrantedWhileHung, "while the disk hangs there is a grant"},
	} {
		t.Run("bug "+string(m.bug), func(t *testing.T) {
			out, failed := planted.Run(t, m.bug, "-test.run", "^(TestF22|TestF11)")
			if failed != (m.bug != "") || !regexp.MustCompile("(?m)"+m.finds).Match(out) {
				t.Errorf(`%s; want failed == (m.bug != "") && regexp.MustCompile("(?m)"+m.finds).Match(out)`, out)
			}
		})
	}
}

// TestPlantedBugsOfCheckpoints finds the planted bug where no checkpoint is made for want of memory.
func TestPlantedBugsOfCheckpoints(t *testing.T) {
	planted.Find(t, map[mutant.Bug]string{mutant.NeverSaved: "TestF22CheckpointTakesMemory"})
}
