//go:build mutants

package engine

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugs are those of rules that the simulation meets too seldom.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for bug, finder := range map[mutant.Bug]string{mutant.FirstForgotten: "TestFirstNumberOfWhatWaited", mutant.HandOverUncounted: "TestScripts"} {
		for _, planted := range []mutant.Bug{"", bug} {
			t.Run(finder+" bug "+string(planted), func(t *testing.T) {
				cmd := exec.Command(self, "-test.run", "^"+finder+"$")
				cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(planted))
				if out, err := cmd.CombinedOutput(); (err != nil) != (planted != "") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
