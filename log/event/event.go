package event

import "time"

// Kind is the type of an event as stored. Numbers are part of the file format: never reuse one.
type Kind uint8

const (
	KindOriginDefined             Kind = 1
	KindEntityCreated             Kind = 2
	KindEntityUpdated             Kind = 3
	KindEntityDeleted             Kind = 4
	KindMessageEnqueued           Kind = 16
	KindMessageLocked             Kind = 17
	KindLockRenewed               Kind = 18
	KindLockExpired               Kind = 19
	KindMessageReleased           Kind = 20
	KindMessageAbandoned          Kind = 21
	KindMessageCompleted          Kind = 22
	KindMessageReceivedAndDeleted Kind = 23
	KindMessageDeferred           Kind = 24
	KindMessageDeadLettered       Kind = 25
	KindMessageExpired            Kind = 26
	KindMessageScheduled          Kind = 27
	KindScheduledActivated        Kind = 28
	KindScheduleCancelled         Kind = 29
	KindDuplicateDropped          Kind = 30
	KindSessionAccepted           Kind = 31
	KindSessionLockRenewed        Kind = 32
	KindSessionReleased           Kind = 33
	KindSessionStateSet           Kind = 34
	KindMessagesBatchDeleted      Kind = 35
	KindSliceDropped              Kind = 36
	KindEntityTouched             Kind = 37
	KindRuleAdded                 Kind = 38
	KindRuleUpdated               Kind = 39
	KindRuleRemoved               Kind = 40
	KindMessagePublished          Kind = 41
	KindScheduledPublished        Kind = 42
	KindTransactionCommitted      Kind = 43
	KindTransactionAborted        Kind = 44
	KindTransferStarted           Kind = 45
	KindMessageHandedOver         Kind = 46
	KindTransfersFinished         Kind = 47
	KindTransferFailed            Kind = 48
	KindSourceForgotten           Kind = 49
	KindSliceRestored             Kind = 50
	KindRowsRestored              Kind = 51
	KindSessionsRestored          Kind = 52
	KindHistoryRestored           Kind = 53
	KindCatalogueRestored         Kind = 54
	KindHistoryPolicySet          Kind = 55
	KindBackupMarked              Kind = 58
	KindClockSet                  Kind = 59 // 56 and 57 belong to capabilities that are not there yet (docs/log-format.md, section 8)
	KindRunStarted                Kind = 60
	KindLinkOpened                Kind = 61
	KindLinkClosed                Kind = 62
	KindSettlementRefused         Kind = 63
	KindSendsRefused              Kind = 64
	KindReasonGiven               Kind = 65
	KindNumbersReserved           Kind = 66
	KindPartitionFenced           Kind = 67
	KindPartitionRestarted        Kind = 68
	KindBodyErased                Kind = 69
	KindHistoryCut                Kind = 70
	KindErasureFinished           Kind = 71
)

