//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugsOfBodies finds planted bugs that drop bodies which somebody needs: C3 of the design, and bodies dropped because a state that is not durable does not need them.
func TestPlantedBugsOfBodies(t *testing.T) {
	const finder = "TestRandomMovesWithoutBodies"
	planted.Find(t, map[mutant.Bug]string{mutant.NeedsWritten: finder, mutant.ChangesDropped: finder, mutant.UndoneDropped: "TestUndoKeepsBodies", mutant.ReadingForgotten: "TestUnreadDeliveriesKeepBodies",
		mutant.AnswerForgotten: "TestUnreadAnswersKeepBodies"})
}
