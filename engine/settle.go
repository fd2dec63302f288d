package engine

import (
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/internal/mutant"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxTick is how many locks one [Tick] ends, so that other commands get their turn in between.
const maxTick = 1024

// maxChanges bounds all property changes of one message, and its header as far as it is known, together: the header limit of
// semantics.md 16.3.
const maxChanges = 64 << 10

// held finds the message of a live lock. A lock whose time has passed is ended here, before anybody is answered
// (semantics.md 6.1). One under a session lives as long as the session's.
func (p *Partition) held(now event.Time, e *Entity, id event.Slice, q event.SubQueue, token event.LockToken) (index.Message, bool) {
	l, ok := p.index.Lock(token)
	if !ok || l.Slice != id || l.OfSession() {
		return index.Message{}, false
	}
	if mutant.On(mutant.CheckAtArrival) {
		now = p.index.LastAt()
	}
	m, _ := p.index.Message(id, l.Sequence)
	if m.SubQueue != q {
		return index.Message{}, false
	}
	if l.Until == 0 {
		s, _ := p.index.Session(id, []byte(m.SessionID))
		if now >= s.Until {
			p.endSession(now, e, id, &s, event.ReleaseExpired)
			return index.Message{}, false
		}
		return m, true
	}
	if now >= l.Until && !mutant.On(mutant.StaleToken) {
		p.endLock(now, e, &m, l)
		return index.Message{}, false
	}
	return m, true
}

// lockLost is the refusal of a token that is not that of a live lock.
func lockLost(e *Entity, q event.SubQueue) *Error {
	if e.Properties.RequiresSession && q == event.Main {
		return SessionLost()
	}
	return Refuse(LockLost, LockLostText)
}

// settle ends locks with one of the outcomes of semantics.md 5.3: those of all tokens or none.
func (p *Partition) settle(now event.Time, cmd *Settle) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if cmd.Outcome != Release { // giving back is never refused: who drives the partition does it, too
		if err := receivable(e); err != nil {
			return p.refused(err)
		}
	}
	if cmd.Outcome == MoveToDeadLetter && cmd.SubQueue != event.Main {
		return p.refused(Refuse(NotAllowed, DeadLetteredText))
	}
	var one [1]index.Message // most commands have one token
	messages, ok := p.heldAll(now, e, cmd, one[:0])
	if !ok {
		return p.refused(lockLost(e, cmd.SubQueue))
	}
	stored := cmd.stored()
	if out, ok := p.checkHeaders(cmd, stored, messages); !ok {
		return out
	}
	for i := range messages {
		m, header := &messages[i], cmd.header(i)
		if changes, ok := cmd.fitting(stored, m, header); ok {
			p.settleOne(now, e, cmd, m, cmd.token(i), header, changes)
		} else {
			p.tooLarge(cmd, m, cmd.token(i))
		}
	}
	if mutant.On(mutant.ManyTokens) && len(cmd.More) > 0 {
		return p.done(log.Ordered)
	}
	return p.done(log.Durable)
}

// heldAll appends the messages of all tokens, in their order; ok is false when one is not that of a live lock, or is there twice.
// A passed lock's end is the only event that comes of it.
func (p *Partition) heldAll(now event.Time, e *Entity, cmd *Settle, messages []index.Message) (_ []index.Message, ok bool) {
	m, ok := p.held(now, e, cmd.Slice, cmd.SubQueue, cmd.Token)
	if !ok || !p.mayEnd(cmd, &m) {
		return nil, false
	}
	messages = append(messages, m)
	if len(cmd.More) == 0 {
		return messages, true
	}
	seen := map[event.LockToken]bool{cmd.Token: true}
	for _, t := range cmd.More {
		m, ok := p.held(now, e, cmd.Slice, cmd.SubQueue, t)
		if !ok || seen[t] || !p.mayEnd(cmd, &m) {
			return nil, false
		}
		seen[t] = true
		messages = append(messages, m)
	}
	return messages, true
}

// mayEnd tells whether a settlement comes from the holder of a message's session, where it says which sessions it holds.
func (p *Partition) mayEnd(cmd *Settle, m *index.Message) bool {
	if cmd.Sessions == nil || !m.InSession || m.SubQueue != event.Main {
		return true
	}
	s, ok := p.index.Session(cmd.Slice, []byte(m.SessionID))
	return ok && s.Held && slices.Contains(cmd.Sessions, s.Token)
}

// tooLarge dead-letters a message whose properties a settlement would make larger than a header may be, without the changes
// (semantics.md 9.2).
func (p *Partition) tooLarge(cmd *Settle, m *index.Message, token event.LockToken) {
	ev := p.events.New(event.KindMessageDeadLettered).(*event.MessageDeadLettered)
	ev.Envelope, ev.Sequence, ev.Token = p.envelope(cmd.Slice, p.origin(cmd.Origin)), m.Sequence, token
	ev.Cause, ev.Reason, ev.Description = event.CauseHeaderSize, headerReason, headerText
	ev.Changes.Data = storedOwn(deadLetterChanges(headerReason, headerText))
	p.out = append(p.out, ev)
}

// maxAuditText bounds texts of clients that stand in events for the audit alone.
const maxAuditText = 4096

// clip cuts a text for the audit at a character.
func clip(s string) string { return clipTo(s, maxAuditText) }

// changed is how many bytes the property changes of a message have so far.
func changed(m *index.Message) (n int) {
	for _, b := range m.Changes {
		n += int(b.Size)
	}
	return n
}