var kindNames = [1 << 8]string{
	KindOriginDefined: "OriginDefined", KindEntityCreated: "EntityCreated", KindEntityUpdated: "EntityUpdated",
	KindEntityDeleted: "EntityDeleted", KindMessageEnqueued: "MessageEnqueued", KindMessageLocked: "MessageLocked",
	KindLockRenewed: "LockRenewed", KindLockExpired: "LockExpired", KindMessageReleased: "MessageReleased",
	KindMessageAbandoned: "MessageAbandoned", KindMessageCompleted: "MessageCompleted",
	KindMessageReceivedAndDeleted: "MessageReceivedAndDeleted", KindMessageDeferred: "MessageDeferred",
	KindMessageDeadLettered: "MessageDeadLettered", KindMessageExpired: "MessageExpired",
	KindMessageScheduled: "MessageScheduled", KindScheduledActivated: "ScheduledActivated", KindScheduleCancelled: "ScheduleCancelled",
	KindDuplicateDropped: "DuplicateDropped", KindSessionAccepted: "SessionAccepted", KindSessionLockRenewed: "SessionLockRenewed",
	KindSessionReleased: "SessionReleased", KindSessionStateSet: "SessionStateSet", KindMessagesBatchDeleted: "MessagesBatchDeleted",
	KindSliceDropped: "SliceDropped", KindEntityTouched: "EntityTouched",
	KindRuleAdded: "RuleAdded", KindRuleUpdated: "RuleUpdated", KindRuleRemoved: "RuleRemoved",
	KindMessagePublished: "MessagePublished", KindScheduledPublished: "ScheduledPublished",
	KindTransactionCommitted: "TransactionCommitted", KindTransactionAborted: "TransactionAborted", KindNumbersReserved: "NumbersReserved",
	KindTransferStarted: "TransferStarted", KindMessageHandedOver: "MessageHandedOver", KindTransfersFinished: "TransfersFinished",
	KindTransferFailed: "TransferFailed", KindSourceForgotten: "SourceForgotten",
	KindSliceRestored: "SliceRestored", KindRowsRestored: "RowsRestored", KindSessionsRestored: "SessionsRestored",
	KindHistoryRestored: "HistoryRestored", KindCatalogueRestored: "CatalogueRestored",
	KindClockSet:   "ClockSet",
	KindRunStarted: "RunStarted", KindLinkOpened: "LinkOpened", KindLinkClosed: "LinkClosed",
	KindSettlementRefused: "SettlementRefused", KindSendsRefused: "SendsRefused", KindReasonGiven: "ReasonGiven",
	KindPartitionFenced: "PartitionFenced", KindPartitionRestarted: "PartitionRestarted", KindBackupMarked: "BackupMarked",
	KindHistoryPolicySet: "HistoryPolicySet",
	KindBodyErased:       "BodyErased",
	KindHistoryCut:       "HistoryCut",
	KindErasureFinished:  "ErasureFinished",
}

// String is the event's name in the catalogue of semantics.md 4.2.
func (k Kind) String() string { return kindNames[k] }

// Event is one thing that has happened. The set is closed: the types of this package.
type Event interface {
	Kind() Kind
	// Common returns the fields every event has. It points into the event.
	Common() *Envelope
	encode(*encoder)
	decode(*decoder)
}

// Record is what one decision wrote: all of its events or none of them.
type Record struct {
	At     Time // broker time of the decision; never decreases within a log, but behind a ClockSet (semantics.md 4.3 R4)
	Events []Event
}

// Envelope is what every event carries (semantics.md 4.1). The position and the time are the record's.
type Envelope struct {
	Slice  Slice    // zero for OriginDefined and ClockSet
	Origin OriginID // who asked; audit only, never read by Apply
}

// Common implements [Event].
func (e *Envelope) Common() *Envelope { return e }

// Origin says who asked for something, and over which connection and link.
type Origin struct {
	Connection    uint64 // number of the connection, unique within one run of the broker
	RemoteAddress string // host:port of the peer
	ContainerID   string // from the peer's open frame
	Product       string // SDK product and version, from the open properties
	Principal     string // name of the access rule whose key signed the token
	Link          string // link name, empty for a management request without one
	Entity        string // address the link was attached to
}

// OriginDefined gives an origin the number by which later events of this log name it.
type OriginDefined struct {
	Envelope
	ID     OriginID
	Origin Origin
}

// MessageEnqueued stores a message and makes it active in the main queue.
type MessageEnqueued struct {
	Envelope
	Sequence       SequenceNumber
	MessageID      []byte // as text; sent or generated
	SessionID      []byte // group-id as sent; meaningless when HasSession is false
	HasSession     bool
	PartitionKey   []byte        // empty: none
	TimeToLive     time.Duration // the sender's own, cut to the entity's ceiling; 0: none
	EnqueuedAt     Time
	ExpiresAt      Time // 0: never
	Batch          uint32
	Body           Blob   // the whole encoded message as sent, with its message-id
	InSession      bool   // the entity requires sessions: the message belongs to that of SessionID
	IDType         IDType // of the message-id as sent
	DuplicateUntil Time   // until when the id is in the duplicate history; 0: the entity keeps none
	Details        Details
	Arrival        *Arrival // nil: it was sent here
	Keyed          bool     // in the duplicate history the id counts together with the session id, or else the partition key
}

// IDType is the AMQP type of a message-id: ids of different types are different ids (semantics.md 2.1).
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

