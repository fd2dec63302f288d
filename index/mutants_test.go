//go:build mutants

package index

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugs plants each way to forget something that the state points to, and demands that it is found; without one nothing is.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, planted := range []mutant.Bug{"", mutant.ChangesDropped, mutant.StatesDropped, mutant.ScheduledDropped} {
		t.Run("bug "+string(planted), func(t *testing.T) {
			cmd := exec.Command(self, "-test.run", "^TestBlobsAreAllThatIsNeeded$")
			cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(planted))
			if out, err := cmd.CombinedOutput(); (err != nil) != (planted != "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
