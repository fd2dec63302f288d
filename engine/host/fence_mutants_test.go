//go:build mutants

package host

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugsOfFences are those of partitions that come and go.
func TestPlantedBugsOfFences(t *testing.T) {
	findEach(t, map[mutant.Bug]string{
		mutant.RestartKeeps: "TestFenceAndRestart", mutant.UnknownRefused: "TestMovesOverFences", mutant.ReceiversLeft: "TestFenceAndRestart",
	})
}

// TestPlantedBugsOfTransfers are those of messages in transfer that the simulation has none of: it damages no body and looks for no entity in between.
func TestPlantedBugsOfTransfers(t *testing.T) {
	findEach(t, map[mutant.Bug]string{mutant.UnreadableKept: "TestUnreadableInTransfer", mutant.SourceAskedLate: "TestDeadLetterSourceOfDeleted"})
}

// findEach runs, for each planted bug, the test that is to find it in a child process, and demands that it does, and finds nothing without the bug.
func findEach(t *testing.T, finders map[mutant.Bug]string) {
	t.Helper()
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for bug, finder := range finders {
		for _, planted := range []mutant.Bug{"", bug} {
			t.Run(finder+" bug "+string(planted), func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(self, "-test.run", "^"+finder+"$", "-test.count", "3", "-test.failfast", "-test.timeout", "10s")
				cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(planted))
				if out, err := cmd.CombinedOutput(); (err != nil) != (planted != "") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
