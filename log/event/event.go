package event

import "time"

// Kind is the type of an event as stored. Numbers are part of the file format: never reuse one. 56
// and 57 belong to capabilities that do not exist yet (docs/log-format.md, section 8).
type Kind uint8

// kindInfo is the contents of the directive of an event.
type kindInfo struct {
	name, verb string
	version    byte   // the newest; 0: there is no such kind
	with       string // capability
	fact       bool
}

// String returns the event's name in the catalogue of semantics.md 4.2.
func (k Kind) String() string { return kinds[k].name }

// Verb returns the word with which people search for events of the kind; "": it has none.
func (k Kind) Verb() string { return kinds[k].verb }

// IsFact reports whether events of the kind change nothing.
func (k Kind) IsFact() bool { return kinds[k].fact }

// Event is one thing that has happened. The set is closed: the types of this package.
type Event interface {
	Kind() Kind
	// Common returns the fields that every event has. It points into the event.
	Common() *Envelope
	encode(*encoder)
	decode(*decoder)
}

// Record contains the events of one decision: all of them or none.
type Record struct {
	// broker time of the decision; never decreases within a log, except after a ClockSet
	// (semantics.md 4.3 R4)
	At     Time
	Events []Event
}

// Envelope has the fields of every event (semantics.md 4.1). Position and time are those of the
// record.
type Envelope struct {
	Slice  Slice    // zero for OriginDefined and ClockSet
	Origin OriginID // who asked for the event; audit only, never read by Apply
}

// Common implements [Event].
func (e *Envelope) Common() *Envelope { return e }

// Origin is the client or operator who asked for an event, with the connection and link.
type Origin struct {
	Connection    uint64 // number of the connection, unique within one run of the broker
	RemoteAddress string // host:port of the peer
	ContainerID   string // from the peer's open frame
	Product       string // SDK product and version, from the open properties
	Principal     string // name of the access rule whose key signed the token
	Link          string // link name, empty for a management request without one
	Entity        string // address the link was attached to
}

// OriginDefined gives an origin the number with which later events of this log name it.
//
//event:kind 1 verb=origin
type OriginDefined struct {
	Envelope
	ID     OriginID
	Origin Origin
}

// MessageEnqueued stores a message and makes it active in the main queue.
//
//event:kind 16 verb=sent
type MessageEnqueued struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	// as text; sent or generated
	MessageID []byte `export:"message_id"`
	// group-id as sent; unused when HasSession is false
	SessionID    []byte `log:"after=HasSession" export:"session_id"`
	HasSession   bool
	PartitionKey []byte        // empty: none
	TimeToLive   time.Duration // the sender's own, limited by the entity; 0: none
	EnqueuedAt   Time
	ExpiresAt    Time // 0: never
	Batch        uint32
	// the whole encoded message as sent, with its message-id
	Body Blob `export:"size:Size"`
	// the entity requires sessions: the message belongs to the session SessionID
	InSession bool   `log:"v2"`
	IDType    IDType `log:"v2"` // of the message-id as sent
	// end of the id's time in the duplicate history; 0: the entity keeps none
	DuplicateUntil Time     `log:"v2"`
	Details        Details  `log:"v3"`
	Arrival        *Arrival `log:"in=Details,with=moves"` // nil: it was sent here
	// the id counts in the duplicate history together with the session id or, without one, the
	// partition key
	Keyed bool `log:"in=Details,with=partitioned"`
}

// IDType is the AMQP type of a message-id: ids of different types are different ids (semantics.md
// 2.1).
type IDType uint8

const (
	IDString IDType = iota
	IDUlong
	IDUUID
	IDBinary
)

func (t IDType) String() string {
	switch t {
	case IDString:
		return "string"
	case IDUlong:
		return "ulong"
	case IDUUID:
		return "uuid"
	case IDBinary:
		return "binary"
	}
	return "unknown"
}

// MessageScheduled stores a message that becomes active later, under another sequence number
// (semantics.md 7.6).
//
//event:kind 27 verb=scheduled
type MessageScheduled struct {
	Envelope
	Sequence       SequenceNumber `export:"number"`
	MessageID      []byte         `export:"message_id"`
	SessionID      []byte         `log:"after=HasSession" export:"session_id"`
	HasSession     bool
	PartitionKey   []byte
	TimeToLive     time.Duration // the sender's own as sent; 0: none
	ScheduledFor   Time          `export:"until"`
	Batch          uint32
	Body           Blob `export:"size:Size"`
	InSession      bool
	IDType         IDType
	DuplicateUntil Time
	Details        Details  `log:"v2"`
	Arrival        *Arrival `log:"in=Details,with=moves"` // nil: it was sent here
	// Sequence is a number of a [NumbersReserved], and may be smaller than later ones
	Reserved bool `log:"in=Details,with=transactions"`
	Keyed    bool `log:"in=Details,with=partitioned"` // see [MessageEnqueued]
}

