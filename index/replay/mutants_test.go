//go:build mutants

package replay_test

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs finds planted bugs about the base and the history that it replaces.
func TestPlantedBugs(t *testing.T) {
	planted.Find(t, map[mutant.Bug]string{
		mutant.BaseTooSoon:     "TestCutCrashAtEveryCall",
		mutant.CutTooSoon:      "TestCutCrashAtEveryCall",
		mutant.CutBodies:       "TestCut",
		mutant.BaseUnproved:    "TestCut",
		mutant.BodiesUnsynced:  "TestCutCrashAtEveryCall",
		mutant.BodiesForgotten: "TestCut",

		mutant.CutUnasked: "TestCutKeepsTheOnlyFile",
		mutant.CutBeyond:  "TestCutKeepsWhatIsKeptNow",
	}, "-test.short")
}
