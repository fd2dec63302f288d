//go:build mutants

package background

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs finds planted bugs about which history may be dropped and when, and about memory that has to be taken before it is used.
func TestPlantedBugs(t *testing.T) {
	planted.Find(t, map[mutant.Bug]string{mutant.UndoForgotten: "TestHistoryPlan", mutant.GraceForgotten: "TestHistoryGrace", mutant.CutNoFurther: "TestHistoryPlan",
		mutant.FlownUnpaid: "TestF22CourierTakesMemory"})
}
