package event

import "time"

// A message moves from a slice to an entity in three steps: it is in transfer, it arrives, its
// transfer is finished or has failed. The steps are events of two logs, and either of them can die
// without the other. The transfer number connects them.

// MaxHops is how many times a message may move, at most: a loop of forwarding entities ends there.
const MaxHops = 4

// TransferNumber numbers the transfers of a slice, from 1. It is never reused.
type TransferNumber uint64

// Trigger is why a message moves.
//
//event:closed trigger of a transfer
//event:words forward dead-letter via
type Trigger uint8

const (
	TriggerForward    Trigger = 1 // ForwardTo: it was active in the main queue
	TriggerDeadLetter Trigger = 2 // ForwardDeadLetteredMessagesTo: it was in the dead-letter queue
	TriggerVia        Trigger = 3 // it was sent through the slice's entity to another one
)

// TransferStarted takes messages out of their queue: from now on they are in transfer, at their
// place. It is durable before the messages are sent to the destination.
//
//event:kind 45 verb=moving with=moves
type TransferStarted struct {
	Envelope
	Destination EntityID         `export:"other_entity"`
	Trigger     Trigger          `log:"among=TriggerForward..TriggerDeadLetter"` // never TriggerVia
	First       TransferNumber   // of the first message; the others follow
	Sequences   []SequenceNumber // ascending
}

// MessageHandedOver stores a message that was sent through the slice's entity to another one. It is
// in transfer from the beginning, so no receiver of the slice ever sees it.
//
//event:kind 46 verb=handed-over with=moves
type MessageHandedOver struct {
	Envelope
	Sequence     SequenceNumber `export:"number"`
	MessageID    []byte         `export:"message_id"`
	SessionID    []byte         `log:"after=HasSession" export:"session_id"`
	HasSession   bool
	PartitionKey []byte
	TimeToLive   time.Duration // the sender's own as sent; 0: none
	EnqueuedAt   Time
	Batch        uint32
	Body         Blob `export:"size:Size"`
	IDType       IDType
	Destination  EntityID `export:"other_entity"`
	Number       TransferNumber
	Details      Details
}

// Arrival says where a moved message comes from. An entity with an arrival of that number from that
// slice never accepts another one.
type Arrival struct {
	Source Slice          // slice that it moved from
	Number TransferNumber // of its transfer there
	// all transfers of the source to this entity with smaller numbers are settled, durably
	Floor TransferNumber
	// number of moves, including this one; at most MaxHops
	Hops  uint8          `log:"among=1..MaxHops"`
	First SequenceNumber // number where it was first sent
	// path of the entity in whose dead-letter queue it was; "": in none
	DeadLetterSource string
	Changes          Blob // its property changes, combined
}

// TransfersFinished removes messages that have arrived.
//
//event:kind 47 verb=moved with=moves
type TransfersFinished struct {
	Envelope
	Numbers []TransferNumber // ascending
}

// TransferFailed puts a message that its destination refused into a dead-letter queue of the slice,
// or back into its own.
//
//event:kind 48 verb=move-failed with=moves
type TransferFailed struct {
	Envelope
	Number TransferNumber
	// DeadLetter or TransferDeadLetter
	SubQueue    SubQueue `log:"among=DeadLetter..TransferDeadLetter"`
	Why         Refusal  `export:"cause"`
	Reason      string   `export:"reason"`
	Description string   `export:"description"`
	Changes     Blob     // as of a MessageDeadLettered
	// of the message; 0 in version 1: see its TransferStarted or MessageHandedOver
	Sequence SequenceNumber `log:"v2" export:"number"`
}

// SourceForgotten removes the record of arrivals from a slice whose entity was deleted: no message
// of it arrives again.
//
//event:kind 49 verb=source-forgotten with=moves
type SourceForgotten struct {
	Envelope // of the destination
	Source   Slice
}
