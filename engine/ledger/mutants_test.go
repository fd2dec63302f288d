//go:build mutants

package ledger

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs finds planted bugs in answers about the past.
func TestPlantedBugs(t *testing.T) {
	planted.Find(t, map[mutant.Bug]string{mutant.ArrivesFirst: "TestMovesAreInOrder"})
}
