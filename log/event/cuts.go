package event

// HistoryCut says that history of a partition was removed before its time: earlier than policies
// say, for want of room or because all history took more than its share of the disk. It stands in
// the log of partition 0, behind the removal, and changes nothing.
//
//event:kind 70 verb=history-cut with=cuts fact
type HistoryCut struct {
	Envelope
	LogPartition uint32   // of the data directory
	Cause        CutCause `export:"cause"`
	First        LSN      // where the log of the partition begins since
	Bytes        uint64   // given back to the disk
}

// CutCause is why history was removed before its time.
//
//event:closed cause of a cut
//event:words room share
type CutCause uint8

const (
	CutForRoom  CutCause = 1 // the disk had little room
	CutForShare CutCause = 2 // history took more than its share
)
