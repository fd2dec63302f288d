package engine

import (
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Command is a request to a partition. The set is closed: the types of this package that have its
// method.
type Command interface{ command() }

// Request is one command on its way to a partition.
type Request struct {
	Command Command
	Sink    Sink   // gets the reply; nil: the reply is dropped
	Tag     uint64 // returned with the reply
	// Read is set by the sender once it has read the bodies that the reply points to, or never
	// will. The log keeps them until then. If it is nil, the log does not keep them.
	Read *atomic.Bool
}

// Sink takes replies. Post runs in a partition's goroutine: it must not block and must not keep the
// slice.
type Sink interface{ Post([]Reply) }

// Reply is the answer to a request, or a delivery to an attached receiver.
type Reply struct {
	Tag  uint64 // of the request; for a delivery or ReplyDrained, [Receiver.Tag]
	Kind ReplyKind
	// More reports that a [Peek] ended because of its MaxBytes: the slice has more messages.
	More bool
	// Err is nil, an [*Error] or wraps [ErrUnknown]. An [*Error] is a refusal: the command had no
	// effect. With [ErrUnknown] the command may have had an effect: the caller must claim neither,
	// and end the link.
	Err    error
	Answer Answer // nil: there is only Err
}

// SessionGrant is a session lock (semantics.md 8.3).
type SessionGrant struct {
	ID          string
	Token       event.LockToken // proof in later commands that the session is held
	LockedUntil event.Time
}

// ReplyKind tells the kind of a reply.
type ReplyKind uint8

const (
	ReplyDone     ReplyKind = iota // the request with this tag has been carried out or refused
	ReplyDelivery                  // a message for the receiver with this tag
	// the receiver's credit is used up: every delivery it paid for came before
	ReplyDrained
	// ReplyEnded: nothing more is delivered to the receiver. It has lost its session, as a refusal
	// in Err says, or its partition has stopped.
	ReplyEnded
)

// Origin is the source of commands. Every log that needs it has a number for it. Make one per link
// and keep it: origins are compared by pointer.
type Origin = event.Origin

// Send stores messages in a queue, or gives them to the subscriptions of a topic: all of them or
// none.
type Send struct {
	Entity   *Entity
	Slice    event.Slice
	Origin   *Origin
	Messages []Message
	// Buffer, if not nil, is released once the bodies have been copied into the log's buffer or
	// refused.
	Buffer Buffer
	// Numbers asks for the sequence numbers of the messages: the answer is [Numbers].
	Numbers bool
	// Destination, if not nil, is the queue or topic that the messages are for. The slice belongs
	// to another entity and only hands them over.
	Destination *Entity
	// Key is the key that placed the messages ([Target.Place]); only with several partitions. A
	// send that has Others has none.
	Key []byte
	// Others is a set, a bit for each, of the other partitions of the entity that may be tried
	// until a partition has looked at the command; see [Send.Elsewhere].
	Others uint16

	staged []stagedMessage // of a commit
}

// Buffer is memory that holds bytes of a command.
type Buffer interface{ Release() }

// Message is one message to store.
type Message struct {
	Body         []byte // encoded, with a message-id
	Tail         []byte // the end of the body, if it is in another buffer
	ID           []byte // the message-id as text, at most 512 bytes
	SessionID    []byte // group-id
	HasSession   bool   // "" is also a session id
	PartitionKey []byte // empty: none
	// ViaPartitionKey chooses the partition in the entity through which the message is sent. Any
	// other entity uses it only if the message has no other key. It is kept in the body alone.
	ViaPartitionKey []byte
	TimeToLive      time.Duration // 0: none
	ScheduledFor    event.Time    // not in the future: now
	IDType          event.IDType
	// Properties is the part of the message that filters see, and Header its size in bytes without
	// the body's sections. A send to a topic needs them.
	Properties *filter.Message
	Header     int
	// Details are the parts that history keeps besides the body; without a source.
	Details event.Details
}

// ReceiveMode tells what a delivery does to the message.
type ReceiveMode uint8

const (
	PeekLock ReceiveMode = iota
	ReceiveAndDelete
	// Browse shows the messages that a [Peek] shows, from the first on, and then whatever is added
	// after the last one. It takes nothing.
	Browse
)

// Receiver is one receiver link. Make one per link and keep it: it is identified by its pointer.
// Its commands ([Attach], [Flow], [Detach]) are sent to each of [Receiver.Hosts], all in the same
// order. Each is answered once: by the first that refuses, else when all have carried it out.
type Receiver struct {
	Entity *Entity
	Slice  event.Slice // the slice to receive from; zero: all slices of the entity
	// log partitions that do not serve: their parts of a partitioned entity are left out
	Away     []PartitionID
	SubQueue event.SubQueue
	Mode     ReceiveMode
	Origin   *Origin
	Since    event.Time // when its client attached it; operators see it
	Sink     Sink
	Tag      uint64          // returned with each delivery
	Session  *SessionRequest // nil: a receiver without session
	// Read counts, by entity partition, the deliveries without a lock whose bodies the owner of the
	// link has read, or will never read. The log keeps the bodies of the others.
	Read [event.MaxEntityPartitions]atomic.Uint64
	// Runtime is the state that the drivers of partitions (package host) keep for the receiver
	// while it is attached. Only they touch it.
	Runtime atomic.Value
}

// SessionRequest tells which session a receiver wants (semantics.md 8.3).
type SessionRequest struct {
	ID   []byte
	Any  bool          // the next available one; ID is ignored
	Wait time.Duration // how long to wait if none is available
}

// Attach makes a receiver known. It has no credit yet. A receiver that wants a session is answered
// once it has one, with a [SessionGrant]. It is refused with SessionCannotBeLocked if another
// receiver holds the session, and with Timeout if none became available in time.
type Attach struct {
	Receiver *Receiver
	Noted    bool // the log notes when the link is first served and when it ends
}

// Flow sets a receiver's credit: all its hosts together may send deliveries until Limit have been
// sent since Attach. Limit counts modulo 2^32 (AMQP 1.0 part 2.6.7: delivery-count + link-credit).
// With Drain, all deliverable messages are delivered, the rest of the credit is dropped and a
// ReplyDrained follows, unless another Flow comes first. There is no other answer, unless the
// partition has stopped.
type Flow struct {
	Receiver *Receiver
	Limit    uint32
	Drain    bool
}

// StepBack moves the waiting credit of a receiver behind that of all other receivers (semantics.md
// 5.2). It has no answer.
type StepBack struct {
	Receiver *Receiver
}

// Detach forgets a receiver. Locks of messages in Unsent, which never reached the wire, are
// released without counting; all other locks stay (semantics.md 6.1). A session it holds is
// released with all its messages, with the given cause.
type Detach struct {
	Receiver *Receiver
	Unsent   []event.LockToken
	Cause    event.ReleaseCause
	// why the link ended; without a cause the client has detached it
	Closed event.LinkClosed
}

// SettleOutcome is one of the ways to settle (semantics.md 5.3).
type SettleOutcome uint8

const (
	Complete SettleOutcome = iota + 1
	Abandon
	Release
	Defer
	MoveToDeadLetter
)

// Settle ends a lock. It is refused with [LockLost] if the token is not that of a live lock of this
// sub-queue.
type Settle struct {
	Entity   *Entity
	Slice    event.Slice
	SubQueue event.SubQueue
	Origin   *Origin
	Token    event.LockToken
	More     []event.LockToken // further tokens; all are settled or none (semantics.md 5.3)
	// Sessions are the session locks of a caller that has only tokens: it must not settle messages
	// of other sessions (semantics.md 8.4). Nil: not checked.
	Sessions []event.LockToken
	Outcome  SettleOutcome
	Changes  event.Changes // empty: none
	// bytes of the message as sent, without its body, if the caller knows them: they count with
	// Changes
	Header  int
	Headers []int // the headers of the messages of More
	// Unread means that the caller knows neither Header nor Headers. If the outcome may depend on
	// them nothing is settled. The answer is the [Messages]: the caller reads them and asks again.
	Unread bool
	// MoveToDeadLetter: for the audit; Changes must hold the two properties already
	Reason      string
	Description string
	Try         bool // a trial: refused if the command would be, and settles nothing
	// Final means that the client cannot settle the message again. If the settlement is part of a
	// transaction that is not committed, the message is returned as after a failed delivery.
	Final bool

	recycled bool // see [Settle.Recycled]
}

// Renew moves the ends of locks to now + LockDuration: of all tokens or none. The answer is
// [Times].
type Renew struct {
	Entity   *Entity
	Slice    event.Slice
	SubQueue event.SubQueue
	Origin   *Origin
	Tokens   []event.LockToken
}

// Peek looks at messages of a sub-queue in sequence order without locking: active, locked, deferred
// and scheduled ones. It begins with sequence number From and shows at most Count messages, of at
// most MaxBytes (the first always fits). [Reply.More] tells that it ended because of MaxBytes.
type Peek struct {
	Slice      event.Slice
	SubQueue   event.SubQueue
	From       event.SequenceNumber
	Count      int
	MaxBytes   int
	SessionID  []byte // only messages of this session, if HasSession is set
	HasSession bool

	// How far it has come; see [Outcome.Rest].
	seen  []Delivery
	bytes int
	next  event.SequenceNumber
}

// ReceiveDeferred takes deferred messages by their numbers: all of them or none (semantics.md
// 14.1).
type ReceiveDeferred struct {
	Entity    *Entity
	Slice     event.Slice
	SubQueue  event.SubQueue
	Origin    *Origin
	Mode      ReceiveMode
	Sequences []event.SequenceNumber
	// bytes from other partitions in the same answer; see [Delivery.Stored]
	Before  int64
	Session event.LockToken // of the session lock the caller holds; zero: none
	// for the locks, fresh and random, one per message; set by the caller that submits it to a
	// partition
	Tokens []event.LockToken
}

// CancelScheduled ends messages that are not active yet: all of them or none (semantics.md 7.6).
type CancelScheduled struct {
	Entity    *Entity
	Slice     event.Slice
	Origin    *Origin
	Sequences []event.SequenceNumber
	Try       bool // a trial: refused if the command would be, and ends nothing
}

// BatchDelete removes up to Count active messages enqueued before a time, oldest first
// (semantics.md 14.3).
type BatchDelete struct {
	Entity     *Entity
	Slice      event.Slice
	SubQueue   event.SubQueue
	Origin     *Origin
	Count      int
	Before     event.Time // 0: now
	SessionID  []byte     // only messages of this session, if HasSession is set
	HasSession bool
	Why        event.ReasonGiven // see [CheckReason]; without a reason it is not kept

	// How far it has come; see [Outcome.Rest].
	deleted int
	next    event.SequenceNumber
}

// RenewSession moves the end of a session lock to now + LockDuration.
type RenewSession struct {
	Entity    *Entity
	Slice     event.Slice
	Origin    *Origin
	SessionID []byte
	Session   event.LockToken
}

// SetSessionState replaces a session's state; an empty one clears it. The caller must hold the
// session.
type SetSessionState struct {
	Entity    *Entity
	Slice     event.Slice
	Origin    *Origin
	SessionID []byte
	Session   event.LockToken
	State     []byte
}

// GetSessionState asks for a session's state.
type GetSessionState struct {
	Entity    *Entity
	Slice     event.Slice
	SessionID []byte
}

// ListSessions asks for session ids in order (semantics.md 8.6): those whose state was set after a
// time, or with All those that have active messages or a state.
type ListSessions struct {
	Slice event.Slice
	Since event.Time
	All   bool
	Skip  int
	Top   int

	// How far it has come; see [Outcome.Rest].
	begun   bool
	listing index.Listing
}

func (*Send) command()            {}
func (*Attach) command()          {}
func (*Flow) command()            {}
func (*StepBack) command()        {}
func (*Detach) command()          {}
func (*Settle) command()          {}
func (*Renew) command()           {}
func (*Peek) command()            {}
func (*ReceiveDeferred) command() {}
func (*CancelScheduled) command() {}
func (*BatchDelete) command()     {}
func (*RenewSession) command()    {}
func (*SetSessionState) command() {}
func (*GetSessionState) command() {}
func (*ListSessions) command()    {}

// MessageState is a message's state as clients see it (semantics.md 3.1). It does not show whether
// the message is locked.
type MessageState uint8

const (
	MessageActive MessageState = iota
	MessageDeferred
	MessageScheduled
)

// Delivery is a message on its way to a client. [Broker.ReadInto] reads the bytes.
type Delivery struct {
	Sequence      event.SequenceNumber
	Token         event.LockToken // zero for receive-and-delete and peek
	LockedUntil   event.Time      // 0 without a lock
	DeliveryCount uint32          // failed earlier deliveries
	EnqueuedAt    event.Time
	ExpiresAt     event.Time // 0: never
	// the sender's, cut to the ceiling; 0: none; negative: as it was sent
	TimeToLive   time.Duration
	SubQueue     event.SubQueue
	State        MessageState
	WasScheduled bool // before it became active
	// EnqueuedSequence is the number that the message got where it was sent: for a copy, in the
	// topic; for a moved message, in the first entity. 0 for a message that was sent to this
	// entity.
	EnqueuedSequence event.SequenceNumber
	// DeadLetterSource is the path of the entity from whose dead-letter queue the message was
	// forwarded; "": none.
	DeadLetterSource string
	// bytes of the message as sent, without its body; set by the reader of the message
	Header  uint32
	Body    event.Blob
	Changes []event.Blob // property changes, oldest first
}

// Stored returns how many bytes an answer with the message reads: its body and its changes.
func (d *Delivery) Stored() (size int64) {
	size = int64(d.Body.Size)
	for i := range d.Changes {
		size += int64(d.Changes[i].Size)
	}
	return size
}
