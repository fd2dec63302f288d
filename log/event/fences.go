package event

// The events that take a partition out of service, or return it, are in the log of partition 0.
// That partition holds the catalogue and is never taken out of service, whereas the log of the
// fenced partition may be unwritable. Both events are facts.

// PartitionFenced says that a partition was taken out of service. Its origin says by which
// operator, if any, and the [ReasonGiven] after it says why.
//
//event:kind 67 verb=fenced with=fences fact
type PartitionFenced struct {
	Envelope
	LogPartition uint32 // of the data directory
	Cause        FenceCause
	Error        string // what failed; "" if nothing did
}

// FenceCause is why a partition was taken out of service.
//
//event:closed cause of a fence
//event:words error operator
type FenceCause uint8

const (
	FencedByError    FenceCause = 1 // its log cannot be written or read
	FencedByOperator FenceCause = 2
)

// PartitionRestarted says that a partition out of service was recovered while the broker ran, and
// serves again. Its origin says by which operator.
//
//event:kind 68 verb=restarted with=fences fact
type PartitionRestarted struct {
	Envelope
	LogPartition uint32 // of the data directory
	Refused      bool   // a start had found its files damaged or missing; otherwise it was fenced
}
