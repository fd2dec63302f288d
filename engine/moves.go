package engine

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Commands that move messages from one entity to another (docs/decisions/0035). A message is in
// transfer at its source ([Forward], or a [Send] with a destination). Its destination takes it
// ([Import]). Then it is removed from the source ([FinishTransfers]), or put into a dead-letter
// queue there ([FailTransfer]). Source and destination may be in two partitions: they share the
// slice that the message leaves and its number there.

// Transfer is the part of a message in transfer that its destination is offered.
type Transfer struct {
	Number      event.TransferNumber
	Trigger     event.Trigger
	Destination event.EntityID // 0: the path of the destination named nothing
	Sequence    event.SequenceNumber
	Body        event.Blob
	Changes     []event.Blob         // property changes, oldest first
	TimeToLive  time.Duration        // the sender's; 0: none; negative: as it was sent
	Hops        uint8                // moves made so far
	First       event.SequenceNumber // where it was sent to first
	// path of the entity in whose dead-letter queue it was last; "": none
	DeadLetterSource string
}

// Bytes returns how many bytes must be read to move it.
func (t *Transfer) Bytes() int {
	n := int(t.Body.Size)
	for i := range t.Changes {
		n += int(t.Changes[i].Size)
	}
	return n
}

// Forward puts the first deliverable messages of a queue in transfer to an entity, in order. It
// ends the messages in their way: those that have expired, and those that have moved too often,
// which are dead-lettered in the slice. It is decided again if there are more.
type Forward struct {
	Slice event.Slice
	// [event.TriggerForward]: the main queue, [event.TriggerDeadLetter]: the dead-letter queue
	Trigger     event.Trigger
	Destination event.EntityID // 0: it does not exist; the transfers will fail
	Count       int            // at most
	Bytes       int            // until that many bytes are in transfer; one message is always moved
	// queue for messages that have moved too often: the dead-letter queue or the transfer
	// dead-letter queue
	TooOften event.SubQueue
}

// Queue returns the sub-queue that the messages leave.
func (f *Forward) Queue() event.SubQueue {
	if f.Trigger == event.TriggerDeadLetter {
		return event.DeadLetter
	}
	return event.Main
}

// Import offers a slice messages that come from another one. The answer is the [Arrivals].
type Import struct {
	Entity *Entity
	Slice  event.Slice
	Source event.Slice
	// all transfers from the source to this slice with smaller numbers have ended, durably
	Floor event.TransferNumber
	Items []Arriving
	// Waits means that messages wait for room in the entity: the first one without room ends the
	// import.
	Waits bool
}

// Arriving is one message of an [Import].
type Arriving struct {
	Message          Message
	Number           event.TransferNumber
	Sequence         event.SequenceNumber // sequence number at the source
	Hops             uint8                // number of moves, including this one
	First            event.SequenceNumber
	DeadLetterSource string
	Changes          []byte // property changes that it comes with, encoded as one
}

// Arrivals tell the result for each message of an [Import], in order: nil for one that was taken,
// now or before; else why it is refused. The list ends after a refusal that may pass: the messages
// after it must be offered again.
type Arrivals []*Error

// FinishTransfers removes messages that have arrived. Messages that are no longer in transfer are
// left alone.
type FinishTransfers struct {
	Slice   event.Slice
	Numbers []event.TransferNumber // ascending
}

// FailTransfer puts a message that its destination refused into a dead-letter queue of the slice.
type FailTransfer struct {
	Slice    event.Slice
	Number   event.TransferNumber
	SubQueue event.SubQueue
	Refusal  Error
	Header   int  // bytes of the message without its body; 0: unknown
	Back     bool // it was in the dead-letter queue and is returned there unchanged
}

// ForgetSource forgets the messages that arrived in a slice from the slice of a deleted entity:
// nothing of it comes again.
type ForgetSource struct{ Slice, Source event.Slice }

func (*Forward) command()         {}
func (*Import) command()          {}
func (*FinishTransfers) command() {}
func (*FailTransfer) command()    {}
func (*ForgetSource) command()    {}
func (Arrivals) answer()          {}

// The dead-letter reason and description of a message that has moved too often.
const (
	hopsReason = "MaxTransferHopCountExceeded"
	hopsText   = "The maximum number of allowed hops when forwarding between queues has been exceeded."
)

