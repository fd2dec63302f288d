package event

// BackupID identifies a backup. Each backup has its own.
type BackupID [16]byte

// String returns the id's UUID text.
func (b BackupID) String() string { return string(AppendUUID(make([]byte, 0, 36), b[:])) }

// MarshalText makes ids readable in JSON.
func (b BackupID) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// BackupMarked marks where a copy of the running broker ends in this log: after the frame of which
// it is the last record. It is in the logs of all partitions. Nothing after the mark of one log is
// the cause of anything before the mark of another. It changes nothing.
//
//event:kind 58 verb=backup with=backups fact
type BackupMarked struct {
	Envelope
	ID   BackupID
	Logs uint32 // how many logs have the mark
}
