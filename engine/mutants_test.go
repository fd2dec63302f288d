//go:build mutants

package engine

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs finds the planted bugs in rules that the simulation exercises too seldom.
func TestPlantedBugs(t *testing.T) {
	planted.Find(t, map[mutant.Bug]string{mutant.FirstForgotten: "TestFirstNumberOfWhatWaited", mutant.HandOverUncounted: "TestScripts"})
}
