//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugsOfFences are those of partitions that come and go.
func TestPlantedBugsOfFences(t *testing.T) {
	findEach(t, map[mutant.Bug]string{
		mutant.RestartKeeps: "TestFenceAndRestart", mutant.UnknownRefused: "TestMovesOverFences", mutant.ReceiversLeft: "TestFenceAndRestart",
	})
}

// TestPlantedBugsOfTransfers are those of messages in transfer that the simulation has none of: it damages no body and looks for no entity in between.
func TestPlantedBugsOfTransfers(t *testing.T) {
	findEach(t, map[mutant.Bug]string{mutant.UnreadableKept: "TestUnreadableInTransfer", mutant.SourceAskedLate: "TestDeadLetterSourceOfDeleted"})
}

// TestPlantedBugsOfHistory are those of what may go, and when.
func TestPlantedBugsOfHistory(t *testing.T) {
	findEach(t, map[mutant.Bug]string{mutant.UndoForgotten: "TestHistoryPlan", mutant.GraceForgotten: "TestHistoryGrace"})
}

// TestPlantedBugsOfBackups is that of loops that do not wait for each other.
func TestPlantedBugsOfBackups(t *testing.T) {
	findEach(t, map[mutant.Bug]string{mutant.MarksApart: "TestBackupWaits"})
}
