package event

// HistoryCut says that history of a partition was removed earlier than policies say, because the
// disk had little room or because all history took more than its share of it. It is in the log of
// partition 0, after the removal, and changes nothing.
//
//event:kind 70 verb=history-cut with=cuts fact
type HistoryCut struct {
	Envelope
	LogPartition uint32   // of the data directory
	Cause        CutCause `export:"cause"`
	First        LSN      // where the log of the partition begins since then
	Bytes        uint64   // freed on the disk
}

// CutCause says why history was removed early.
//
//event:closed cause of a cut
//event:words room share
type CutCause uint8

const (
	CutForRoom  CutCause = 1 // the disk had little room
	CutForShare CutCause = 2 // history took more than its share
)
