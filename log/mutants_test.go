//go:build mutants

package log_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugs runs TestF8EveryCallWithoutRoom in a child process for each planted bug that is its to find, and demands that it finds it.
// Where nothing is planted it must find nothing.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, bug := range []mutant.Bug{"", mutant.HalfFrame} {
		t.Run("bug "+string(bug), func(t *testing.T) {
			cmd := exec.Command(self, "-test.run", "^TestF8EveryCallWithoutRoom$")
			cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(bug))
			if out, err := cmd.CombinedOutput(); (err != nil) != (bug != "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
