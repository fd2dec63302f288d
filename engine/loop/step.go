package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// steps takes requests until the frame being filled is full, and returns how many it took.
func (l *Loop) steps(now event.Time, requests []engine.Request) int {
	for i := range requests {
		if l.frames.group() > maxOpen {
			if l.frames.syncing() {
				return i
			}
			l.recorder.commit()
		}
		if req := &requests[i]; !l.late.putOff(now, req) && !l.step(now, req) {
			l.late.add(*req)
		}
	}
	return len(requests)
}

// step carries out a request, or a part of a costly one. It reports whether the request is done.
func (l *Loop) step(now event.Time, req *engine.Request) bool {
	noteUse(l.part, now, req.Command)
	if err := l.limits.refuse(weightOf(req.Command)); err != nil {
		if settle, ok := req.Command.(*engine.Settle); ok {
			settle.Recycle()
		}
		l.replies.answer(req, engine.Reply{Err: err})
		return true
	}
	switch cmd := req.Command.(type) {
	case *engine.Attach:
		l.dispatcher.attach(now, cmd.Receiver, cmd.Noted, req)
	case *engine.Flow:
		l.dispatcher.flow(now, cmd)
	case *engine.StepBack:
		l.receivers.StepBack(cmd.Receiver)
	case *engine.Detach:
		l.dispatcher.detach(now, cmd)
		l.replies.answerDetach(req, openPorts(cmd.Receiver))
		l.links.recordClosed(now, cmd.Receiver.Origin, &cmd.Closed)
	case *engine.Send:
		if !sendAside(l, req, cmd) {
			l.replies.answer(req, l.send(now, cmd))
		}
	case *engine.Stage:
		l.stage(now, cmd, req)
	case *engine.ReceiveDeferred:
		l.receiveDeferred(now, cmd, req)
	case *engine.PutEntity:
		l.capabilities.beforePut(cmd, l.part)
		return l.decide(now, req)
	case *dropSliceCommand:
		l.dropSlice(now, cmd)
		l.replies.answer(req, engine.Reply{})
	case *engine.Note:
		l.facts.note(now, cmd)
		l.replies.answer(req, engine.Reply{})
	case *ordersCommand:
		l.transfers.order(cmd)
		l.replies.answer(req, engine.Reply{})
	case *lookCommand:
		l.replies.atOnce(req, cmd.tell(l))
	case *configureCommand, *doCommand, *pingCommand, *damageCommand, *Usage, *Activity, *Snapshot:
		l.replies.answer(req, l.carryOut(cmd))
	default:
		return l.decide(now, req)
	}
	return true
}

// decide lets the partition carry out a request, or a part of it.
func (l *Loop) decide(now event.Time, req *engine.Request) bool {
	cmd := req.Command
	out := l.part.Decide(now, cmd)
	l.late.charge(cmd, out.Looks)
	if err := l.limits.refuse(eventWeight(out.Events)); err != nil && isAdministrative(cmd) {
		// its origins must not count as defined: none of it gets into the log
		l.replies.answer(req, engine.Reply{Err: err})
		return true
	}
	if l.recorder.write(now, out); out.Again {
		if out.Rest != nil {
			req.Command = out.Rest
		}
		// rows that it has found so far may be deleted before it ends
		l.replies.keepBodies(req, &out.Reply)
		return false
	}
	if out.Note != nil {
		l.facts.note(now, out.Note)
	}
	switch {
	case isRenewal(cmd) && out.Reply.Err == nil:
		l.replies.answerRenewal(req, out.Reply)
	default:
		l.replies.answer(req, out.Reply)
	}
	if done, ok := cmd.(*engine.Settle); ok {
		done.Recycle()
	}
	return true
}

// isAdministrative reports whether a command is an administrator's, which may still be refused
// after it was decided.
func isAdministrative(cmd engine.Command) bool {
	switch cmd.(type) {
	case *engine.PutEntity, *engine.PutRule:
		return true
	}
	return false
}

// sendAside reports whether a send was passed to another partition, because this one refuses it for
// the state of its log. This partition has not decided it, and never will.
func sendAside(l *Loop, req *engine.Request, cmd *engine.Send) bool {
	return l.limits.unfit && cmd.Others > 0 && l.aside != nil && len(l.aside([]engine.Request{*req})) == 0
}

