//go:build mutants

package host

import (
	"os"
	"os/exec"
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestBackupPlantedBugs runs TestBackupWaits in a child process with loops that do not wait for each other, and demands that it finds that.
func TestBackupPlantedBugs(t *testing.T) {
	if os.Getenv("LEDGERBUS_MUTANT") != "" {
		t.Skip("is a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, bug := range []mutant.Bug{"", mutant.MarksApart} {
		t.Run("bug "+string(bug), func(t *testing.T) {
			cmd := exec.Command(self, "-test.run", "^TestBackupWaits$")
			cmd.Env = append(os.Environ(), "LEDGERBUS_MUTANT="+string(bug))
			if out, err := cmd.CombinedOutput(); (err != nil) != (bug != "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