// MessageScheduled stores a message that becomes active later, under another sequence number (semantics.md 7.6).
type MessageScheduled struct {
	Envelope
	Sequence       SequenceNumber
	MessageID      []byte
	SessionID      []byte
	HasSession     bool
	PartitionKey   []byte
	TimeToLive     time.Duration // the sender's own as sent; 0: none
	ScheduledFor   Time
	Batch          uint32
	Body           Blob
	InSession      bool
	IDType         IDType
	DuplicateUntil Time
	Details        Details
	Arrival        *Arrival // nil: it was sent here
	Reserved       bool     // Sequence is one of a [NumbersReserved], and may be smaller than others given out since
	Keyed          bool     // see [MessageEnqueued]
}

// ScheduledActivated makes a scheduled message active. Its old sequence number is dead from then on.
type ScheduledActivated struct {
	Envelope
	Sequence    SequenceNumber // so far
	NewSequence SequenceNumber
	TimeToLive  time.Duration // the sender's own, cut to the entity's ceiling; 0: none
	EnqueuedAt  Time
	ExpiresAt   Time // 0: never
}

// ScheduleCancelled ends a message that never became active.
type ScheduleCancelled struct {
	Envelope
	Sequence SequenceNumber
}

// DuplicateDropped says that a message was accepted and not stored, because its id was in the duplicate history. It is
// for the audit and changes nothing but that an arrival has arrived.
type DuplicateDropped struct {
	Envelope
	MessageID []byte
	IDType    IDType
	Original  SequenceNumber // of the message that was stored
	Arrival   *Arrival       // nil: it was sent here
}

// MessageLocked hands an active or deferred message to one receiver.
type MessageLocked struct {
	Envelope
	Sequence      SequenceNumber
	Token         LockToken
	LockedUntil   Time   // 0: as long as its session is held
	DeliveryCount uint32 // failed earlier deliveries, as shown to the receiver
}

// LockRenewed moves a lock's end.
type LockRenewed struct {
	Envelope
	Sequence    SequenceNumber
	Token       LockToken
	LockedUntil Time
}

// LockExpired ends a lock whose time passed. A dead-lettering that follows from it is an event of its own in the record.
type LockExpired struct {
	Envelope
	Sequence      SequenceNumber
	Token         LockToken
	DeliveryCount uint32 // new
}

// MessageReleased gives a locked message back without counting.
type MessageReleased struct {
	Envelope
	Sequence SequenceNumber
	Token    LockToken
}

// MessageAbandoned gives a locked message back as a failed delivery.
type MessageAbandoned struct {
	Envelope
	Sequence      SequenceNumber
	Token         LockToken
	DeliveryCount uint32 // new
	Changes       Blob   // application properties to add or replace; may be empty ([ReadChanges])
}

// MessageCompleted ends a locked message: it is never delivered again.
type MessageCompleted struct {
	Envelope
	Sequence SequenceNumber
	Token    LockToken
}

// MessageReceivedAndDeleted ends a message that is handed out without a lock.
type MessageReceivedAndDeleted struct {
	Envelope
	Sequence SequenceNumber
}

// MessageDeferred sets a locked message aside; only its sequence number finds it.
type MessageDeferred struct {
	Envelope
	Sequence      SequenceNumber
	Token         LockToken
	DeliveryCount uint32 // new
	Changes       Blob
}

// Cause says why a message was dead-lettered (semantics.md 9.2).
type Cause uint8

const (
	CauseApplication Cause = 1
	CauseExpired     Cause = 2
	CauseMaxDelivery Cause = 3
	CauseHeaderSize  Cause = 4
	CauseNoSession   Cause = 5 // a copy without session id for a subscription that requires sessions
	CauseFilter      Cause = 6 // a rule's filter or action could not be evaluated
	CauseHopLimit    Cause = 7 // it has moved [MaxHops] times and is not forwarded any more
)

func (c Cause) String() string {
	switch c {
	case CauseApplication:
		return "application"
	case CauseExpired:
		return "expired"
	case CauseMaxDelivery:
		return "max-delivery"
	case CauseHeaderSize:
		return "header-size"
	case CauseNoSession:
		return "session-id-null"
	case CauseFilter:
		return "filter-error"
	case CauseHopLimit:
		return "hop-limit"
	}
	return "unknown"
}

