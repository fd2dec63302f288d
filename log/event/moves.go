package event

import "time"

// A message moves from a slice to an entity in three steps: it is in transfer, it arrives, its transfer is finished or has failed. The
// steps are events of two logs, which may die one without the other; the number of the transfer is what they have in common.

// MaxHops is how many times a message may move, at most: a loop of forwarding entities ends there.
const MaxHops = 4

// TransferNumber numbers the transfers of a slice, from 1. None is ever used again.
type TransferNumber uint64

// Trigger is why a message moves.
type Trigger uint8

const (
	TriggerForward    Trigger = 1 // ForwardTo: it was active in the main queue
	TriggerDeadLetter Trigger = 2 // ForwardDeadLetteredMessagesTo: it was in the dead-letter queue
	TriggerVia        Trigger = 3 // it was sent through the slice's entity to another one
)

func (t Trigger) String() string {
	switch t {
	case TriggerForward:
		return "forward"
	case TriggerDeadLetter:
		return "dead-letter"
	case TriggerVia:
		return "via"
	}
	return "unknown"
}

// MarshalText makes triggers readable in JSON.
func (t Trigger) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// TransferStarted takes messages out of their queue: from now on they are in transfer, where they are. It is durable before anybody
// hands them to the destination.
type TransferStarted struct {
	Envelope
	Destination EntityID
	Trigger     Trigger          // never TriggerVia
	First       TransferNumber   // of the first message; the others follow
	Sequences   []SequenceNumber // ascending
}

// MessageHandedOver stores a message that was sent through the slice's entity to another one. It is in transfer from the beginning, so
// no receiver of the slice ever sees it.
type MessageHandedOver struct {
	Envelope
	Sequence     SequenceNumber
	MessageID    []byte
	SessionID    []byte
	HasSession   bool
	PartitionKey []byte
	TimeToLive   time.Duration // the sender's own as sent; 0: none
	EnqueuedAt   Time
	Batch        uint32
	Body         Blob
	IDType       IDType
	Destination  EntityID
	Number       TransferNumber
	Details      Details
}

// Arrival says where a message that moved comes from. An entity that has had an arrival of that number from that slice never takes it again.
type Arrival struct {
	Source           Slice          // that it moved from
	Number           TransferNumber // of its transfer there
	Floor            TransferNumber // all transfers of the source to here with smaller numbers are over, durably
	Hops             uint8          // moves so far, this one included; at most MaxHops
	First            SequenceNumber // where it was sent to first
	DeadLetterSource string         // path of the entity in whose dead-letter queue it was; "": in none
	Changes          Blob           // property changes that it came with, in one
}

// TransfersFinished removes messages that have arrived.
type TransfersFinished struct {
	Envelope
	Numbers []TransferNumber // ascending
}

// TransferFailed puts a message that its destination did not take into a dead-letter queue of the slice, or back into the one it was in.
type TransferFailed struct {
	Envelope
	Number      TransferNumber
	SubQueue    SubQueue // DeadLetter or TransferDeadLetter
	Why         Refusal
	Reason      string
	Description string
	Changes     Blob           // as of a MessageDeadLettered
	Sequence    SequenceNumber // of the message; of version 1 0: its TransferStarted or MessageHandedOver says it
}

// SourceForgotten forgets what arrived from a slice whose entity was deleted: nothing of it comes again.
type SourceForgotten struct {
	Envelope // of the destination
	Source   Slice
}

// Kind implements [Event].
func (*TransferStarted) Kind() Kind { return KindTransferStarted }

func (t *TransferStarted) encode(e *encoder) {
	e.uvarint(uint64(t.Destination))
	e.byte(byte(t.Trigger))
	e.uvarint(uint64(t.First))
	encodeAscending(e, t.Sequences)
}

func (t *TransferStarted) decode(d *decoder) {
	t.Destination = EntityID(d.uint32())
	t.Trigger = Trigger(d.among("trigger of a transfer", byte(TriggerForward), byte(TriggerDeadLetter)))
	t.First = TransferNumber(d.uvarint())
	t.Sequences = decodeAscending[SequenceNumber](d)
}

