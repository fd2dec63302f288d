package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What a loop refuses while its disk is full or hangs (docs/decisions/0039, 0040): it answers
// server-busy, after which clients try again. Requests that were accepted before are not refused,
// because they may become durable. Unrequested events, such as ends of locks, continue.
//
// Requests are refused in four places. [Loop.Submit] refuses them before the mailbox and in the
// caller's goroutine. Loop.step refuses them by the command, and Loop.decide by the events of an
// administrator's command. The partition itself refuses sends, staged operations and messages that
// arrive from other entities; [limits.refuseGrowth] tells it to.

// weight is how much longer a command makes the log.
type weight uint8

const (
	weightNone   weight = iota // no longer, or by something that cannot wait
	weightEnding               // for a while: it settles, removes, or moves the end of a lock
	weightChange               // by the new value of something
	weightGrowth               // permanently
)

// weightOf returns the weight of a command before it is decided. The weight of a few commands
// depends on the decision, see [eventWeight]. The partition itself refuses sends, including those
// of transactions, see [limits.refuseGrowth].
func weightOf(cmd engine.Command) weight {
	switch cmd := cmd.(type) {
	case *engine.SetSessionState:
		if len(cmd.State) > 0 {
			return weightChange
		}
		return weightEnding
	case *engine.Settle, *engine.Renew, *engine.RenewSession, *engine.ReceiveDeferred, *engine.CancelScheduled, *engine.BatchDelete,
		*engine.DeleteEntity, *engine.DeleteRule:
		return weightEnding
	}
	return weightNone
}

// eventWeight returns the weight of an administrator's command by its events: often nothing
// changes.
func eventWeight(events []event.Event) weight {
	most := weightNone
	for _, ev := range events {
		switch ev.(type) {
		case *event.EntityCreated, *event.RuleAdded:
			most = max(most, weightGrowth)
		case *event.EntityUpdated, *event.RuleUpdated:
			most = max(most, weightChange)
		}
	}
	return most
}

// refusalWeight returns the weight from which commands are refused with that much room; see
// [log.Room].
func refusalWeight(room log.Room) weight {
	return [...]weight{log.RoomEnough: weightGrowth + 1, log.RoomLow: weightGrowth, log.RoomCritical: weightChange, log.RoomNone: weightEnding}[room]
}

// refuseForRoom refuses a command for lack of room on the disk; nil: there is enough.
func refuseForRoom(on log.Writer, w weight) *engine.Error {
	if w == weightNone || w < refusalWeight(on.DiskState().Room) {
		return nil
	}
	return engine.Refuse(engine.Busy, "The server is busy: the disk has no room for this now. Please retry the operation.")
}

// noMemory refuses requests that take lasting memory while there is none (docs/decisions/0041).
var noMemory = engine.Refuse(engine.Busy, "The server is busy: it has no memory for this now. Please retry the operation.")

// memoryCheck reports whether there is no memory for new messages. A nil one reports that there is.
type memoryCheck func() (none bool)

// refuse refuses a command for lack of memory; nil: there is enough. Settlements need none.
func (m memoryCheck) refuse(w weight) *engine.Error {
	least := weightGrowth
	if m == nil || w < least || !m() {
		return nil
	}
	return noMemory
}

// limits decides what a loop refuses because of its disk, its memory, or damage.
type limits struct {
	// set once in New
	recorder *recorder
	memory   memoryCheck // reports whether there is memory

	// owned by the loop
	damaged error // a stored body could not be read: sends are refused
	unfit   bool  // sends are refused in this turn only because of the log
}

// refuseGrowth makes the partition refuse sends while they cannot be stored.
func (l *limits) refuseGrowth() {
	refusal := refuseForRoom(l.recorder.frames.writer, weightGrowth)
	l.unfit = refusal != nil || l.damaged != nil
	if refusal == nil {
		refusal = l.memory.refuse(weightGrowth)
	}
	if l.damaged != nil {
		refusal = engine.Refuse(engine.Busy, "The partition takes no messages because stored data is damaged.")
	}
	l.recorder.part.RefuseSends(refusal)
}

// onlyReserveLeft reports whether only the reserve is left, which facts may not use.
func onlyReserveLeft(on log.Writer) bool { return on.DiskState().Room >= log.RoomCritical }

// splitRequests splits requests to a loop into those to keep and those that its disk cannot carry
// out, and returns why. While the disk hangs it cannot take new messages; without any room it
// cannot take anything that writes. The loop itself cannot refuse them: it may be in a write, and
// its answers leave in order, after the ones that wait for the disk. splitRequests does not change
// the slice.
func splitRequests(on log.Writer, requests []engine.Request) (kept, refused []engine.Request, why error) {
	s := on.DiskState()
	full := s.Room == log.RoomNone
	if s.Hangs.IsZero() && !full {
		return requests, nil, nil
	}
	for _, req := range requests {
		if isNew(req.Command) || full && weightOf(req.Command) >= weightEnding {
			refused = append(refused, req)
		} else {
			kept = append(kept, req)
		}
	}
	cause := "its disk does not answer"
	if full {
		cause = "its disk has no room"
	}
	return kept, refused, engine.Refuse(engine.Busy, "The server is busy: %s. Please retry the operation.", cause)
}

// refuse refuses a command for lack of room or memory; nil: there is enough of both.
func (l *limits) refuse(w weight) *engine.Error {
	if err := refuseForRoom(l.recorder.frames.writer, w); err != nil {
		return err
	}
	return l.memory.refuse(w)
}

// isNew reports whether a command is refused while a disk hangs, because it makes the log grow
// permanently.
func isNew(cmd engine.Command) bool {
	switch cmd := cmd.(type) {
	case *engine.Send, *engine.PutEntity, *engine.PutRule:
		return true
	case *engine.ReceiveDeferred: // its locks could end before they are written
		return true
	case *engine.Stage:
		// a later commit does not help a client that waits for this answer now
		_, send := cmd.Operation.(*engine.Send)
		return send
	}
	return false
}

// isHalted reports whether no locks are granted because the disk hangs: they could end before they
// are written.
func isHalted(on log.Writer) bool {
	return !on.DiskState().Hangs.IsZero()
}

// noteDamage notes damage. If the delivery's lock no longer exists, it is no damage: the message
// was settled on its way, and history was allowed to delete its body.
func (l *limits) noteDamage(cmd *damageCommand) {
	if cmd.lock != (event.LockToken{}) {
		if _, held := l.recorder.part.Index().Lock(cmd.lock); !held {
			l.recorder.logger.Warn("delivery dropped: the message was settled and its body freed while the link was blocked", "lock", cmd.lock, "error", cmd.err)
			return
		}
	}
	if l.damaged = cmd.err; cmd.is != nil {
		cmd.is()
	}
	l.refuseGrowth()
}

// Fit reports whether the loop's disk accepts new messages.
func (l *Loop) Fit() bool {
	on := l.frames.writer
	return on.DiskState().Hangs.IsZero() && refuseForRoom(on, weightGrowth) == nil
}

// Admit returns the requests to a loop that get into its mailbox, and refuses the others, which its
// disk cannot carry out. The simulation, which does not use [Loop.Submit], calls it instead.
func Admit(on log.Writer, requests []engine.Request) []engine.Request {
	kept, refused, why := splitRequests(on, requests)
	TurnAway(refused, why)
	return kept
}
