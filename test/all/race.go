package main

import "strings"

// raced lists the packages, below the module's path, that are tested under the race detector: those
// in which goroutines share memory. It makes tests five to ten times as slow, and in the others,
// most of them pure functions on one goroutine, it has nothing to find.
var raced = []string{
	"cmd/broker", "internal/budget", "engine/ledger", "log/disk",
	"protocol/access", "protocol/ledger", "protocol/listen", "protocol/servicebus",
	"tools/client", "tools/client/admin", "tools/mirror",
}

// racedInPart lists packages of which all tests run without the race detector, and once more under
// it only some.
var racedInPart = []partly{
	{pkg: "engine/host", skip: ofOneGoroutine},
	{pkg: "log", skip: slowAlone},
	{pkg: "index", run: []string{"TestFirstChangeCopiesLittle", "TestQuestionsOnlyRead", "TestSlots", "TestSnapshotStays"}}, // those with goroutines
}

// partly is a package with the tests that run under the race detector: those that are named, or all but those.
type partly struct {
	pkg       string // below the module's path
	run, skip []string
}

// args are the arguments of go test for the tests.
func (p partly) args() []string {
	if len(p.run) > 0 {
		return []string{"-run", "^(" + strings.Join(p.run, "|") + ")$", module + p.pkg}
	}
	return []string{"-skip", "^(" + strings.Join(p.skip, "|") + ")$", module + p.pkg}
}

// ofOneGoroutine lists the tests of engine/host that step loops by hand, from one goroutine, a great many times.
var ofOneGoroutine = []string{"TestMemoryOfMoving", "TestMovesSurviveEveryCall", "TestRandomMoves", "TestRandomMovesWithoutBodies"}

// slowAlone lists the tests of log that use a log from one goroutine, in so many ways or at so
// many places that they would take most of the time of a run under the race detector.
var slowAlone = []string{
	"TestBlocksAreChecked", "TestDamagedFileKeepsItsBodies", "TestF1F2F14CrashAtEveryCall",
	"TestF3TornAtEveryByte", "TestF3TornWithoutNotes", "TestF4FlipAtEveryByte", "TestF8F9F10ErrorAtEveryCall",
	"TestFileOfBodiesIsReadBack", "TestNamespaceBits", "TestRaiseCrashesAnywhere", "TestRandomCrashes",
	"TestScrubFindsEveryPart", "TestScrubOfWhatGoes", "TestSealedIsReadBack", "TestSealedRatio",
	"TestSharedWhileWritten", "TestTailBytes", "TestVerdicts",
}
