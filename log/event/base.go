package event

import "time"

// The events of a base, with which a log may begin (docs/log-format.md 3.3). They contain the state
// at a place of the log: the partition's own state first, then the slices one after the other. They
// are in the file of a base and in no log. A slice begins with its SliceRestored. Its sessions
// follow by id, then its messages by number, then its history.

// CatalogueRestored contains a partition's own numbers, or an entity. The first one of a base has
// the numbers and no entity. Each later one has an entity, or more rules of the previous one.
//
//event:kind 54
type CatalogueRestored struct {
	Envelope    // of the entity; zero for the partition's own numbers
	LastEntity  EntityID
	NextOrigin  OriginID // 0: this number and the next two are not set
	ClockNumber uint64   // of the newest ClockSet; 0: there was none
	ClockShift  uint64   // total shift of the instants by all of them, ms; two's complement
	EntityKind  EntityKind
	Path        string // "": more rules of an entity
	HashVersion uint8
	Hosts       []byte
	KeyHash     uint8 // of an entity with several hosts
	Properties  Properties
	Topic       EntityID
	CreatedAt   Time
	UpdatedAt   Time
	AccessedAt  Time
	Rules       []Rule // of a subscription, in the order in which they were added
}

// SliceRestored contains a slice without its contents.
//
//event:kind 50 slice
type SliceRestored struct {
	Envelope
	Last SequenceNumber // newest given out
	// of a subscription that has had a message, while its topic's slice exists; else 0
	Topic   EntityID
	Tickets uint64         // number of tickets given to sessions
	Given   TransferNumber // newest given out
}

// BodyRef is the place of bytes that are not in a base.
type BodyRef struct {
	Position Position
	Size     uint32 // bytes
	Sum      uint32 // CRC-32C of the bytes
}

// RestoredLock is a lock; the zero value is no lock.
type RestoredLock struct {
	Token LockToken
	Until Time // 0: as long as the session is held
}

// RestoredSession is a session without its messages.
type RestoredSession struct {
	ID     []byte
	Ticket uint64       // its place in the queue of waiting sessions; 0: it does not wait
	Lock   RestoredLock // zero: it is not held
	Set    bool         // it has a state
	State  BodyRef
	SetAt  Time
}

// SessionsRestored contains sessions of a slice, by id.
//
//event:kind 52
type SessionsRestored struct {
	Envelope
	Sessions []RestoredSession
}

// RowState is the state of a message as it is stored (docs/log-format.md 9).
//
//event:closed state of a message
type RowState uint8

// The states of a stored message, first to last.
const (
	firstRowState RowState = 1
	lastRowState  RowState = 6
)

func (s RowState) String() string {
	if s < firstRowState || s > lastRowState {
		return "unknown"
	}
	return [...]string{"active", "locked", "deferred", "deferred-locked", "scheduled", "transferring"}[s-1]
}

// MarshalText makes states readable in JSON.
func (s RowState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// RestoredRow is the state of a message, without its body.
type RestoredRow struct {
	Sequence      SequenceNumber
	State         RowState
	SubQueue      SubQueue
	OwnTTL        bool // the sender gave a time to live
	WasScheduled  bool
	Stays         bool // it is not forwarded from its dead-letter queue
	Body          BodyRef
	EnqueuedAt    Time
	ExpiresAt     Time // 0: never
	DeliveryCount uint32
	Way           RestoredWay
	Session       uint32       // the slice's session it belongs to, from 1 on; 0: none
	Lock          RestoredLock // of a locked message
	ScheduledFor  Time         // of a scheduled message
	TimeToLive    time.Duration
	Transfer      RestoredTransfer // of a message in transfer
	Changes       []BodyRef        // property changes
}

// RestoredWay is where a message was before; the zero value is nowhere.
type RestoredWay struct {
	First SequenceNumber // number where it was first sent, or of a copy the topic's number; 0: here
	Hops  uint8          `log:"among=0..MaxHops"` // moves so far
	// path of the entity in whose dead-letter queue it was; "": in none
	DeadLetterSource string
}

// RestoredTransfer is an open transfer; the zero value is none.
type RestoredTransfer struct {
	Number      TransferNumber
	Destination EntityID
	Trigger     Trigger
}

// RowsRestored contains messages of a slice, by number.
//
//event:kind 51
type RowsRestored struct {
	Envelope
	Rows []RestoredRow
}

// RestoredID is an entry of a duplicate history.
type RestoredID struct {
	Key      [16]byte // first half of the SHA-256 of type and id
	Until    Time
	Original SequenceNumber
}

// RestoredSource contains the arrivals from a slice. If there are many, several entries of the same
// source follow one another.
type RestoredSource struct {
	Source  Slice
	Floor   TransferNumber   // all transfers below are settled
	Numbers []TransferNumber // transfers that have arrived, ascending
}

// HistoryRestored contains a slice's record of arrivals: the ids that count as duplicates, in the
// order in which they were accepted, and transfers.
//
//event:kind 53
type HistoryRestored struct {
	Envelope
	IDs     []RestoredID
	Sources []RestoredSource // in order
}
