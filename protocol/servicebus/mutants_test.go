//go:build mutants

package servicebus

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugs runs the tests of memory in a child process for each planted bug that is theirs to find, and demands that they find it. Where nothing is
// planted they must find nothing.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, bug := range []mutant.Bug{"", mutant.KeptForEver, mutant.SleepsOnItsChunk, mutant.NobodyGoes, mutant.FreedTooSoon} {
		t.Run("bug "+string(bug), func(t *testing.T) {
			cmd := exec.Command(self, "-test.run", "^TestMemory")
			cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(bug))
			if out, err := cmd.CombinedOutput(); (err != nil) != (bug != "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
