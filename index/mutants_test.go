//go:build mutants

package index

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs finds the planted ways to forget something that the state points to.
func TestPlantedBugs(t *testing.T) {
	const finder = "TestBlobsAreAllThatIsNeeded"
	planted.Find(t, map[mutant.Bug]string{mutant.ChangesDropped: finder, mutant.StatesDropped: finder, mutant.ScheduledDropped: finder})
}
