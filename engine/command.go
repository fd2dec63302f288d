package engine

import (
	"sync/atomic"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Command is what can be asked of a partition. The set is closed: the types of this package with
// its method.
type Command interface{ command() }

// Request is one command on its way to a partition.
type Request struct {
	Command Command
	Sink    Sink   // gets the reply; nil: nobody does
	Tag     uint64 // given back with the reply
	// Read is set by the sender when it has read the bodies that the reply points to, or never
	// will. The log keeps them until then; nil: it does not.
	Read *atomic.Bool
}

// Sink takes replies. Post is called by a partition's goroutine: it must not block and must not
// keep the slice.
type Sink interface{ Post([]Reply) }

// Reply is the answer to a request, or a delivery to an attached receiver.
type Reply struct {
	Tag  uint64 // of the request; for a delivery or ReplyDrained, [Receiver.Tag]
	Kind ReplyKind
	// More reports that a [Peek] ended because of its MaxBytes: there are more messages in the
	// slice.
	More bool
	// Err is nil, an [*Error] (a refusal: the command had no effect), or wraps [ErrUnknown] (it may
	// or may not have had one: answer nothing that claims either, end the link).
	Err    error
	Answer Answer // what was asked for; nil: nothing beside Err
}

// SessionGrant is a session lock (semantics.md 8.3).
type SessionGrant struct {
	ID          string
	Token       event.LockToken // proves in later commands that the session is held
	LockedUntil event.Time
}

// ReplyKind tells what a reply is.
type ReplyKind uint8

const (
	ReplyDone     ReplyKind = iota // the request with this tag has been carried out or refused
	ReplyDelivery                  // a message for the receiver with this tag
	// the receiver's credit is used up: every delivery it paid for came before
	ReplyDrained
	// ReplyEnded: nothing more is delivered to the receiver, for it lost its session, as a refusal
	// in Err says, or its partition has stopped
	ReplyEnded
)

// Origin is where commands come from; the engine gives it a number in every log that needs one.
// Make one per link and keep it: it is compared by pointer.
type Origin = event.Origin

// Send stores messages in a queue, or hands them to the subscriptions of a topic: all of them or
// none.
type Send struct {
	Entity   *Entity
	Slice    event.Slice
	Origin   *Origin
	Messages []Message
	// Buffer, when not nil, is released once the bodies have been copied into the log's buffer or
	// refused.
	Buffer Buffer
	// Numbers asks for the sequence numbers that the messages get: the answer is [Numbers].
	Numbers bool
	// Destination, when not nil, is the queue or topic that the messages are for: the slice, which
	// is of another entity, only hands them over.
	Destination *Entity
	// Key is what the messages were placed by ([Target.Place]); only with several partitions. A
	// send that has Others has none.
	Key []byte
	// Others is a set, a bit for each, of the other partitions of the entity that may be tried as
	// long as no partition has looked at the command: see [Send.Elsewhere].
	Others uint16

	staged []stagedMessage // of a commit
}

// Buffer is memory that bytes of a command are part of.
type Buffer interface{ Release() }

// Message is one message to be stored.
type Message struct {
	Body         []byte // encoded, with a message-id
	Tail         []byte // the end of the body, when it stands somewhere else
	ID           []byte // the message-id as text, at most 512 bytes
	SessionID    []byte // group-id
	HasSession   bool   // "" is a session id too
	PartitionKey []byte // empty: none
	// ViaPartitionKey chooses the partition in the entity through which the message is sent; any
	// other entity goes by it only when the message has no other key. It is kept in the body alone.
	ViaPartitionKey []byte
	TimeToLive      time.Duration // 0: none
	ScheduledFor    event.Time    // not in the future: now
	IDType          event.IDType
	// Properties is what filters see of the message, and Header how many bytes of it stand beside
	// the body's sections. Needed when it is sent to a topic.
	Properties *filter.Message
	Header     int
	// Details are what history keeps of it beside its body; without a source.
	Details event.Details
}

// ReceiveMode tells what a delivery does to the message.
type ReceiveMode uint8

const (
	PeekLock ReceiveMode = iota
	ReceiveAndDelete
	// Browse shows what a [Peek] shows, from the first message on, and then whatever is added
	// behind the last one. It takes nothing.
	Browse
)

// Receiver is one receiver link. Make one per link and keep it: it is identified by its pointer.
// Its commands ([Attach], [Flow], [Detach]) go to each of [Receiver.Hosts], all in the same order,
// and each is answered once: by the first that refuses, else when all have carried it out.
type Receiver struct {
	Entity *Entity
	Slice  event.Slice // what it receives from; zero: all slices of the entity
	// log partitions that do not serve: what a partitioned entity has there is left out
	Away     []PartitionID
	SubQueue event.SubQueue
	Mode     ReceiveMode
	Origin   *Origin
	Sink     Sink
	Tag      uint64          // given with each delivery
	Session  *SessionRequest // nil: a receiver without session
	// Read counts, by entity partition, the deliveries without a lock whose bodies the owner of the
	// link has read, or will never read. The log keeps the bodies of the others.
	Read [event.MaxEntityPartitions]atomic.Uint64
	// Runtime is the state that the drivers of partitions (package host) keep of the receiver while
	// it is attached. Only they touch it.
	Runtime atomic.Value
}

// SessionRequest says which session a receiver wants (semantics.md 8.3).
type SessionRequest struct {
	ID   []byte
	Any  bool          // the next available one; ID means nothing
	Wait time.Duration // how long to wait for one when none is available
}

// Attach makes a receiver known. It has no credit yet. One that wants a session is answered when it
// has it, with a [SessionGrant]. It is refused with SessionCannotBeLocked when the session is held
// by another, and with Timeout when none became available in time.
type Attach struct {
	Receiver *Receiver
	Noted    bool // the link is noted in the log, when it is first served and when it ends
}

// Flow sets a receiver's credit: it may be sent deliveries until Limit have been sent since Attach,
// by all its hosts together. Limit counts modulo 2^32 (AMQP 1.0 part 2.6.7: delivery-count +
// link-credit). With Drain, what is deliverable now is delivered, the rest of the credit is given
// up and a ReplyDrained follows, unless another Flow comes before that. There is no other answer,
// unless the partition has stopped.
type Flow struct {
	Receiver *Receiver
	Limit    uint32
	Drain    bool
}

// StepBack puts the credit that a receiver has waiting behind that of all other receivers
// (semantics.md 5.2). It has no answer.
type StepBack struct {
	Receiver *Receiver
}

// Detach forgets a receiver. Locks of messages in Unsent, which never reached the wire, are
// released without counting; all others stay (semantics.md 6.1). A session it holds is released
// with all its messages, for the cause given.
type Detach struct {
	Receiver *Receiver
	Unsent   []event.LockToken
	Cause    event.ReleaseCause
	// why the link is no more; without a cause: the client has detached it
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

// Settle ends a lock. Refused with [LockLost] when the token is not that of a live lock of this
// sub-queue.
type Settle struct {
	Entity   *Entity
	Slice    event.Slice
	SubQueue event.SubQueue
	Origin   *Origin
	Token    event.LockToken
	More     []event.LockToken // further tokens; all are settled or none (semantics.md 5.3)
	// Sessions are the locks of the sessions that the caller holds, from a caller that has nothing
	// but tokens: it must not settle messages of other sessions (semantics.md 8.4). Nil: not
	// checked.
	Sessions []event.LockToken
	Outcome  SettleOutcome
	Changes  event.Changes // empty: none
	// bytes of the message as sent beside its body, where the caller knows: they count with Changes
	Header  int
	Headers []int // the same of the messages of More
	// Unread says that the caller knows neither Header nor Headers. Where the outcome may depend on
	// them nothing is settled: the answer is the [Messages], for the caller to read and to ask
	// again.
	Unread bool
	// MoveToDeadLetter: for the audit; Changes must hold the two properties already
	Reason      string
	Description string
	Try         bool // a trial: refused where the command would be, and settles nothing
	// Final says that the client cannot settle the message again. If the settlement is part of a
	// transaction that is not committed, the message is given back as after a failed delivery.
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
// and scheduled ones, beginning with sequence number From, at most Count, ending before MaxBytes
// are passed (the first always fits). The answer says in [Reply.More] that it ended there.
type Peek struct {
	Slice      event.Slice
	SubQueue   event.SubQueue
	From       event.SequenceNumber
	Count      int
	MaxBytes   int
	SessionID  []byte // only messages of this session, when HasSession is set
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
	// bytes that the same answer has of other partitions; see [Delivery.Stored]
	Before  int64
	Session event.LockToken // of the session lock the caller holds; zero: none
	// for the locks, fresh and random, one per message; whoever hands it to a partition fills them
	// in
	Tokens []event.LockToken
}

// CancelScheduled ends messages that are not active yet: all of them or none (semantics.md 7.6).
type CancelScheduled struct {
	Entity    *Entity
	Slice     event.Slice
	Origin    *Origin
	Sequences []event.SequenceNumber
	Try       bool // a trial: refused where the command would be, and ends nothing
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
	SessionID  []byte     // only messages of this session, when HasSession is set
	HasSession bool
	Why        event.ReasonGiven // see [CheckReason]; without a reason nothing of it is kept

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

// ListSessions asks for session ids in order (semantics.md 8.6): of those whose state was set after
// a time, or with All of those that have active messages or a state.
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

// MessageState is what a client is shown of a message's state (semantics.md 3.1). Whether it is
// locked is not shown.
type MessageState uint8

const (
	MessageActive MessageState = iota
	MessageDeferred
	MessageScheduled
)

// Delivery is a message on its way to a client. The bytes are read with [Broker.ReadInto].
type Delivery struct {
	Sequence      event.SequenceNumber
	Token         event.LockToken // zero for receive-and-delete and peek
	LockedUntil   event.Time      // 0 without a lock
	DeliveryCount uint32          // failed earlier deliveries
	EnqueuedAt    event.Time
	ExpiresAt     event.Time // 0: never
	// the sender's own, cut to the ceiling; 0: none; negative: as it was sent
	TimeToLive   time.Duration
	SubQueue     event.SubQueue
	State        MessageState
	WasScheduled bool // before it became active
	// EnqueuedSequence is the number that the message got where it was sent: for a copy, in the
	// topic; for a message that was moved, in the first entity. 0 for a message that was sent where
	// it is.
	EnqueuedSequence event.SequenceNumber
	// DeadLetterSource is the path of the entity out of whose dead-letter queue the message was
	// forwarded; "": of none.
	DeadLetterSource string
	// bytes of the message as sent beside its body; set by the reader of the message
	Header  uint32
	Body    event.Blob
	Changes []event.Blob // property changes, oldest first
}

// Stored returns how many bytes are read for an answer with the message: its body and its changes.
func (d *Delivery) Stored() (size int64) {
	size = int64(d.Body.Size)
	for i := range d.Changes {
		size += int64(d.Changes[i].Size)
	}
	return size
}
