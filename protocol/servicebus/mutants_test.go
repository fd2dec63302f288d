//go:build mutants

package servicebus

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs are those of the memory of connections.
func TestPlantedBugs(t *testing.T) {
	const finder = "TestMemory.*"
	planted.Find(t, map[mutant.Bug]string{mutant.KeptForEver: finder, mutant.SleepsOnItsChunk: finder, mutant.NobodyGoes: finder, mutant.FreedTooSoon: finder, mutant.WindowIgnored: finder})
}
