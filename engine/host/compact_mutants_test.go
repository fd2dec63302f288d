//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugsOfBodies are those of bodies that are dropped although somebody needs them: C3 of the design, and a state that does not last.
func TestPlantedBugsOfBodies(t *testing.T) {
	const finder = "TestRandomMovesWithoutBodies"
	planted.Find(t, map[mutant.Bug]string{mutant.NeedsWritten: finder, mutant.ChangesDropped: finder, mutant.UndoneDropped: "TestUndoKeepsBodies", mutant.ReadingForgotten: "TestUnreadDeliveriesKeepBodies"})
}