// send stores messages.
func (l *Loop) send(now event.Time, cmd *engine.Send) engine.Reply {
	if cmd.Buffer != nil {
		defer cmd.Buffer.Release()
	}
	l.capabilities.beforeSend(cmd, l.part)
	out := l.part.Decide(now, cmd)
	if l.recorder.write(now, out); out.Reply.Err != nil {
		l.facts.noteRefused(now, cmd, out.Reply.Err)
	}
	return out.Reply
}

// stage makes an operation part of a transaction. The log gets nothing from it but numbers that the
// answer tells. So an answer without such numbers need not wait for the log.
func (l *Loop) stage(now event.Time, cmd *engine.Stage, req *engine.Request) {
	l.capabilities.beforeFirst(log.Transactions, l.part.RefuseTransactions)
	send, _ := cmd.Operation.(*engine.Send)
	if send != nil {
		l.capabilities.beforeSend(send, l.part)
	}
	l.late.charge(cmd, 0)
	out := l.part.Decide(now, cmd)
	l.recorder.write(now, out)
	if send != nil && out.Reply.Err != nil {
		l.facts.noteRefused(now, send, out.Reply.Err)
	}
	if out.Note != nil {
		l.facts.note(now, out.Note)
	}
	if out.Reply.Err == nil && len(out.Events) == 0 {
		l.replies.atOnce(req, out.Reply)
	} else {
		l.replies.answer(req, out.Reply)
	}
}

// receiveDeferred takes messages by their numbers. Their locks, like others, need only be written
// before the reply leaves.
func (l *Loop) receiveDeferred(now event.Time, cmd *engine.ReceiveDeferred, req *engine.Request) {
	if cmd.Mode == engine.PeekLock {
		for range cmd.Sequences {
			cmd.Tokens = append(cmd.Tokens, l.dispatcher.tokens().In(cmd.Slice.Partition).Under(cmd.Session))
		}
	}
	l.late.charge(cmd, 0)
	out := l.part.Decide(now, cmd)
	l.recorder.write(now, out)
	if out.Reply.Err != nil || cmd.Mode != engine.PeekLock {
		l.replies.answer(req, out.Reply)
		return
	}
	l.replies.answerLocked(req, cmd.Slice, out.Reply)
}

// isRenewal reports whether a command moves the ends of locks. It is answered when that is written
// (reliability.md P7).
func isRenewal(cmd engine.Command) bool {
	switch cmd.(type) {
	case *engine.Renew, *engine.RenewSession:
		return true
	}
	return false
}

// noteUse notes that a request used an entity. Sends, receives (even empty ones) and peeks count
// (docs/decisions/0010); deliveries and other unrequested messages do not.
func noteUse(part *engine.Partition, now event.Time, cmd engine.Command) {
	var id event.Slice
	switch cmd := cmd.(type) {
	case *engine.Send:
		cmd.Entity.Use(now)
	case *engine.Attach:
		cmd.Receiver.Entity.Use(now)
	case *engine.Flow:
		cmd.Receiver.Entity.Use(now)
	case *engine.Detach:
		cmd.Receiver.Entity.Use(now)
	case *engine.Settle:
		cmd.Entity.Use(now)
	case *engine.Renew:
		cmd.Entity.Use(now)
	case *engine.ReceiveDeferred:
		cmd.Entity.Use(now)
	case *engine.CancelScheduled:
		cmd.Entity.Use(now)
	case *engine.BatchDelete:
		cmd.Entity.Use(now)
	case *engine.RenewSession:
		cmd.Entity.Use(now)
	case *engine.SetSessionState:
		cmd.Entity.Use(now)
	case *engine.GetSessionState:
		cmd.Entity.Use(now)
	case *engine.Stage:
		noteUse(part, now, cmd.Operation)
		return
	case *engine.Peek:
		id = cmd.Slice
	case *engine.ListSessions:
		id = cmd.Slice
	default:
		return
	}
	if id.Entity != 0 {
		if e, err := part.Entity(id); err == nil {
			e.Use(now)
		}
	}
}
