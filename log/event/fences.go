package event

// The events that say that a partition was taken out of service, or put back, stand in the log of partition 0, which holds the catalogue and is never taken
// out: the log of the partition itself may be what cannot be written. Both are facts.

// PartitionFenced says that a partition was taken out of service. Its origin says by whom, if by anybody, and the [ReasonGiven] behind it why.
type PartitionFenced struct {
	Envelope
	LogPartition uint32 // of the data directory
	Cause        FenceCause
	Error        string // what failed; "" where nothing did
}

// FenceCause is why a partition was taken out of service.
type FenceCause uint8

const (
	FencedByError    FenceCause = 1 // its log cannot be written or read
	FencedByOperator FenceCause = 2
)

func (c FenceCause) String() string {
	switch c {
	case FencedByError:
		return "error"
	case FencedByOperator:
		return "operator"
	}
	return "unknown"
}

// MarshalText makes causes readable in JSON.
func (c FenceCause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// PartitionRestarted says that a partition that did not serve was recovered while the broker ran, and serves again. Its origin says by whom.
type PartitionRestarted struct {
	Envelope
	LogPartition uint32 // of the data directory
	Refused      bool   // a start had found its files damaged or missing, else it was fenced
}

// Kind implements [Event].
func (*PartitionFenced) Kind() Kind { return KindPartitionFenced }

func (f *PartitionFenced) encode(e *encoder) {
	e.uvarint(uint64(f.LogPartition))
	e.byte(byte(f.Cause))
	e.text(f.Error)
}

func (f *PartitionFenced) decode(d *decoder) {
	f.LogPartition = d.uint32()
	f.Cause = FenceCause(d.among("cause of a fence", byte(FencedByError), byte(FencedByOperator)))
	f.Error = d.text()
}

// Kind implements [Event].
func (*PartitionRestarted) Kind() Kind { return KindPartitionRestarted }

func (r *PartitionRestarted) encode(e *encoder) {
	e.uvarint(uint64(r.LogPartition))
	e.bool(r.Refused)
}

func (r *PartitionRestarted) decode(d *decoder) {
	r.LogPartition = d.uint32()
	r.Refused = d.bool()
}
