package engine

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Note puts a fact into the log: an event that changes nothing and says what nobody could find out
// later (docs/decisions/0030). It has a record of its own, behind that of what it is about, so that
// what waits for a decision waits for no fact. A partition asks for one with a refusal
// ([Outcome.Note]); a caller that refuses without asking the partition gives it one.
//
// Where there are too many, a [event.SettlementRefused] is left out, and so are the opening and the
// end of a link; the [event.SendsRefused] of a second are added up, whoever they are from. How many
// there were is filled in by the driver of the partition. A receiver's link need not be noted:
// [Attach] and [Detach] say enough. A sender's is known to no partition. A [event.BackupMarked], a
// [event.BodyErased], an [event.ErasureFinished] and a [event.HistoryCut] are durable before the
// reply; no other fact is.
type Note struct {
	// belongs to the partition from now on. Its origin is filled in; a number that it has already
	// stays
	Fact   event.Event
	Origin *Origin // nil: none
	// Why is the reason given for a fact that is somebody's act: a [event.PartitionFenced],
	// [event.PartitionRestarted], [event.BackupMarked] or [event.BodyErased]. It is as durable as
	// the fact.
	Why event.ReasonGiven
}

// maxLinkText bounds what a fact says of the end of a link: texts of peers and of operating
// systems.
const maxLinkText = 1024

func (*Note) command() {}

// note adds the event of a fact.
func note(d *decision, cmd *Note) {
	of := cmd.Fact.Common()
	of.Origin = d.originAs(cmd.Origin, of.Origin)
	switch fact := cmd.Fact.(type) {
	case *event.LinkClosed:
		fact.Condition, fact.Description = clipTo(fact.Condition, maxLinkText), clipTo(fact.Description, maxLinkText)
	case *event.SettlementRefused:
		if fact.Sequence == 0 {
			fact.Sequence = d.lockedBy(fact)
		}
		complete(fact.Wanted != 0 && fact.Why != 0, fact)
	case *event.SendsRefused:
		complete(fact.Why != 0 && fact.Count > 0, fact)
	}
	d.events, d.lazy = append(d.events, cmd.Fact), true
	switch fact := cmd.Fact.(type) {
	case *event.PartitionFenced:
		d.lazy, fact.Error = false, clipTo(fact.Error, event.MaxReason)
		d.because(cmd.Why, *of)
	case *event.PartitionRestarted, *event.BackupMarked, *event.BodyErased, *event.ErasureFinished, *event.HistoryCut:
		d.lazy = false
		d.because(cmd.Why, *of)
	}
}

// complete panics for a fact that could be written but not read back.
func complete(is bool, fact event.Event) {
	if !is {
		panic(fmt.Sprintf("engine: a fact says too little: %+v", fact))
	}
}

// Refusal is a code as the log has it.
func (c Code) Refusal() event.Refusal {
	switch c {
	case LockLost:
		return event.RefusedLockLost
	case SessionLockLost:
		return event.RefusedSessionLost
	case Disabled:
		return event.RefusedDisabled
	case NotAllowed:
		return event.RefusedNotAllowed
	case InvalidArgument:
		return event.RefusedInvalid
	case MessageTooLarge:
		return event.RefusedTooLarge
	case EntityFull:
		return event.RefusedFull
	case Busy:
		return event.RefusedBusy
	case NoMatchingSubscription:
		return event.RefusedNoMatch
	case NotFound:
		return event.RefusedGone
	}
	return event.RefusedOther
}

// Wanted is an outcome as the log has it.
func (o SettleOutcome) Wanted() event.Wanted {
	return [...]event.Wanted{Complete: event.WantedComplete, Abandon: event.WantedAbandon, Release: event.WantedRelease,
		Defer: event.WantedDefer, MoveToDeadLetter: event.WantedDeadLetter}[o]
}

// refuse says that a settlement or a renewal is refused, and that this is to be noted. It is called
// while the lock is as it was found.
func (d *decision) refuse(by *Origin, fact event.SettlementRefused, err *Error) {
	fact.Sequence, fact.Why = d.lockedBy(&fact), err.Code.Refusal()
	d.note = &Note{Fact: &fact, Origin: by}
}

// lockedBy is the message that the token of a refusal has locked; 0: it has none.
func (d *decision) lockedBy(fact *event.SettlementRefused) event.SequenceNumber {
	if l, ok := d.index.Lock(fact.Token); ok && l.Slice == fact.Slice && !l.OfSession() {
		return l.Sequence
	}
	return 0
}
