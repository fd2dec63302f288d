//go:build mutants

package host

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugsOfFences runs, for each planted bug of partitions that come and go, the test that is to find it in a child process, and demands that
// it does.
func TestPlantedBugsOfFences(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for bug, finder := range map[mutant.Bug]string{
		mutant.RestartKeeps: "TestFenceAndRestart", mutant.UnknownRefused: "TestMovesOverFences", mutant.ReceiversLeft: "TestFenceAndRestart",
	} {
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