// settleOne ends one lock. The message has so many bytes beside its body, as far as that is known, and gets the stored changes given.
func (p *Partition) settleOne(now event.Time, e *Entity, cmd *Settle, m *index.Message, token event.LockToken, header int, changes []byte) {
	header += changed(m)
	env := p.envelope(cmd.Slice, p.origin(cmd.Origin))
	switch cmd.Outcome {
	case Complete:
		ev := p.events.New(event.KindMessageCompleted).(*event.MessageCompleted)
		ev.Envelope, ev.Sequence, ev.Token = env, m.Sequence, token
		p.out = append(p.out, ev)
	case Release:
		ev := p.events.New(event.KindMessageReleased).(*event.MessageReleased)
		ev.Envelope, ev.Sequence, ev.Token = env, m.Sequence, token
		p.out = append(p.out, ev)
		p.back(now, e, cmd.Slice, m, m.DeliveryCount, header)
	case Abandon:
		ev := p.events.New(event.KindMessageAbandoned).(*event.MessageAbandoned)
		ev.Envelope, ev.Sequence, ev.Token = env, m.Sequence, token
		ev.DeliveryCount, ev.Changes.Data = failed(m), changes
		p.out = append(p.out, ev)
		p.back(now, e, cmd.Slice, m, ev.DeliveryCount, header+len(changes))
	case Defer:
		ev := p.events.New(event.KindMessageDeferred).(*event.MessageDeferred)
		ev.Envelope, ev.Sequence, ev.Token = env, m.Sequence, token
		ev.DeliveryCount, ev.Changes.Data = failed(m), changes
		p.out = append(p.out, ev)
	case MoveToDeadLetter:
		ev := p.events.New(event.KindMessageDeadLettered).(*event.MessageDeadLettered)
		ev.Envelope, ev.Sequence, ev.Token, ev.Cause = env, m.Sequence, token, event.CauseApplication
		ev.Reason, ev.Description, ev.Changes.Data = clip(cmd.Reason), clip(cmd.Description), changes
		p.out = append(p.out, ev)
	default:
		panic(fmt.Sprintf("engine: settle with outcome %d", cmd.Outcome))
	}
}

// failed is the delivery count after one more failure: frozen in a dead-letter queue (semantics.md 6.3).
func failed(m *index.Message) uint32 {
	if m.SubQueue != event.Main {
		return m.DeliveryCount
	}
	return m.DeliveryCount + 1
}

// back adds what follows when a message of the main queue came back with a new delivery count: it expires at once when its
// time has passed (semantics.md 7.4), or is dead-lettered when it failed too often (6.4). A deferred one stays deferred, expired
// or not (3.2), unless it failed too often: then expiry comes first for it, too (docs/decisions/0009). Its header has so many
// bytes now, as far as that is known.
func (p *Partition) back(now event.Time, e *Entity, id event.Slice, m *index.Message, count uint32, header int) {
	if m.SubQueue != event.Main {
		return
	}
	last := count > m.DeliveryCount && count >= e.Properties.MaxDeliveryCount
	switch {
	case expired(m, now) && (m.State != index.DeferredLocked || last):
		p.expire(e, id, m, header)
	case last:
		p.deadLetter(id, m.Sequence, header, event.CauseMaxDelivery, "MaxDeliveryCountExceeded",
			fmt.Sprintf("Message could not be consumed after %d delivery attempts.", count))
	}
}

// endLock adds the end of a lock by time.
func (p *Partition) endLock(now event.Time, e *Entity, m *index.Message, l index.Lock) {
	ev := p.events.New(event.KindLockExpired).(*event.LockExpired)
	ev.Envelope, ev.Sequence, ev.Token = p.envelope(l.Slice, 0), l.Sequence, l.Token
	ev.DeliveryCount = failed(m)
	p.out = append(p.out, ev)
	p.back(now, e, l.Slice, m, ev.DeliveryCount, changed(m))
}

// tick does what is due next: makes a scheduled message active, or ends locks whose time has passed.
func (p *Partition) tick(now event.Time, tick *Tick) Outcome {
	locks := p.index.LockDeadline()
	if s, ok := p.index.DueScheduled(now); ok && (locks == 0 || s.For < locks) {
		p.activate(now, s, tick)
		return p.done(log.Durable)
	}
	for _, l := range p.index.Due(now, maxTick) {
		e := p.settingsOf(l.Slice)
		if l.OfSession() {
			s, _ := p.index.Session(l.Slice, []byte(l.Session))
			p.endSession(now, e, l.Slice, &s, event.ReleaseExpired)
			continue
		}
		m, _ := p.index.Message(l.Slice, l.Sequence)
		p.endLock(now, e, &m, l)
	}
	return p.done(log.Durable)
}

// renew moves locks' ends to now + LockDuration in force: of all tokens or none (semantics.md 6.2).
func (p *Partition) renew(now event.Time, cmd *Renew) Outcome {
	e, err := p.Entity(cmd.Slice)
	if err != nil {
		return p.refused(err)
	}
	if e.Properties.RequiresSession && cmd.SubQueue == event.Main {
		return p.refused(Refuse(NotAllowed, "The lock of a message in a session cannot be renewed; renew the lock of the session."))
	}
	for _, t := range cmd.Tokens {
		if _, ok := p.held(now, e, cmd.Slice, cmd.SubQueue, t); !ok {
			return p.refused(lockLost(e, cmd.SubQueue))
		}
	}
	until := now.Add(e.Properties.LockDuration)
	origin := p.origin(cmd.Origin)
	var times Times
	for _, t := range cmd.Tokens {
		l, _ := p.index.Lock(t)
		ev := p.events.New(event.KindLockRenewed).(*event.LockRenewed)
		ev.Envelope, ev.Sequence, ev.Token, ev.LockedUntil = p.envelope(cmd.Slice, origin), l.Sequence, t, until
		p.out = append(p.out, ev)
		times = append(times, until)
	}
	out := p.done(log.Ordered)
	out.Reply.Answer = times
	return out
}
