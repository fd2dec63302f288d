//go:build mutants

package log_test

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/test/planted"
)

// TestPlantedBugs plants the bugs that concern files: each is found by the test beside it.
func TestPlantedBugs(t *testing.T) {
	planted.Find(t, map[mutant.Bug]string{
		mutant.HalfFrame:       "TestF8EveryCallWithoutRoom",
		mutant.SyncForgiven:    "(TestF8EveryCallWithoutRoom|TestF8F9F10ErrorAtEveryCall)",
		mutant.SharedWritten:   "TestSharedShowsWhatLasts",
		mutant.ReopenTrusts:    "TestReopenAfterErrorAtEveryCall",
		mutant.ReopenForgets:   "TestReopenRefusesWhatASyncLostSilently",
		mutant.ReadFilesKept:   "TestClosedPartitionHasNoFileOpen",
		mutant.CheckpointsPile: "TestCheckpointsAreKept",
		mutant.RevisionBefore:  "TestF1F2F14CrashAtEveryCall/dropping",

		mutant.CachedUnpaid: "TestF22BlockCacheTakesMemory",

		mutant.GoneBeforeListed: "TestF1F2F14CrashAtEveryCall$/^sealing",
		mutant.ListedUnsynced:   "TestF1F2F14CrashAtEveryCall$/^sealing",
		mutant.ScrubBlind:       "TestScrubFindsEveryPart",
		mutant.ScrubForgets:     "TestScrubGoesOn",
		mutant.NotReadBack:      "TestSealedIsReadBack",

		mutant.BodiesNotReadBack: "TestFileOfBodiesIsReadBack",
		mutant.BlockUnchecked:    "TestBlocksAreChecked",
		mutant.IndexForgets:      "TestF1F2F14CrashAtEveryCall$/^sealing",
	})
}
