package event

// HistoryCut says that history of a partition was removed before its time: earlier than policies say, for want of room or because all history took more than
// its share of the disk. It stands in the log of partition 0, behind the removal, and changes nothing.
type HistoryCut struct {
	Envelope
	LogPartition uint32 // of the data directory
	Cause        CutCause
	First        LSN    // where the log of the partition begins since
	Bytes        uint64 // given back to the disk
}

// CutCause is why history was removed before its time.
type CutCause uint8

const (
	CutForRoom  CutCause = 1 // the disk had little room
	CutForShare CutCause = 2 // history took more than its share
)

func (c CutCause) String() string {
	switch c {
	case CutForRoom:
		return "room"
	case CutForShare:
		return "share"
	}
	return "unknown"
}

// MarshalText makes causes readable in JSON.
func (c CutCause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Kind implements [Event].
func (*HistoryCut) Kind() Kind { return KindHistoryCut }

func (h *HistoryCut) encode(e *encoder) {
	e.uvarint(uint64(h.LogPartition))
	e.byte(byte(h.Cause))
	e.uvarint(uint64(h.First))
	e.uvarint(h.Bytes)
}

func (h *HistoryCut) decode(d *decoder) {
	h.LogPartition = d.uint32()
	h.Cause = CutCause(d.among("cause of a cut", byte(CutForRoom), byte(CutForShare)))
	h.First = LSN(d.uvarint())
	h.Bytes = d.uvarint()
}
