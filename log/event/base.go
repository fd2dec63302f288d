package event

import "time"

// What a log may begin with (docs/log-format.md 3.3): events that give the state at a place of the
// log, of the slices one after the other, each behind the partition's own. They stand in the file
// of a base and in no log. A slice begins with its SliceRestored; then come its sessions, by id,
// then its messages, by number, then what it remembers.

// CatalogueRestored gives a partition's own numbers, or an entity. The first one of a base has the
// numbers and no entity; each later one has an entity, or further rules of the one before it.
//
//event:kind 54
type CatalogueRestored struct {
	Envelope    // of the entity; zero for the partition's own numbers
	LastEntity  EntityID
	NextOrigin  OriginID // 0: these numbers, and the next two, are not given
	ClockNumber uint64   // of the newest ClockSet; 0: there was none
	ClockShift  uint64   // by how much all of them moved the instants, ms; two's complement
	EntityKind  EntityKind
	Path        string // "": further rules of an entity
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

// SliceRestored is a slice without its contents.
//
//event:kind 50 slice
type SliceRestored struct {
	Envelope
	Last SequenceNumber // newest given out
	// of a subscription that has had a message, while its topic's slice is there; else 0
	Topic   EntityID
	Tickets uint64         // given to sessions
	Given   TransferNumber // newest given out
}

// BodyRef is where bytes stand that a base does not have.
type BodyRef struct {
	Position Position
	Size     uint32 // bytes
	Sum      uint32 // CRC-32C of the bytes
}

// RestoredLock is a lock; the zero value is none.
type RestoredLock struct {
	Token LockToken
	Until Time // 0: as long as the session is held
}

// RestoredSession is a session, without its messages.
type RestoredSession struct {
	ID     []byte
	Ticket uint64       // its place in the queue of those that wait; 0: it does not
	Lock   RestoredLock // zero: nobody holds it
	Set    bool         // it has a state
	State  BodyRef
	SetAt  Time
}

// SessionsRestored is sessions of a slice, by id.
//
//event:kind 52
type SessionsRestored struct {
	Envelope
	Sessions []RestoredSession
}

// RowState is where a message is in its life, as a state stores it (docs/log-format.md 9).
//
//event:closed state of a message
type RowState uint8

// The states of a message that is stored, first to last.
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

// RestoredRow is what is known of a message besides its body.
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
	Session       uint32       // which of the slice's sessions it belongs to, from 1 on; 0: none
	Lock          RestoredLock // of one that is locked
	ScheduledFor  Time         // of one that is scheduled
	TimeToLive    time.Duration
	Transfer      RestoredTransfer // of one that is in transfer
	Changes       []BodyRef        // of properties
}

// RestoredWay is where a message was before; the zero value is nowhere.
type RestoredWay struct {
	First SequenceNumber // where it was sent to first, or of a copy the topic's; 0: here
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

// RowsRestored is messages of a slice, by number.
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

// RestoredSource is what has come from a slice. Where that is much, several of the same source
// follow one another.
type RestoredSource struct {
	Source  Slice
	Floor   TransferNumber   // all below are over
	Numbers []TransferNumber // those that are here, ascending
}

// HistoryRestored is what a slice remembers of what came to it: ids that are duplicates when they
// come again, in the order in which they were accepted, and transfers.
//
//event:kind 53
type HistoryRestored struct {
	Envelope
	IDs     []RestoredID
	Sources []RestoredSource // in order
}