// TransferOf returns a message in transfer as its destination is offered it.
func TransferOf(m *index.Message, t *index.Transfer) Transfer {
	all := Transfer{Number: t.Number, Trigger: t.Trigger, Destination: t.Destination, Sequence: m.Sequence, Body: m.Body,
		Changes: m.Changes[:len(m.Changes):len(m.Changes)], TimeToLive: -1, Hops: m.Hops, First: m.EnqueuedSequence, DeadLetterSource: m.DeadLetterSource}
	switch {
	case !m.OwnTTL:
		all.TimeToLive = 0
	case m.ExpiresAt != 0:
		all.TimeToLive = m.ExpiresAt.Sub(m.EnqueuedAt) // the entity has cut it to this
	}
	if all.First == 0 {
		all.First = m.Sequence
	}
	return all
}

// forward starts transfers.
func forward(d *decision, cmd *Forward) *Error {
	s, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	if err := s.receivable(); err != nil {
		return err
	}
	bytes := 0
	var started *event.TransferStarted
	for m := range s.index.Movable(s.id, cmd.Queue()) {
		if d.looks >= lookStep || started != nil && (len(started.Sequences) >= cmd.Count || bytes >= cmd.Bytes) {
			d.goOn(cmd)
			break
		}
		d.looks++
		switch {
		case expired(&m, s.now):
			s.expire(&m, changesSize(&m))
		case m.Hops >= event.MaxHops:
			s.tooOften(&m, cmd)
		default:
			if started == nil {
				started = add[*event.TransferStarted](d, event.KindTransferStarted)
				started.Envelope, started.Destination, started.Trigger = s.envelope(0), cmd.Destination, cmd.Trigger
				started.First = s.index.NextTransfer(s.id)
			}
			started.Sequences = append(started.Sequences, m.Sequence)
			bytes += int(m.Body.Size)
		}
	}
	return nil
}

// tooOften dead-letters a message that has reached the maximum number of moves.
func (s *slice) tooOften(m *index.Message, cmd *Forward) {
	ev := add[*event.MessageDeadLettered](s.decision, event.KindMessageDeadLettered)
	ev.Envelope, ev.Sequence, ev.SubQueue = s.envelope(0), m.Sequence, cmd.TooOften
	ev.Cause, ev.Reason, ev.Description, ev.Changes.Data = fitReason(changesSize(m), event.CauseHopLimit, hopsReason, hopsText)
}

// finishTransfers removes messages that have arrived. Nothing waits for that: at worst they are
// offered once more, and their destination knows them.
func finishTransfers(d *decision, cmd *FinishTransfers) {
	over := slices.DeleteFunc(cmd.Numbers, func(n event.TransferNumber) bool {
		_, _, open := d.index.Transfer(cmd.Slice, n)
		return !open // the entity was deleted
	})
	if len(over) == 0 {
		return
	}
	ev := add[*event.TransfersFinished](d, event.KindTransfersFinished)
	ev.Envelope, ev.Numbers, d.early = event.Envelope{Slice: cmd.Slice}, over, true
}

// failTransfer ends a transfer that its destination refused.
func failTransfer(d *decision, cmd *FailTransfer) {
	m, _, ok := d.index.Transfer(cmd.Slice, cmd.Number)
	if !ok {
		return // the entity was deleted
	}
	s := d.formerSlice(cmd.Slice)
	ev := add[*event.TransferFailed](d, event.KindTransferFailed)
	ev.Envelope, ev.Number, ev.Sequence, ev.SubQueue, ev.Why = s.envelope(0), cmd.Number, m.Sequence, cmd.SubQueue, cmd.Refusal.Code.Refusal()
	if cmd.Back {
		ev.Reason, ev.Description = cmd.Refusal.Code.className(), clip(cmd.Refusal.Text)
		return
	}
	_, ev.Reason, ev.Description, ev.Changes.Data = fitReason(max(cmd.Header, changesSize(&m)), event.CauseApplication,
		cmd.Refusal.Code.className(), clip(cmd.Refusal.Text))
}

// className returns the dead-letter reason of a message that its destination refused: the service's
// name for the error.
func (c Code) className() string {
	switch c {
	case Disabled:
		return "MessagingEntityDisabledException"
	case NotFound:
		return "MessagingEntityNotFoundException"
	case EntityFull, QuotaExceeded:
		return "QuotaExceededException"
	case MessageTooLarge:
		return "MessageSizeExceededException"
	case InvalidArgument:
		return "ArgumentException"
	case NoMatchingSubscription:
		return "NoMatchingSubscriptionException"
	case Unreadable:
		return "MessagingException"
	}
	return "InvalidOperationException"
}

// forgetSource forgets arrivals, if there are any.
func forgetSource(d *decision, cmd *ForgetSource) {
	if !slices.Contains(d.index.ArrivalSources(cmd.Slice), cmd.Source) {
		return
	}
	ev := add[*event.SourceForgotten](d, event.KindSourceForgotten)
	ev.Envelope, ev.Source = event.Envelope{Slice: cmd.Slice}, cmd.Source
}