// ScheduledActivated makes a scheduled message active. Its old sequence number is no longer valid.
//
//event:kind 28 verb=activated
type ScheduledActivated struct {
	Envelope
	Sequence    SequenceNumber `export:"number"` // its number until now
	NewSequence SequenceNumber `export:"new_number"`
	TimeToLive  time.Duration  // the sender's own, limited by the entity; 0: none
	EnqueuedAt  Time
	ExpiresAt   Time // 0: never
}

// ScheduleCancelled removes a message that never became active.
//
//event:kind 29 verb=cancelled
type ScheduleCancelled struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
}

// DuplicateDropped says that a message was accepted but not stored, because its id was in the
// duplicate history. It is for the audit. It changes nothing except that an arrival has arrived.
//
//event:kind 30 verb=duplicate
type DuplicateDropped struct {
	Envelope
	MessageID []byte `export:"message_id"`
	IDType    IDType
	Original  SequenceNumber `export:"number"`     // of the message that was stored
	Arrival   *Arrival       `log:"v2,with=moves"` // nil: it was sent here
}

// MessageLocked locks an active or deferred message for one receiver.
//
//event:kind 17 verb=locked
type MessageLocked struct {
	Envelope
	Sequence    SequenceNumber `export:"number"`
	Token       LockToken      `export:"token"`
	LockedUntil Time           `export:"until"` // 0: as long as its session is held
	// failed earlier deliveries, as shown to the receiver
	DeliveryCount uint32 `export:"delivery_count"`
}

// LockRenewed moves a lock's end.
//
//event:kind 18 verb=renewed
type LockRenewed struct {
	Envelope
	Sequence    SequenceNumber `export:"number"`
	Token       LockToken      `export:"token"`
	LockedUntil Time           `export:"until"`
}

// LockExpired ends a lock whose time has passed. A dead-lettering that follows from it is a
// separate event in the record.
//
//event:kind 19 verb=lost
type LockExpired struct {
	Envelope
	Sequence      SequenceNumber `export:"number"`
	Token         LockToken      `export:"token"`
	DeliveryCount uint32         `export:"delivery_count"` // new
}

// MessageReleased unlocks a message without counting a delivery.
//
//event:kind 20 verb=released
type MessageReleased struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	Token    LockToken      `export:"token"`
}

// MessageAbandoned unlocks a message and counts a failed delivery.
//
//event:kind 21 verb=abandoned
type MessageAbandoned struct {
	Envelope
	Sequence      SequenceNumber `export:"number"`
	Token         LockToken      `export:"token"`
	DeliveryCount uint32         `export:"delivery_count"` // new
	// application properties to add or replace; may be empty ([ReadChanges])
	Changes Blob
}

// MessageCompleted removes a locked message: it is never delivered again.
//
//event:kind 22 verb=completed
type MessageCompleted struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	Token    LockToken      `export:"token"`
}

// MessageReceivedAndDeleted removes a message that is delivered without a lock.
//
//event:kind 23 verb=received
type MessageReceivedAndDeleted struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
}

// MessageDeferred sets a locked message aside; it can be found only by its sequence number.
//
//event:kind 24 verb=deferred
type MessageDeferred struct {
	Envelope
	Sequence      SequenceNumber `export:"number"`
	Token         LockToken      `export:"token"`
	DeliveryCount uint32         `export:"delivery_count"` // new
	Changes       Blob
}

// Cause says why a message was dead-lettered (semantics.md 9.2).
//
//event:words application expired max-delivery header-size session-id-null filter-error hop-limit
type Cause uint8

const (
	CauseApplication Cause = 1
	CauseExpired     Cause = 2
	CauseMaxDelivery Cause = 3
	CauseHeaderSize  Cause = 4
	// a copy without session id, for a subscription that requires sessions
	CauseNoSession Cause = 5
	CauseFilter    Cause = 6 // a rule's filter or action could not be evaluated
	CauseHopLimit  Cause = 7 // it has moved [MaxHops] times and is not forwarded again
)

