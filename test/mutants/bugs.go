package main

// bugs are all planted bugs. Documents and tests name them by their ids. Those with an M are of
// reliability.md 6; test/tidy/planted_test.go says how others of that section are shown absent. The
// rest were added with what they break.
var bugs = []bug{
	of("M1", "a durable ticket completes before the sync", sim(1000, "I1", "I13")),
	of("M3", "recovery cuts the log at the first bad frame, whatever it is", damaged(5000, "I1")),
	of("M4", "payload checksums are not compared", damaged(5000, "I2", "I4", "I14", "I24", "F4")),
	of("M11", "outcomes leave before their frame is durable", sim(1000, "I13")),
	of("M12", "whether a lock is alive is judged by the time before the command's turn came",
		sim(2000, alive...)),
	of("M13", "a settlement with a token that is not the current one is accepted",
		sim(500, alive...)),
	of("M14", "locks end by the wall clock", sim(500, "I5 (F15)")),
	// of a queue, of a subscription
	of("M15", "after recovery sequence numbers start behind the newest live message",
		sim(1000, "I12", "I20", "P19")),
	of("M16", "an abandoned message of a session goes behind those that were never delivered",
		sim(500, "I8")),
	of("M17", "checkpoints leave the duplicate history out", sim(1000, "I18")),
	// the lock of the delivery is a record that should not be
	of("M18", "an expired message is delivered when it was abandoned before",
		sim(500, "I14", "I17", "I19")),
	of("M19", "the end of a lock and the move to the dead-letter queue are in two frames",
		sim(1000, "I19")),
	// SM-022: the power is cut while receive-and-delete delivers
	of("M20", "a receive-and-delete transfer leaves before the removal is synced",
		sim(1000, "I1", "I13")),

	// Of topics and idleness.

	// the second frame needs a number of its own
	of("X1", "the copies of one message that was sent to a topic are in two frames",
		sim(1000, "I12")),
	of("X2", "a rule is in force before its event is durable, where partition 0 hosts the topic",
		sim(1000, "I20")),
	of("X3", "a start forgets what subscriptions hold", sim(1000, "I20", "I24")),
	of("X4", "a copy lives as long as its topic allows, whatever its subscription says",
		sim(1000, "I14", "I26")),
	of("X5", "an entity with a receiver, or a scheduled message, deletes itself when nothing else was asked of it",
		sim(1000, "I1")),

	// Of places where a bug was once seen by no suite, or late.

	of("X6", "a deferred message that is received and deleted leaves when its removal is written",
		sim(1000, "I1", "I13")),
	of("X7", "a settlement of several tokens is answered when it is written",
		sim(500, "I1", "I13")),
	of("X8", "what is only looked at is shown before the frame that it follows from is durable",
		sim(500, "I13")),

	// Of what a delivery waits for.

	of("X9", "a delivery leaves before its lock is written", sim(1000, "I13", "I26")),
	of("X10", "a delivery leaves before what it shows is durable", sim(1000, "I13")),
	of("X11", "the same, where what it shows is not that the message was stored but, for example, that it was abandoned or became active",
		sim(2000, "I13")),
	// a kill takes a lock away that a client has seen
	of("X12", "a frame counts as written before it is", sim(2000, "I1")),
	of("X18", "numbers that a transaction's client is told are not durable",
		sim(1000, "I12", "I13")),

	// Of facts.

	// a reply does not come, and what it stands for is in the log
	of("X13", "a reply waits for the facts before it to be written", sim(200, "I26")),
	of("X14", "a fact has its frame synced", sim(200, "I26")),
	of("X15", "the refusal of a settlement is noted with the first of its tokens, not with the one that it is about",
		sim(1000, "facts")),

	// Of transactions and moves.

	of("T1", "a commit is in two frames", sim(1000, "I19")),
	// it is noticed, by a look at the queue for one, or counts as a delivery, or what is staged is
	// not its client's any more
	of("T2", "a lock that a transaction relies on ends by its time",
		sim(1000, "I7", "I10", "I17", "I19", "I26", "P21")),
	// a send is refused for which there is room: that is answered later than what is staged
	of("T3", "what a transaction reserved stays reserved when it is rolled back",
		sim(1000, "I1", "I2", "I12", "I19", "I26")),
	// what comes again is stored again: that is another record
	of("T4", "checkpoints leave out what came from other entities", sim(1000, "I21", "I24", "P21")),
	of("T5", "a destination answers that messages have arrived before they are durable",
		sim(1000, "I13", "I21")),
	of("T6", "a transfer counts as arrived when a later one has", sim(5000, "I21")),
	of("T7", "a floor is raised when the ends of transfers are on their way into the log",
		sim(5000, "I21")),
	of("T8", "messages in transfer are receivers' again when their entity does not forward any more",
		sim(2000, "I2", "I26", "I5", "I17", "I21", "P19", "P21")),
	of("T9", "a topic's copies have not moved", sim(1000, "I21")),

	// Of partitions that are fenced and restarted (docs/decisions/0044).

	of("R1", "a log that is recovered again takes for synced what it can read",
		in("log", "TestReopenAfterErrorAtEveryCall")),
	of("R2", "a partition that is restarted keeps the state it had, what was not synced with it",
		brief("engine/host", "TestFenceAndRestart")),
	of("R3", "a courier takes an unknown outcome for a refusal",
		brief("engine/host", "TestMovesOverFences"), sim(1000, "I21", "I2")),
	of("R4", "receivers are not told that their partition serves them no more",
		brief("engine/host", "TestFenceAndRestart")),
	of("R5", "files of a partition that is away stay open because they were read",
		in("log", "TestClosedPartitionHasNoFileOpen")),
	of("R6", "a log that is recovered again need not hold what was acknowledged",
		in("log", "TestReopenRefusesWhatASyncLostSilently")),

	// Of places of moves that no suite had seen.

	of("T10", "a courier hears that a slice is gone before what it does not know of it yet",
		sim(5000, "I21", "I26")),
	of("T11", "what waited in a topic it was moved to is shown to rules as if it were sent there",
		in("engine", "TestFirstNumberOfWhatWaited")),
	of("T12", "messages that could not be taken are offered again behind those that came after them",
		sim(2000, "I21")),
	of("T13", "what is sent through an entity fails when its destination is full",
		sim(5000, "I21")),
	of("T14", "two messages that are sent through an entity in one transaction get one number of a transfer",
		sim(2000, "P21 (assertion)")),
	of("T15", "a floor passes transfers that are not over", sim(500, "I21")),
	of("T16", "a duplicate that is dropped has not arrived", sim(500, "I21")),
	of("T17", "what has arrived names another message as the one that it was", sim(500, "I21")),
	of("T18", "what one transaction sends through an entity does not count toward the room that its next message has",
		in("engine", "TestScripts")),
	of("T19", "what waits for its destination waits for ever", sim(500, "I26")),
	of("T20", "a courier has what is in transfer before it is durable", sim(500, "I1", "I21")),
	of("T21", "what was sent through an entity is not carried on by the next start",
		sim(500, "I21", "I26")),
	of("T22", "a message in transfer that cannot be read stays so, and keeps its place",
		brief("engine/host", "TestUnreadableInTransfer")),
	of("T23", "the entity that a dead letter died in is looked for when it has left",
		brief("engine/host", "TestDeadLetterSourceOfDeleted")),
	of("T24", "the memory of what is staged is used again before its partition has let go of it",
		in("protocol/servicebus", "TestMemory.*")),

	// Of what a log begins with (docs/decisions/0048).

	of("B1", "a base leaves out what came from other entities", sim(1000, "I24")),
	of("B2", "the manifest names a base that is not durable",
		in("index/replay", "TestCutCrashAtEveryCall", "-test.short")),
	of("B3", "files are removed before a manifest without them is durable",
		in("index/replay", "TestCutCrashAtEveryCall", "-test.short")),
	of("B4", "files go though messages that are there have their bodies in them",
		in("index/replay", "TestCut", "-test.short"), sim(1000, "I1")),
	of("B5", "the only file in front of a base goes though messages that are there have their bodies in it",
		in("index/replay", "TestCutKeepsTheOnlyFile", "-test.short"), sim(1000, "I1")),
	of("B6", "files go up to the base, though less was to go this time",
		in("index/replay", "TestCutKeepsWhatIsKeptNow", "-test.short")),
	of("B7", "the manifest names a file of bodies that is not durable",
		in("index/replay", "TestCutCrashAtEveryCall", "-test.short")),
	of("B8", "the last of the bodies that are needed is not in a file of bodies",
		in("index/replay", "TestCut", "-test.short")),
	of("B9", "a file of bodies is taken for what was written",
		in("log", "TestFileOfBodiesIsReadBack")),
	of("C2", "a base is named without a proof, and has one message less",
		in("index/replay", "TestCut", "-test.short"), sim(1000, "I24", "I1", "space")),

	// Of a full disk (docs/decisions/0039).

	of("C5", "what is left of a frame that found no room stays in the file",
		in("log", "TestF8EveryCallWithoutRoom")),

	// Of entities with several partitions (docs/decisions/0051).

	of("P5", "a message without a key that moves to such an entity goes to whichever partition is next, also when it is offered again",
		brief("engine/host", "TestMovesToPartitionsSurviveEveryCall")),
	of("P6", "moves to such an entity go on however long one of them waits, and all that has arrived meanwhile is remembered",
		brief("engine/host", "TestMovesSpan")),

	// Of sealed files (docs/decisions/0046).

	of("C1", "a chapter is removed before the manifest names what stands for it",
		in("log", "TestF1F2F14CrashAtEveryCall$/^sealing")),
	of("Z1", "the manifest names a sealed file that is not durable",
		in("log", "TestF1F2F14CrashAtEveryCall$/^sealing")),
	of("Z2", "what was written as a sealed file is not compared with the chapter",
		in("log", "TestSealedIsReadBack")),
	of("Z3", "a block of a sealed file is believed without its checksum",
		in("log", "TestBlocksAreChecked")),
	of("Z4", "the index of a sealed file's records does not know their times",
		in("log", "TestF1F2F14CrashAtEveryCall$/^sealing")),

	// Of a full or hanging disk and of memory.

	of("Y1", "a sync that found no room counts as one that did what it should",
		in("log", "(TestF8EveryCallWithoutRoom|TestF8F9F10ErrorAtEveryCall)")),
	of("Y2", "a connection does not give back memory that it needs no more",
		in("protocol/servicebus", "TestMemory.*")),
	of("Y3", "settlements are refused for want of memory",
		faults("complete is answered .*it has no memory"), sim(1000, "I2", "I6", "I7", "I16")),
	of("Y4", "a send in a transaction is taken while the disk hangs",
		faults("send in a transaction, the disk hangs true: 1 of 1 pass"), sim(1000, "S4 (faults)")),
	of("Y5", "locks are granted while the disk hangs",
		faults("while the disk hangs there is a grant"), sim(1000, "S4 (faults)", "I5", "I26")),
	of("Y6", "a reader that waits keeps its memory when that is short",
		in("protocol/servicebus", "TestMemory.*")),
	of("Y7", "the connection that has most stays, and keeps out new ones",
		in("protocol/servicebus", "TestMemory.*")),
	of("Y8", "a receiver without credit that drains while the disk hangs is never answered",
		sim(1000, "I26")),
	of("Y9", "sends are taken although there is little room", sim(1000, "I2", "S4 (faults)")),
	of("Y10", "what an administrator is refused for want of room defines origins that the log does not have",
		sim(1000, "I25")),
	of("Y11", "blocks of sealed files are kept without asking for memory",
		in("log", "TestF22BlockCacheTakesMemory")),
	of("Y12", "a courier takes messages on their way for which there is no memory",
		brief("engine/background", "TestF22CourierTakesMemory")),
	of("Y13", "a checkpoint waits for memory for ever",
		brief("engine/loop", "TestF22CheckpointTakesMemory")),
	of("Y14", "a peer that goes on sending while its session's window is closed is read for ever",
		in("protocol/servicebus", "TestMemory.*")),

	// Of readers beside a broker (docs/decisions/0047).

	of("C6", "a shared reader shows what is written and not durable",
		in("log", "TestSharedShowsWhatLasts")),
	of("D2", "loops do not wait for each other when they write the marks of a backup",
		brief("engine/host", "TestBackupWaits")),

	// Of reading the log again while it is in use (docs/decisions/0053).

	of("S1", "what a scrub finds in a file is forgotten, as if the file had gone meanwhile",
		in("log", "TestScrubFindsEveryPart")),
	of("S2", "how far a scrub is does not outlive the run", in("log", "TestScrubGoesOn")),

	// Of how long history is kept (docs/decisions/0049).

	of("H1", "what could still be undone is cut with the events before it",
		brief("engine/background", "TestHistoryPlan")),
	of("H3", "bodies of what was purged count as those of settled messages",
		in("engine/host", "TestUndoKeepsBodies")),
	of("H2", "after an upgrade what is older goes at once",
		brief("engine/background", "TestHistoryGrace")),
	of("H6", "what is cut before its time is no event",
		brief("engine/host", "TestUpgradeLow"), sim(1000, "space")),
	of("H5", "where room is needed only as much is planned to go as is needed, although no base can be made there",
		brief("engine/background", "TestHistoryPlan")),
	of("H4", "bodies stay in files that no base can be made for yet",
		brief("engine/host", "TestUpgradeNamed")),

	// Of checkpoints that are kept with history (docs/decisions/0054).

	of("K6", "all checkpoints are kept", in("log", "TestCheckpointsAreKept")),

	// Of bodies that are dropped (docs/decisions/0050).

	of("K1", "a sealed file is removed before the manifest names what takes its place",
		in("log", "TestF1F2F14CrashAtEveryCall/dropping")),
	of("K5", "what was given without a lock and is not read yet keeps no body",
		in("engine/host", "TestUnreadDeliveriesKeepBodies")),
	of("K7", "what a reply points to and is not read yet keeps no body",
		in("engine/host", "TestUnreadAnswersKeepBodies"), sim(8000, "I1")),
	of("K2", "what is needed is taken from a state that may not last",
		in("engine/host", "TestRandomMovesWithoutBodies")),
	of("C3", "property changes count as needed by nobody",
		in("index", "TestBlobsAreAllThatIsNeeded"), in("engine/host", "TestRandomMovesWithoutBodies"), sim(2000, "I1")),
	of("K3", "states of sessions count as needed by nobody",
		in("index", "TestBlobsAreAllThatIsNeeded")),
	of("K4", "what is scheduled counts as needed by nobody",
		in("index", "TestBlobsAreAllThatIsNeeded"), sim(2000, "I1")),

	// Of answers about the past (docs/decisions/0052).

	of("Q1", "the story of a message that moves has no order of its own for the move: it may arrive before it departs",
		in("engine/ledger", "TestMovesAreInOrder")),

	// Of entities with several partitions (docs/decisions/0051). Of P3 and P4 a test of package
	// host finds what they do to ports, too.

	of("P1", "a slice that begins with a session gives its messages numbers without the partition",
		sim(500, "I12", "I20", "I24", "P21 (assertion)")),
	of("P2", "a send without a key whose outcome nobody knows goes to another partition as well",
		brief("engine/host", "TestUnknownSendsGoNowhereElse")),
	of("P3", "a loop that finds nothing to deliver gives credit back that it did not take",
		ports("has [0-9]+ deliveries for a credit of|left and must have"), sim(1000, "I26", "P19", "I5")),
	of("P4", "two loops give one receiver a session each",
		ports("is answered twice|sessions are locked for"), sim(2000, "I5", "I9", "I26", "P19")),
	of("P7", "a receiver that waits for a session is told that there is none before every loop has looked",
		ports("is told that there is no session")),

	// Of the report itself: every seed reports a violation.

	of("canary", "the simulation says that it found something", sim(1, "canary")),
}
