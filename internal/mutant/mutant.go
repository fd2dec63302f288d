// Package mutant holds the switches of the planted bugs (reliability.md 6). In an ordinary build every switch is a
// constant false and the compiler removes what it guards. Built with the tag "mutants", the environment variable
// LEDGERBUS_MUTANT names the one bug that is switched on; the test suites must then fail.
package mutant

// Bug names a planted bug of reliability.md 6.
type Bug string

const (
	AckBeforeSync     Bug = "M1"  // a durable ticket completes before the sync
	TruncateAlways    Bug = "M3"  // recovery cuts the log at the first bad frame, whatever it is
	NoPayloadChecksum Bug = "M4"  // payload checksums are not compared
	ShowBeforeDurable Bug = "M11" // outcomes leave before their frame is durable
	WallClock         Bug = "M14" // locks end by the wall clock
	DeadLetterInTwo   Bug = "M19" // the end of a lock and the move to the dead-letter queue are in two frames

	// Of topics and idleness; these are not in reliability.md.

	CopiesInTwo       Bug = "X1" // the copies of one message that was sent to a topic are in two frames
	RuleBeforeDurable Bug = "X2" // a rule is in force before its event is durable, where partition 0 hosts the topic
	ForgetCopies      Bug = "X3" // a start forgets what subscriptions hold

	// Of places where a bug was once seen by no suite, or late.

	LookFirst Bug = "X8" // what is only looked at is shown before the frame that it follows from is durable

	// Of what a delivery waits for; these are not in reliability.md either.

	DeliverBeforeWritten Bug = "X9"  // a delivery leaves before its lock is written
	DeliverBeforeDurable Bug = "X10" // a delivery leaves before what it shows is durable
	ReturnBeforeDurable  Bug = "X11" // the same, where what it shows is not that the message was stored but, for example, that it was abandoned or became active
	WrittenTooSoon       Bug = "X12" // a frame counts as written before it is
	NumbersTooSoon       Bug = "X18" // numbers that a transaction's client is told are not durable

	// Of facts; these are not in reliability.md.

	FactAwaited Bug = "X13" // a reply waits for the facts before it to be written
	FactSynced  Bug = "X14" // a fact has its frame synced

	// Of transactions and moves.

	CommitInTwo Bug = "T1" // a commit is in two frames

	OverTooSoon   Bug = "T5" // a destination answers that messages have arrived before they are durable
	FloorWritten  Bug = "T7" // a floor is raised when the ends of transfers are on their way into the log
	UnsetReleases Bug = "T8" // messages in transfer are receivers' again when their entity does not forward any more

	// Of partitions that are fenced and restarted (docs/decisions/0044).

	ReopenTrusts   Bug = "R1" // a log that is recovered again takes for synced what it can read
	RestartKeeps   Bug = "R2" // a partition that is restarted keeps the state it had, what was not synced with it
	UnknownRefused Bug = "R3" // a courier takes an unknown outcome for a refusal
	ReceiversLeft  Bug = "R4" // receivers are not told that their partition serves them no more
	ReadFilesKept  Bug = "R5" // files of a partition that is away stay open because they were read
	ReopenForgets  Bug = "R6" // a log that is recovered again need not hold what was acknowledged

	// Of places of moves that no suite had seen; nor are these in the design.

	GoneBeforeTold  Bug = "T10" // a courier hears that a slice is gone before what it does not know of it yet
	BehindOthers    Bug = "T12" // messages that could not be taken are offered again behind those that came after them
	FullFails       Bug = "T13" // what is sent through an entity fails when its destination is full
	FloorOfAll      Bug = "T15" // a floor passes transfers that are not over
	NeverAgain      Bug = "T19" // what waits for its destination waits for ever
	ToldTooSoon     Bug = "T20" // a courier has what is in transfer before it is durable
	NotCarriedOn    Bug = "T21" // what was sent through an entity is not carried on by the next start
	UnreadableKept  Bug = "T22" // a message in transfer that cannot be read stays so, and keeps its place
	SourceAskedLate Bug = "T23" // the entity that a dead letter died in is looked for when it has left

	// Of what a log begins with (docs/decisions/0048).

	BaseTooSoon       Bug = "B2" // the manifest names a base that is not durable
	CutTooSoon        Bug = "B3" // files are removed before a manifest without them is durable
	CutBodies         Bug = "B4" // files go though messages that are there have their bodies in them
	BodiesUnsynced    Bug = "B7" // the manifest names a file of bodies that is not durable
	BodiesNotReadBack Bug = "B9" // a file of bodies is taken for what was written
	BaseUnproved      Bug = "C2" // a base is named without a proof, and has one message less

	// Of a full disk (docs/decisions/0039).

	HalfFrame Bug = "C5" // what is left of a frame that found no room stays in the file

	// Of entities with several partitions (docs/decisions/0051).

	MovedInTurn Bug = "P5" // a message without a key that moves to such an entity goes to whichever partition is next, also when it is offered again
	SpanUnbound Bug = "P6" // moves to such an entity go on however long one of them waits, and all that has arrived meanwhile is remembered

	// Of sealed files (docs/decisions/0046); C1 alone is in the design.

	GoneBeforeListed Bug = "C1" // a chapter is removed before the manifest names what stands for it
	ListedUnsynced   Bug = "Z1" // the manifest names a sealed file that is not durable
	NotReadBack      Bug = "Z2" // what was written as a sealed file is not compared with the chapter
	BlockUnchecked   Bug = "Z3" // a block of a sealed file is believed without its checksum
	IndexForgets     Bug = "Z4" // the index of a sealed file's records does not know their times

	// Of a full or hanging disk and of memory; these are not in the design.

	SyncForgiven     Bug = "Y1"  // a sync that found no room counts as one that did what it should
	SettlesNoMore    Bug = "Y3"  // settlements are refused for want of memory
	StagedWhileHung  Bug = "Y4"  // a send in a transaction is taken while the disk hangs
	GrantedWhileHung Bug = "Y5"  // locks are granted while the disk hangs
	DrainUnanswered  Bug = "Y8"  // a receiver without credit that drains while the disk hangs is never answered
	SendsInNeed      Bug = "Y9"  // sends are taken although there is little room
	RefusedIsAdopted Bug = "Y10" // what an administrator is refused for want of room defines origins that the log does not have
	CachedUnpaid     Bug = "Y11" // blocks of sealed files are kept without asking for memory
	FlownUnpaid      Bug = "Y12" // a courier takes messages on their way for which there is no memory
	NeverSaved       Bug = "Y13" // a checkpoint waits for memory for ever

	// Of readers beside a broker (docs/decisions/0047).

	SharedWritten Bug = "C6" // a shared reader shows what is written and not durable
	MarksApart    Bug = "D2" // loops do not wait for each other when they write the marks of a backup

	// Of reading the log again while it is in use (docs/decisions/0053).

	ScrubBlind   Bug = "S1" // what a scrub finds in a file is forgotten, as if the file had gone meanwhile
	ScrubForgets Bug = "S2" // how far a scrub is does not outlive the run

	// Of how long history is kept (docs/decisions/0049).

	UndoForgotten  Bug = "H1" // what could still be undone is cut with the events before it
	UndoneDropped  Bug = "H3" // bodies of what was purged count as those of settled messages
	GraceForgotten Bug = "H2" // after an upgrade what is older goes at once
	CutUnsaid      Bug = "H6" // what is cut before its time is no event
	CutNoFurther   Bug = "H5" // where room is needed only as much is planned to go as is needed, although no base can be made there
	CutAloneFrees  Bug = "H4" // bodies stay in files that no base can be made for yet

	// Of checkpoints that are kept with history (docs/decisions/0054).

	CheckpointsPile Bug = "K6" // all checkpoints are kept

	// Of bodies that are dropped (docs/decisions/0050).

	RevisionBefore   Bug = "K1" // a sealed file is removed before the manifest names what takes its place
	ReadingForgotten Bug = "K5" // what was given without a lock and is not read yet keeps no body
	AnswerForgotten  Bug = "K7" // what a reply points to and is not read yet keeps no body
	NeedsWritten     Bug = "K2" // what is needed is taken from a state that may not last

	// Of answers about the past (docs/decisions/0052).

	// Of entities with several partitions (docs/decisions/0051). Of P3 and P4 a test of package host finds what they do to ports, too.

	RoutedAgain     Bug = "P2" // a send without a key whose outcome nobody knows goes to another partition as well
	CreditGivenBack Bug = "P3" // a loop that finds nothing to deliver gives credit back that it did not take
	TwoSessions     Bug = "P4" // two loops give one receiver a session each
	NoneTooSoon     Bug = "P7" // a receiver that waits for a session is told that there is none before every loop has looked
)
