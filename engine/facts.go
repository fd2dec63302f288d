package engine

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Note writes a fact to the log: an event that changes nothing and records what could not be found
// out later (docs/decisions/0030). It has its own record, after that of its subject, so work that
// waits for a decision does not wait for a fact. A partition asks for a note with a refusal
// ([Outcome.Note]); a caller that refuses without asking the partition submits one.
//
// If there are too many facts, a [event.SettlementRefused] is left out, and so are the opening and
// the end of a link. The [event.SendsRefused] of one second are added up, whatever their origins;
// the driver of the partition fills in the count. A receiver's link need not be noted: [Attach] and
// [Detach] are enough. No partition knows a sender's link. A [event.BackupMarked], a
// [event.BodyErased], an [event.ErasureFinished] and a [event.HistoryCut] are durable before the
// reply; no other fact is.
type Note struct {
	// owned by the partition from now on; it fills in the origin, but keeps a number that is
	// already set
	Fact   event.Event
	Origin *Origin // nil: none
	// Why is the reason given for a fact that is an act of an operator: a [event.PartitionFenced],
	// [event.PartitionRestarted], [event.BackupMarked] or [event.BodyErased]. It is as durable as
	// the fact.
	Why event.ReasonGiven
}

// maxLinkText bounds the texts of a fact about the end of a link. They come from peers and
// operating systems.
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
		panic(fmt.Sprintf("engine: incomplete fact: %+v", fact))
	}
}

// Refusal returns a code in the form that the log has.
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

// Wanted returns an outcome in the form that the log has.
func (o SettleOutcome) Wanted() event.Wanted {
	return [...]event.Wanted{Complete: event.WantedComplete, Abandon: event.WantedAbandon, Release: event.WantedRelease,
		Defer: event.WantedDefer, MoveToDeadLetter: event.WantedDeadLetter}[o]
}

// refuse records that a settlement or a renewal is refused, and that the refusal is to be noted. It
// is called while the lock is unchanged.
func (d *decision) refuse(by *Origin, fact event.SettlementRefused, err *Error) {
	fact.Sequence, fact.Why = d.lockedBy(&fact), err.Code.Refusal()
	d.note = &Note{Fact: &fact, Origin: by}
}

// lockedBy returns the message that the token of a refusal has locked; 0: none.
func (d *decision) lockedBy(fact *event.SettlementRefused) event.SequenceNumber {
	if l, ok := d.index.Lock(fact.Token); ok && l.Slice == fact.Slice && !l.OfSession() {
		return l.Sequence
	}
	return 0
}
