//go:build mutants

package host

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
)

// TestPlantedBugsOfFences finds planted bugs about partitions that come and go.
func TestPlantedBugsOfFences(t *testing.T) {
	find(t, map[mutant.Bug]string{
		mutant.RestartKeeps: "TestFenceAndRestart", mutant.UnknownRefused: "TestMovesOverFences", mutant.ReceiversLeft: "TestFenceAndRestart",
	})
}

// TestPlantedBugsOfTransfers finds planted bugs about messages in transfer that the simulation cannot find: it damages no body, and looks up no entity while
// messages are on their way.
func TestPlantedBugsOfTransfers(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.UnreadableKept: "TestUnreadableInTransfer", mutant.SourceAskedLate: "TestDeadLetterSourceOfDeleted"})
}

// TestPlantedBugsOfPartitions finds planted bugs about entities with several partitions.
func TestPlantedBugsOfPartitions(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.MovedInTurn: "TestMovesToPartitionsSurviveEveryCall", mutant.SpanUnbound: "TestMovesSpan",
		mutant.RoutedAgain: "TestUnknownSendsGoNowhereElse"})
}

// TestPlantedBugsOfHistory finds planted bugs about which history may be dropped, and when.
func TestPlantedBugsOfHistory(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.CutAloneFrees: "TestUpgradeNamed", mutant.CutUnsaid: "TestUpgradeLow"})
}

// TestPlantedBugsOfBackups finds the planted bug where loops do not wait for each other.
func TestPlantedBugsOfBackups(t *testing.T) {
	find(t, map[mutant.Bug]string{mutant.MarksApart: "TestBackupWaits"})
}