// Kind implements [Event].
func (*MessageHandedOver) Kind() Kind { return KindMessageHandedOver }

func (m *MessageHandedOver) encode(e *encoder) {
	e.sent(m.sent())
	e.time(m.EnqueuedAt)
	e.uvarint(uint64(m.Batch))
	e.blob(&m.Body)
	e.byte(byte(m.IDType))
	e.uvarint(uint64(m.Destination))
	e.uvarint(uint64(m.Number))
	e.details(&m.Details, extras{})
}

func (m *MessageHandedOver) decode(d *decoder) {
	d.sent(m.sent())
	m.EnqueuedAt = d.time()
	m.Batch = d.uint32()
	d.blob(&m.Body)
	m.IDType = IDType(d.byte())
	m.Destination = EntityID(d.uint32())
	m.Number = TransferNumber(d.uvarint())
	d.details(&m.Details, 0)
}

// Kind implements [Event].
func (*TransfersFinished) Kind() Kind          { return KindTransfersFinished }
func (t *TransfersFinished) encode(e *encoder) { encodeAscending(e, t.Numbers) }
func (t *TransfersFinished) decode(d *decoder) { t.Numbers = decodeAscending[TransferNumber](d) }

// Kind implements [Event].
func (*TransferFailed) Kind() Kind { return KindTransferFailed }

func (t *TransferFailed) encode(e *encoder) {
	e.uvarint(uint64(t.Number))
	e.byte(byte(t.SubQueue))
	e.byte(byte(t.Why))
	e.text(t.Reason)
	e.text(t.Description)
	e.blob(&t.Changes)
	e.seq(t.Sequence)
}

func (t *TransferFailed) decode(d *decoder) {
	t.Number = TransferNumber(d.uvarint())
	t.SubQueue = SubQueue(d.among("dead-letter queue", byte(DeadLetter), byte(TransferDeadLetter)))
	t.Why = Refusal(d.among("refusal", byte(RefusedOther), byte(RefusedGone)))
	t.Reason = d.text()
	t.Description = d.text()
	d.blob(&t.Changes)
	if d.version >= 2 {
		t.Sequence = d.seq()
	}
}

// Kind implements [Event].
func (*SourceForgotten) Kind() Kind          { return KindSourceForgotten }
func (s *SourceForgotten) encode(e *encoder) { e.slice(s.Source) }
func (s *SourceForgotten) decode(d *decoder) { s.Source = d.slice() }

func (e *encoder) slice(s Slice) {
	e.uvarint(uint64(s.Entity))
	e.byte(s.Partition)
}

func (d *decoder) slice() Slice {
	return Slice{Entity: EntityID(d.uint32()), Partition: d.byte()}
}

func (e *encoder) arrival(a *Arrival) {
	e.slice(a.Source)
	e.uvarint(uint64(a.Number))
	e.uvarint(uint64(a.Floor))
	e.byte(a.Hops)
	e.seq(a.First)
	e.text(a.DeadLetterSource)
	e.blob(&a.Changes)
}

func (d *decoder) arrival() *Arrival {
	a := &Arrival{Source: d.slice()}
	a.Number = TransferNumber(d.uvarint())
	a.Floor = TransferNumber(d.uvarint())
	a.Hops = d.among("number of hops", 1, MaxHops)
	a.First = d.seq()
	a.DeadLetterSource = d.text()
	d.blob(&a.Changes)
	return a
}

// encodeAscending stores numbers each as the distance from the one before.
func encodeAscending[N ~uint64](e *encoder, numbers []N) {
	e.count(len(numbers))
	var before N
	for _, n := range numbers {
		e.uvarint(uint64(n - before))
		before = n
	}
}

func decodeAscending[N ~uint64](d *decoder) (numbers []N) {
	var n N
	for range d.count(1) {
		n += N(d.uvarint())
		numbers = append(numbers, n)
	}
	return numbers
}
