package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// Facts are events that change nothing (docs/decisions/0030): they say what nobody could find out later. Each has a record of its own, behind that
// of what it is about, so that whatever waits for a decision waits for no fact.

// NoteSettlement puts into the log that a settlement or a renewal was refused. Every refusal of a partition comes with one
// ([Outcome.Note]); who refuses by itself, without asking the partition, gives it one. Those that are too many are left out. There is no
// answer.
type NoteSettlement struct {
	Slice    event.Slice
	SubQueue event.SubQueue
	Origin   *Origin
	Token    event.LockToken // of several the one that the refusal is about, as far as one is
	Wanted   event.Wanted
	Why      Code
	Sequence event.SequenceNumber // 0: not known, or the lock was that of a session
	Missed   uint64               // refusals before this one that were left out; whoever drives the partition fills it in
}

// NoteSends puts into the log that messages were not let in. The partition's own refusals of a [Send] are noted by whoever drives it, a
// second's together; who refuses by itself, without asking the partition, gives it one for those it has refused. There is no answer.
type NoteSends struct {
	Slice  event.Slice
	Origin *Origin
	Why    Code
	Count  uint64     // messages
	Since  event.Time // when the first was refused; whoever drives the partition fills it in
}

// Run is what the log of a partition says of a run of the broker.
type Run struct {
	Version  string     // of the broker
	Settings string     // a fingerprint of what it was started with; equal settings have equal ones
	Stop     event.Stop // how the run before ended, as its log shows
	Cut      uint64     // bytes cut off the end of the log
}

type noteRun struct{ run Run }

// NoteRun is the command that puts the start of a run into the log.
func NoteRun(run Run) Command { return &noteRun{run} }

func (*NoteSettlement) command() {}
func (*NoteSends) command()      {}
func (*noteRun) command()        {}

func noteSettlement(d *decision, cmd *NoteSettlement) {
	d.lazy = true
	of := event.Envelope{Slice: cmd.Slice, Origin: d.origin(cmd.Origin)}
	ev := add[*event.SettlementRefused](d, event.KindSettlementRefused)
	ev.Envelope, ev.Sequence, ev.SubQueue, ev.Token = of, cmd.Sequence, cmd.SubQueue, cmd.Token
	ev.Wanted, ev.Why, ev.Missed = cmd.Wanted, refusalOf(cmd.Why), cmd.Missed
}

func noteSends(d *decision, cmd *NoteSends) {
	d.lazy = true
	of := event.Envelope{Slice: cmd.Slice, Origin: d.origin(cmd.Origin)}
	ev := add[*event.SendsRefused](d, event.KindSendsRefused)
	ev.Envelope, ev.Why, ev.Count, ev.Since = of, refusalOf(cmd.Why), cmd.Count, cmd.Since
}

func noteStart(d *decision, cmd *noteRun) {
	d.lazy = true
	ev := add[*event.RunStarted](d, event.KindRunStarted)
	ev.Version, ev.Settings, ev.Stop, ev.Cut = clip(cmd.run.Version), clip(cmd.run.Settings), cmd.run.Stop, cmd.run.Cut
}

// refusalOf is a code as the log has it.
func refusalOf(c Code) event.Refusal {
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

// wanted is an outcome as the log has it.
func (o SettleOutcome) wanted() event.Wanted {
	return [...]event.Wanted{Complete: event.WantedComplete, Abandon: event.WantedAbandon, Release: event.WantedRelease,
		Defer: event.WantedDefer, MoveToDeadLetter: event.WantedDeadLetter}[o]
}

// refuse says that a settlement or a renewal is refused, and that this is to be noted. It is called while the lock is as it was found.
func (d *decision) refuse(note NoteSettlement, err *Error) {
	if l, ok := d.index.Lock(note.Token); ok && l.Slice == note.Slice && !l.OfSession() {
		note.Sequence = l.Sequence
	}
	note.Why, d.note = err.Code, &note
}
