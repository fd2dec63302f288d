package event

// BackupID is what the broker calls a backup. No two have the same.
type BackupID [16]byte

// String is the id's UUID text.
func (b BackupID) String() string { return string(AppendUUID(make([]byte, 0, 36), b[:])) }

// MarshalText makes ids readable in JSON.
func (b BackupID) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// BackupMarked says where a copy of the running broker ends in this log: behind its frame, of which
// it is the last record. It stands in the logs of all partitions, and nothing behind the mark of
// one log is the cause of anything before the mark of another. It changes nothing.
//
//event:kind 58 verb=backup with=backups fact
type BackupMarked struct {
	Envelope
	ID   BackupID
	Logs uint32 // how many logs have the mark
}
