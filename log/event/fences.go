package event

// The events that say that a partition was taken out of service, or put back, stand in the log of
// partition 0, which holds the catalogue and is never taken out: the log of the partition itself
// may be what cannot be written. Both are facts.

// PartitionFenced says that a partition was taken out of service. Its origin says by whom, if by
// anybody, and the [ReasonGiven] behind it why.
//
//event:kind 67 verb=fenced with=fences fact
type PartitionFenced struct {
	Envelope
	LogPartition uint32 // of the data directory
	Cause        FenceCause
	Error        string // what failed; "" where nothing did
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

// PartitionRestarted says that a partition that did not serve was recovered while the broker ran,
// and serves again. Its origin says by whom.
//
//event:kind 68 verb=restarted with=fences fact
type PartitionRestarted struct {
	Envelope
	LogPartition uint32 // of the data directory
	Refused      bool   // a start had found its files damaged or missing, else it was fenced
}
