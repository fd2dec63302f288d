//go:build mutants

package log_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugs runs the tests with an error at each call in a child process for each planted bug that is its to find, and demands that they find it.
// Where nothing is planted they must find nothing.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, bug := range []mutant.Bug{"", mutant.HalfFrame, mutant.SyncForgiven} {
		t.Run("bug "+string(bug), func(t *testing.T) {
			cmd := exec.Command(self, "-test.run", "^(TestF8EveryCallWithoutRoom|TestF8F9F10ErrorAtEveryCall)$")
			cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(bug))
			if out, err := cmd.CombinedOutput(); (err != nil) != (bug != "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
