package event

import "time"

// A message moves from a slice to an entity in three steps: it is in transfer, it arrives, its
// transfer is finished or has failed. The steps are events of two logs, which may die one without
// the other; the number of the transfer is what they have in common.

// MaxHops is how many times a message may move, at most: a loop of forwarding entities ends there.
const MaxHops = 4

// TransferNumber numbers the transfers of a slice, from 1. None is ever used again.
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

// TransferStarted takes messages out of their queue: from now on they are in transfer, where they
// are. It is durable before anybody hands them to the destination.
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

// Arrival says where a message that moved comes from. An entity that has had an arrival of that
// number from that slice never takes it again.
type Arrival struct {
	Source Slice          // that it moved from
	Number TransferNumber // of its transfer there
	// all transfers of the source to here with smaller numbers are over, durably
	Floor TransferNumber
	// moves so far, this one included; at most MaxHops
	Hops  uint8          `log:"among=1..MaxHops"`
	First SequenceNumber // where it was sent to first
	// path of the entity in whose dead-letter queue it was; "": in none
	DeadLetterSource string
	Changes          Blob // property changes that it came with, in one
}

// TransfersFinished removes messages that have arrived.
//
//event:kind 47 verb=moved with=moves
type TransfersFinished struct {
	Envelope
	Numbers []TransferNumber // ascending
}

// TransferFailed puts a message that its destination did not take into a dead-letter queue of the
// slice, or back into the one it was in.
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
	// of the message; of version 1 0: its TransferStarted or MessageHandedOver says it
	Sequence SequenceNumber `log:"v2" export:"number"`
}

// SourceForgotten forgets what arrived from a slice whose entity was deleted: nothing of it comes
// again.
//
//event:kind 49 verb=source-forgotten with=moves
type SourceForgotten struct {
	Envelope // of the destination
	Source   Slice
}
