package main

// raced lists the packages, below the module's path, that are tested under the race detector: those
// in which goroutines share memory. It makes tests five to ten times as slow, and in the others,
// most of them pure functions on one goroutine, it has nothing to find.
var raced = []string{
	"cmd/broker", "engine/host", "index", "internal/budget", "engine/ledger", "log/disk",
	"protocol/access", "protocol/ledger", "protocol/listen", "protocol/servicebus",
	"tools/client", "tools/client/admin", "tools/mirror",
}

// racedInPart is the package of which all tests run without the race detector, and once more under
// it those that are not in slowAlone.
const racedInPart = "log"

// slowAlone lists the tests of racedInPart that use a log from one goroutine, in so many ways or at so
// many places that they would take most of the time of a run under the race detector.
var slowAlone = []string{
	"TestBlocksAreChecked", "TestDamagedFileKeepsItsBodies", "TestF1F2F14CrashAtEveryCall",
	"TestF3TornAtEveryByte", "TestF3TornWithoutNotes", "TestF4FlipAtEveryByte", "TestFileOfBodiesIsReadBack",
	"TestNamespaceBits", "TestRaiseCrashesAnywhere", "TestRandomCrashes", "TestScrubFindsEveryPart",
	"TestScrubOfWhatGoes", "TestSealedIsReadBack", "TestSealedRatio", "TestSharedWhileWritten", "TestTailBytes",
	"TestVerdicts",
}
