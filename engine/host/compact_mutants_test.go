//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugsOfBodies are those of bodies that are dropped although somebody needs them: C3 of the design, and a state that does not last.
func TestPlantedBugsOfBodies(t *testing.T) {
	for _, planted := range []mutant.Bug{"", mutant.NeedsWritten, mutant.ChangesDropped} {
		t.Run("bug "+string(planted), func(t *testing.T) {
			if out, err := child(t, planted, "-test.run", "^TestRandomMovesWithoutBodies$"); (err != nil) != (planted != "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
