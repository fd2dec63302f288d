package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What a loop refuses while its disk is full or hangs (docs/decisions/0039, 0040), as server-busy,
// which clients take for an invitation to try again. What was taken before is not refused: it may
// become durable. What nobody asked for, ends of locks and such, goes on.
//
// It is refused in [Loop.Submit], before the mailbox and in the goroutine of the caller; in
// Loop.step, by the command; in Loop.decide, by the events that an administrator's command came to;
// and by the partition itself, which [limits.refuseGrowth] tells, for sends, what is staged, and
// what arrives from other entities.

// weight is how much longer a command makes the log.
type weight uint8

const (
	weightNone   weight = iota // by nothing, or by what cannot wait
	weightEnding               // for a while: it settles, removes, or moves the end of a lock
	weightChange               // by the new value of something
	weightGrowth               // for good
)

// weightOf is the weight of a command before it is decided. For a few commands it depends on what
// is decided, see [eventWeight]. Sends, those of transactions among them, are refused by the
// partition itself, see [limits.refuseGrowth].
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

// eventWeight is the weight of what an administrator has asked for: often nothing changes.
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

// refusedFrom is the weight from which on commands are refused with that much room; see [log.Room].
func refusedFrom(room log.Room) weight {
	return [...]weight{log.RoomEnough: weightGrowth + 1, log.RoomLow: weightGrowth, log.RoomCritical: weightChange, log.RoomNone: weightEnding}[room]
}

// refuseForRoom refuses a command for want of room on the disk; nil: there is enough for it.
func refuseForRoom(on log.Writer, w weight) *engine.Error {
	if w == weightNone || w < refusedFrom(on.DiskState().Room) {
		return nil
	}
	return engine.Refuse(engine.Busy, "The server is busy: the disk has no room for this now. Please retry the operation.")
}

// noMemory refuses what takes memory for good, for as long as there is none (docs/decisions/0041).
var noMemory = engine.Refuse(engine.Busy, "The server is busy: it has no memory for this now. Please retry the operation.")

// memoryCheck says whether there is any for what is new. A nil one has always some.
type memoryCheck func() (none bool)

// refuse refuses a command for want of memory; nil: there is some for it. What settles needs none.
func (m memoryCheck) refuse(w weight) *engine.Error {
	least := weightGrowth
	if m == nil || w < least || !m() {
		return nil
	}
	return noMemory
}

// limits is what a loop refuses because of its disk, its memory, or damage.
type limits struct {
	// set once in New
	recorder *recorder
	memory   memoryCheck // whether there is any

	// owned by the loop
	damaged error // a stored body could not be read: sends are refused
	unfit   bool  // sends are refused in this turn, only because of the log
}

// refuseGrowth has the partition refuse sends for as long as they cannot be stored.
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

// onlyReserveLeft reports whether only the reserve is left, which is not for facts.
func onlyReserveLeft(on log.Writer) bool { return on.DiskState().Room >= log.RoomCritical }

// splitRequests takes out of requests to a loop what its disk keeps from being carried out, and
// says why: what is new while the disk hangs, what writes while there is no room at all. The loop
// cannot: it may be in a write, and its answers leave in order, behind those that wait for the
// disk. It does not change the slice.
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

// refuse refuses a command for want of room or of memory; nil: there is enough for it.
func (l *limits) refuse(w weight) *engine.Error {
	if err := refuseForRoom(l.recorder.frames.writer, w); err != nil {
		return err
	}
	return l.memory.refuse(w)
}

// isNew reports whether a command is turned away while a disk hangs: one that makes the log grow
// for good.
func isNew(cmd engine.Command) bool {
	switch cmd := cmd.(type) {
	case *engine.Send, *engine.PutEntity, *engine.PutRule:
		return true
	case *engine.ReceiveDeferred: // its locks could end before they are written
		return true
	case *engine.Stage:
		// that it is committed later does not help a client which waits for its answer now
		_, send := cmd.Operation.(*engine.Send)
		return send
	}
	return false
}

// isHalted reports whether no locks are granted, because the disk hangs: they could end before they
// are written.
func isHalted(on log.Writer) bool {
	return !on.DiskState().Hangs.IsZero()
}

// noteDamage notes damage. With a lock it is none if nobody has that lock any more: then the
// message has ended while it was on its way, and history was free to give its body back.
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

// Fit reports whether the loop's disk lets it take what is new.
func (l *Loop) Fit() bool {
	on := l.frames.writer
	return on.DiskState().Hangs.IsZero() && refuseForRoom(on, weightGrowth) == nil
}

// Admit is those of some requests to a loop that get into its mailbox: those that its disk keeps
// from being carried out are turned away. A simulation, which submits nothing, asks; [Loop.Submit]
// does the same.
func Admit(on log.Writer, requests []engine.Request) []engine.Request {
	kept, refused, why := splitRequests(on, requests)
	TurnAway(refused, why)
	return kept
}