// MessageDeadLettered moves a message from the main queue to a dead-letter queue in one step: at no
// instant is it in both or in neither. Its sequence number, enqueue time and delivery count stay.
//
//event:kind 25 verb=dead
type MessageDeadLettered struct {
	Envelope
	Sequence SequenceNumber `export:"number"`
	// of the lock that ends with it; zero if it was not locked
	Token       LockToken `export:"token"`
	Cause       Cause     `export:"cause"`
	Reason      string    `export:"reason"`
	Description string    `export:"description"`
	// all application properties to add or replace, reason and description included
	Changes Blob
	// TransferDeadLetter; anything else is the dead-letter queue, and is read as 0
	SubQueue SubQueue `log:"v2,with=moves,only=TransferDeadLetter"`
}

// MessageExpired removes a message whose time to live has ended. An expired message that is moved
// to the dead-letter queue has a MessageDeadLettered with CauseExpired instead.
//
//event:kind 26 verb=expired
type MessageExpired struct {
	Envelope
	Sequence  SequenceNumber `export:"number"`
	ExpiresAt Time           `export:"until"`
}

// SessionAccepted gives a session to one receiver, with all its present and future messages
// (semantics.md 8.3).
//
//event:kind 31 verb=session-accepted
type SessionAccepted struct {
	Envelope
	SessionID   []byte    `export:"session_id"`
	Token       LockToken // of the session lock; never shown to a client
	LockedUntil Time      `export:"until"`
}

// SessionLockRenewed moves the end of a session lock.
//
//event:kind 32 verb=session-renewed
type SessionLockRenewed struct {
	Envelope
	SessionID   []byte `export:"session_id"`
	LockedUntil Time   `export:"until"`
}

// ReleaseCause says why a session is no longer held (semantics.md 8.5).
//
//event:words closed link-lost expired entity-changed
type ReleaseCause uint8

const (
	ReleaseClosed   ReleaseCause = 1 // the client closed its link
	ReleaseLinkLost ReleaseCause = 2 // the link, its connection or the broker was lost
	// the lock's time passed: every message locked under it counts as failed
	ReleaseExpired       ReleaseCause = 3
	ReleaseEntityChanged ReleaseCause = 4 // the entity was updated
)

// SessionReleased ends a session lock and unlocks every message locked under it. Consequences for a
// message that has failed too often or has expired are separate events in the record.
//
//event:kind 33 verb=session-released
type SessionReleased struct {
	Envelope
	SessionID []byte       `export:"session_id"`
	Cause     ReleaseCause `export:"cause"`
	Returned  []Returned   // by sequence number
}

// Returned is a message that was unlocked with its session.
type Returned struct {
	Sequence      SequenceNumber
	DeliveryCount uint32 // new
}

// SessionStateSet replaces a session's state, or clears it.
//
//event:kind 34 verb=session-state
type SessionStateSet struct {
	Envelope
	SessionID []byte `export:"session_id"`
	Cleared   bool
	State     Blob `export:"size:Size"` // may be empty without being cleared
	// of a subscription's session: its topic, whose size includes the state; 0: of a queue's
	Topic EntityID `log:"v2"`
}

// MessagesBatchDeleted removes active messages that were never received (semantics.md 14.3).
//
//event:kind 35 verb=purged
type MessagesBatchDeleted struct {
	Envelope
	Before    Time             `export:"until"` // only messages enqueued before it
	Sequences []SequenceNumber // ascending
}

// SliceDropped removes a slice of a deleted entity. The deletion itself is in the catalogue.
//
//event:kind 36 verb=dropped
type SliceDropped struct{ Envelope }

// ClockSet says where broker time continued at a start whose clock and log were far apart
// (reliability.md 1.4). It is in the log of every partition, as the first record of a run. Every
// instant that the partition keeps moves by To - From. The record has the time To, which may be
// before that of the previous record.
//
//event:kind 59 verb=clock-set
type ClockSet struct {
	Envelope
	// number of the decision in the namespace, from 1; a partition that did not exist for some of
	// them has gaps
	Number uint64
	Basis  ClockBasis `export:"cause"` // which time was believed
	From   Time       // broker time before, not earlier than any record of this log
	To     Time       `export:"until"` // broker time afterwards
	Wall   Time       // reading of the machine's clock
}

// ClockBasis says which time an operator believed.
//
//event:words log wall catalogue
type ClockBasis uint8

const (
	BasisLog  ClockBasis = 1 // the log: broker time continues from its newest record
	BasisWall ClockBasis = 2 // the clock
	// this partition follows a decision that was made without it, which is in partition 0's log
	BasisCatalogue ClockBasis = 3
)