// MarshalText makes causes readable in JSON.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MessageDeadLettered moves a message from the main queue to a dead-letter queue, in one step: there is no instant at
// which it is in both or in neither. Its sequence number, enqueue time and delivery count stay.
type MessageDeadLettered struct {
	Envelope
	Sequence    SequenceNumber
	Token       LockToken // of the lock that ends with it; zero when it was not locked
	Cause       Cause
	Reason      string
	Description string
	Changes     Blob     // all application properties to add or replace, reason and description included
	SubQueue    SubQueue // TransferDeadLetter; anything else is the dead-letter queue, and read as 0
}

// MessageExpired drops a message whose time to live ended. An expired message that goes to the dead-letter queue is a
// MessageDeadLettered with CauseExpired instead.
type MessageExpired struct {
	Envelope
	Sequence  SequenceNumber
	ExpiresAt Time
}

// SessionAccepted hands a session to one receiver: all its messages, those to come included (semantics.md 8.3).
type SessionAccepted struct {
	Envelope
	SessionID   []byte
	Token       LockToken // of the session lock; never seen by a client
	LockedUntil Time
}

// SessionLockRenewed moves the end of a session lock.
type SessionLockRenewed struct {
	Envelope
	SessionID   []byte
	LockedUntil Time
}

// ReleaseCause says why a session is no longer held (semantics.md 8.5).
type ReleaseCause uint8

const (
	ReleaseClosed        ReleaseCause = 1 // the client closed its link
	ReleaseLinkLost      ReleaseCause = 2 // the link, its connection or the broker went away
	ReleaseExpired       ReleaseCause = 3 // the lock's time passed: every message locked under it counts as failed
	ReleaseEntityChanged ReleaseCause = 4 // the entity was updated
)

func (c ReleaseCause) String() string {
	switch c {
	case ReleaseClosed:
		return "closed"
	case ReleaseLinkLost:
		return "link-lost"
	case ReleaseExpired:
		return "expired"
	case ReleaseEntityChanged:
		return "entity-changed"
	}
	return "unknown"
}

// MarshalText makes causes readable in JSON.
func (c ReleaseCause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// SessionReleased ends a session lock and gives every message locked under it back. What follows for a message that failed
// too often or has expired is an event of its own in the record.
type SessionReleased struct {
	Envelope
	SessionID []byte
	Cause     ReleaseCause
	Returned  []Returned // by sequence number
}

// Returned is a message given back with its session.
type Returned struct {
	Sequence      SequenceNumber
	DeliveryCount uint32 // new
}

// SessionStateSet replaces a session's state, or clears it.
type SessionStateSet struct {
	Envelope
	SessionID []byte
	Cleared   bool
	State     Blob     // may be empty without being cleared
	Topic     EntityID // of a subscription's session: what it stores counts with its topic; 0: of a queue's
}

// MessagesBatchDeleted removes active messages that nobody received (semantics.md 14.3).
type MessagesBatchDeleted struct {
	Envelope
	Before    Time             // only messages enqueued before it
	Sequences []SequenceNumber // ascending
}

// SliceDropped forgets everything about a slice of an entity that was deleted. The deletion itself is in the catalogue.
type SliceDropped struct{ Envelope }

// ClockSet says where broker time went on at a start whose clock and log were far apart (reliability.md 1.4). It stands in the log of every
// partition, as the first record of a run. Every instant the partition keeps moves by To - From; its record has the time To, which may be
// before that of the record in front of it.
type ClockSet struct {
	Envelope
	Number uint64     // of the decision in the namespace, from 1; a partition that was not there for some of them has gaps
	Basis  ClockBasis // what was believed
	From   Time       // broker time before, not before any record of this log
	To     Time       // and after
	Wall   Time       // what the machine's clock showed
}

// ClockBasis says what an operator believed.
type ClockBasis uint8

const (
	BasisLog       ClockBasis = 1 // the log: broker time goes on from its newest record
	BasisWall      ClockBasis = 2 // the clock
	BasisCatalogue ClockBasis = 3 // this partition follows what was decided without it; the decision stands in partition 0's log
)

func (b ClockBasis) String() string {
	switch b {
	case BasisLog:
		return "log"
	case BasisWall:
		return "wall"
	case BasisCatalogue:
		return "catalogue"
	}
	return "unknown"
}

// MarshalText makes bases readable in JSON.
func (b ClockBasis) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
