package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// How a loop carries out what it is asked.

// step carries out a request, or a part of a costly one: it reports whether that is all.
func (l *Loop) step(now event.Time, req *Request) bool {
	l.use(now, req.Command)
	switch cmd := req.Command.(type) {
	case *Attach:
		l.attach(now, cmd.Receiver, req)
	case *Flow:
		l.flow(now, cmd)
	case *Detach:
		l.detach(now, cmd)
		l.tell(cmd.Receiver, held{sink: req.Sink, reply: Reply{Tag: req.Tag}}, l.solid)
	case *Send:
		l.answer(req, l.send(now, cmd))
	case *ReceiveDeferred:
		l.receiveDeferred(now, cmd, req)
	case *dropSlice:
		l.dropSlice(now, cmd)
		l.answer(req, Reply{})
	case *configure, *ping, *damage, *usage, *count, *inspect, *lookup:
		l.answer(req, l.carryOut(cmd))
	default:
		return l.decide(now, req)
	}
	return true
}

// decide has the partition carry out a request, or a part of it.
func (l *Loop) decide(now event.Time, req *Request) bool {
	cmd := req.Command
	out := l.part.Decide(now, cmd)
	l.late.charge(cmd, out.Looks)
	if l.write(now, out); out.Again {
		return false
	}
	if renews(cmd) && out.Reply.Err == nil {
		out.Reply.Tag = req.Tag
		l.grant(held{sink: req.Sink, reply: out.Reply}, 0)
	} else {
		l.answer(req, out.Reply)
	}
	return true
}

// answer holds the reply to a request back until everything decided so far is committed.
func (l *Loop) answer(req *Request, reply Reply) {
	reply.Tag = req.Tag
	l.hold(held{sink: req.Sink, reply: reply})
}

// send stores messages, unless what is stored already cannot be read.
func (l *Loop) send(now event.Time, cmd *Send) Reply {
	if cmd.Buffer != nil {
		defer cmd.Buffer.Release()
	}
	if l.damaged != nil {
		return Reply{Err: refuse(Busy, "The partition takes no messages because stored data is damaged.")}
	}
	cmd.newID = l.newID
	out := l.part.Decide(now, cmd)
	l.write(now, out)
	return out.Reply
}

// receiveDeferred takes messages by their numbers. Like other locks, theirs need only be written before they are told of.
func (l *Loop) receiveDeferred(now event.Time, cmd *ReceiveDeferred, req *Request) {
	if cmd.Mode == PeekLock {
		for range cmd.Sequences {
			cmd.Tokens = append(cmd.Tokens, l.tokens())
		}
	}
	l.late.charge(cmd, 0)
	out := l.part.Decide(now, cmd)
	l.write(now, out)
	if out.Reply.Err != nil || cmd.Mode != PeekLock {
		l.answer(req, out.Reply)
		return
	}
	out.Reply.Tag = req.Tag
	l.grant(held{sink: req.Sink, reply: out.Reply}, l.showsAll(cmd.Slice, out.Reply.Messages()))
}

// dropSlice forgets a slice of an entity that is no more. Whoever waits for a session of it is told.
func (l *Loop) dropSlice(now event.Time, cmd *dropSlice) {
	l.part.Forget(cmd.slice.Entity)
	l.write(now, l.part.Decide(now, cmd))
	if h := l.halls[cmd.slice]; h != nil {
		l.markHall(h)
	}
}

// carryOut does what [Namespace] asks of a loop.
func (l *Loop) carryOut(cmd Command) (reply Reply) {
	switch cmd := cmd.(type) {
	case *configure:
		l.configure(cmd)
	case *ping:
		reply.Err = l.damaged
	case *damage:
		l.damaged = cmd.err
	case *usage:
		reply.Answer = l.usage()
	case *count:
		reply.Answer = l.part.count(cmd.entities)
	case *inspect:
		reply.Answer = l.part.inspect(cmd.slices)
	case *lookup:
		return l.lookup(cmd)
	}
	return reply
}

// lookup finds an entity of the catalogue.
func (l *Loop) lookup(cmd *lookup) Reply {
	e, ok := l.part.index.Catalogue.Find(cmd.path)
	if !ok {
		return Reply{Err: notFound(cmd.path)}
	}
	found := &foundEntity{entity: view(e)}
	if cmd.ruled {
		for _, r := range l.part.index.Catalogue.Rules(e.ID) {
			found.rules = append(found.rules, *r)
		}
	}
	return Reply{Answer: found}
}

// renews reports whether a command moves the ends of locks, and so is answered when that is written (reliability.md P7).
func renews(cmd Command) bool {
	switch cmd.(type) {
	case *Renew, *RenewSession:
		return true
	}
	return false
}
