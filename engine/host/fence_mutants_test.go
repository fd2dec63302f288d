//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugsOfFences are those of partitions that come and go.
func TestPlantedBugsOfFences(t *testing.T) {
	find(t, map[mutant.Bug]string{
		mutant.RestartKeeps: "TestFenceAndRestart", mutant.UnknownRefused: "TestMovesOverFences", mutant.ReceiversLeft: "TestFenceAndRestart",
	})
}

// TestPlantedBugsOfTransfers are those of messages in transfer that the simulation has none of: it damages no body and looks for no entity in between.
func TestPlantedBugsOfTransfers(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.UnreadableKept: "TestUnreadableInTransfer", mutant.SourceAskedLate: "TestDeadLetterSourceOfDeleted"})
}

// TestPlantedBugsOfPartitions are those of entities with several.
func TestPlantedBugsOfPartitions(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.MovedInTurn: "TestMovesToPartitionsSurviveEveryCall", mutant.SpanUnbound: "TestMovesSpan"})
}

// TestPlantedBugsOfHistory are those of what may go, and when.
func TestPlantedBugsOfHistory(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.UndoForgotten: "TestHistoryPlan", mutant.GraceForgotten: "TestHistoryGrace"})
}

// TestPlantedBugsOfBackups is that of loops that do not wait for each other.
func TestPlantedBugsOfBackups(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.MarksApart: "TestBackupWaits"})
}

// TestPlantedBugsOfMemory are those of memory that is taken before it is used.
func TestPlantedBugsOfMemory(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.FlownUnpaid: "TestF22CourierTakesMemory", mutant.NeverSaved: "TestF22CheckpointTakesMemory"})
}
