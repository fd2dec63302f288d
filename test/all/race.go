package main

import (
	"maps"
	"slices"
	"strings"
)

// raced lists the packages, below the module's path, that are tested under the race detector: those
// in which goroutines share memory. It makes tests five to ten times as slow, and in the others,
// most of them pure functions on one goroutine, it has nothing to find.
var raced = []string{
	"cmd/broker", "engine/background", "engine/host", "engine/ledger", "engine/loop", "index", "internal/budget", "log", "log/disk",
	"protocol/access", "protocol/ledger", "protocol/listen", "protocol/servicebus",
	"tools/client", "tools/client/admin", "tools/mirror",
}

// alone lists, by package of raced, the tests of one goroutine that do so much that they would take
// most of the time under the race detector. All tests of these packages run without it as well.
var alone = map[string][]string{
	"engine/host":   {"TestMemoryOfMoving", "TestMovesSurviveEveryCall", "TestRandomMoves", "TestRandomMovesWithoutBodies"},
	"engine/ledger": {"TestDebuggerStates", "TestRunning"},
	"index": {
		"TestClockSetMovesAllTimes", "TestDecodeChangedBytes", "TestEncodingIsCanonical", "TestEncodingStays", "TestMemory",
		"TestMemoryOfLeftMessages", "TestMemoryOfMoves", "TestOrderOfSessions", "TestPageOfManySessions", "TestStateAtAnyPoint", "TestTree",
	},
	"log": {
		"TestBlocksAreChecked", "TestDamagedFileKeepsItsBodies", "TestF1F2F14CrashAtEveryCall",
		"TestF3TornAtEveryByte", "TestF3TornWithoutNotes", "TestF4FlipAtEveryByte", "TestF8F9F10ErrorAtEveryCall",
		"TestFileOfBodiesIsReadBack", "TestNamespaceBits", "TestRaiseCrashesAnywhere", "TestRandomCrashes",
		"TestScrubFindsEveryPart", "TestScrubOfWhatGoes", "TestSealedIsReadBack", "TestSealedRatio",
		"TestSharedWhileWritten", "TestTailBytes", "TestVerdicts",
	},
}

// notRaced is the regular expression of the tests in alone.
func notRaced() string {
	var names []string
	for _, pkg := range slices.Sorted(maps.Keys(alone)) {
		names = append(names, alone[pkg]...)
	}
	return "^(" + strings.Join(names, "|") + ")$"
}
