//go:build mutants

package replay_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugs runs, for each planted bug that is to be found here, the test that is to find it in a child process, and demands that it does.
// Where nothing is planted it must find nothing.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for bug, finder := range map[mutant.Bug]string{
		mutant.BaseTooSoon:  "TestCutCrashAtEveryCall",
		mutant.CutTooSoon:   "TestCutCrashAtEveryCall",
		mutant.CutBodies:    "TestCut",
		mutant.BaseUnproved: "TestCut",
	} {
		for _, planted := range []mutant.Bug{"", bug} {
			t.Run(finder+" bug "+string(planted), func(t *testing.T) {
				cmd := exec.Command(self, "-test.short", "-test.run", "^"+finder+"$")
				cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(planted))
				if out, err := cmd.CombinedOutput(); (err != nil) != (planted != "") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
