package engine

import (
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxChanges bounds all property changes of one message together with its header, as far as that is
// known: the header limit of semantics.md 16.3.
const maxChanges = 64 << 10

// live finds the message of a live lock (semantics.md 6.1); a lock under a session lives as long as
// the session's. For an overdue lock ok is false, and the lock, or that of its session, is returned
// as overdue.
func (s *slice) live(q event.SubQueue, token event.LockToken) (_ index.Message, way overdueItems, ok bool) {
	l, ok := s.index.Lock(token)
	if !ok || l.Slice != s.id || l.OfSession() {
		return index.Message{}, way, false
	}
	now := s.now
	m, _ := s.index.Message(s.id, l.Sequence)
	if m.SubQueue != q {
		return index.Message{}, way, false
	}
	until, ends := l.Until, token
	if until == 0 {
		held, _ := s.index.Session(s.id, []byte(m.SessionID))
		until, ends = held.Until, held.Token
	}
	if now >= until && !s.pinned(ends) {
		return index.Message{}, overdueItems{lock: ends}, false
	}
	return m, way, true
}

// lockLost returns the refusal of a token that is not that of a live lock.
func (s *slice) lockLost(q event.SubQueue) *Error {
	if s.entity.Properties.RequiresSession && q == event.Main {
		return SessionLost()
	}
	return Refuse(LockLost, LockLostText)
}

// settleDecision decides a settlement of locked messages: those of all tokens or none.
type settleDecision struct {
	slice
	cmd    *Settle
	stored []byte          // the changes, in the form that the log has
	about  event.LockToken // the token that a refusal is about
}

// settle ends locks with one of the outcomes of semantics.md 5.3.
func settle(d *decision, cmd *Settle) *Error {
	of, err := d.slice(cmd.Slice)
	if err != nil {
		d.refuse(cmd.Origin, cmd.refused(cmd.Token), err)
		return err
	}
	s := settleDecision{of, cmd, encodeChanges(cmd.Changes), cmd.Token}
	var one [1]index.Message // most commands have one token
	messages, way, err := s.check(one[:0])
	switch {
	case err != nil:
		d.refuse(cmd.Origin, cmd.refused(s.about), err)
		s.end(way)
		return err
	case cmd.Try:
	case s.mustRead(messages):
		s.show(messages)
	default:
		s.enact(messages)
	}
	return nil
}

// check appends the messages of all tokens, in their order.
func (s *settleDecision) check(messages []index.Message) (_ []index.Message, way overdueItems, err *Error) {
	// releasing is never refused: the driver of the partition also does it
	if s.cmd.Outcome != Release {
		if err := s.receivable(); err != nil {
			return nil, way, err
		}
	}
	if s.cmd.Outcome == MoveToDeadLetter && s.cmd.SubQueue != event.Main {
		return nil, way, Refuse(NotAllowed, DeadLetteredText)
	}
	if n := (1 + len(s.cmd.More)) * s.cmd.writtenSize(); n > maxPublish {
		return nil, way, Refuse(InvalidArgument, "The properties, reasons and descriptions given for %d messages take more than %d bytes together.", 1+len(s.cmd.More), maxPublish)
	}
	messages, way, ok := s.appendLocked(messages)
	if !ok {
		return nil, way, s.lostRefusal()
	}
	return messages, way, s.tooMuch(messages)
}

// lostRefusal returns the refusal of the token that a refusal is about. A token under a session
// that the caller still holds belongs to a settled message, not to a lost session.
func (s *settleDecision) lostRefusal() *Error {
	for _, session := range s.cmd.Sessions {
		if _, live := s.liveSession(session); live && s.about != session && s.about == s.about.Under(session) {
			return Refuse(LockLost, LockLostText)
		}
	}
	return s.lockLost(s.cmd.SubQueue)
}

// appendLocked appends the messages of all tokens, in their order; ok is false if a token is not
// that of a live lock, or is there twice.
func (s *settleDecision) appendLocked(messages []index.Message) (_ []index.Message, way overdueItems, ok bool) {
	m, way, ok := s.live(s.cmd.SubQueue, s.cmd.Token)
	if !ok || s.isStaged(s.cmd.Token) || !s.mayEnd(&m) {
		return nil, way, false
	}
	messages = append(messages, m)
	if len(s.cmd.More) == 0 {
		return messages, way, true
	}
	seen := map[event.LockToken]bool{s.cmd.Token: true}
	for _, t := range s.cmd.More {
		s.about = t
		m, way, ok := s.live(s.cmd.SubQueue, t)
		if !ok || seen[t] || s.isStaged(t) || !s.mayEnd(&m) {
			return nil, way, false
		}
		seen[t] = true
		messages = append(messages, m)
	}
	s.about = s.cmd.Token
	return messages, way, true
}

// refused returns the fact that notes the refusal of a settlement, about one of its tokens.
func (cmd *Settle) refused(about event.LockToken) event.SettlementRefused {
	return event.SettlementRefused{Envelope: event.Envelope{Slice: cmd.Slice}, SubQueue: cmd.SubQueue, Token: about, Wanted: cmd.Outcome.Wanted()}
}

// mayEnd reports whether a settlement comes from the holder of a message's session, if the
// settlement tells which sessions the caller holds.
func (s *settleDecision) mayEnd(m *index.Message) bool {
	if s.cmd.Sessions == nil || !m.InSession || m.SubQueue != event.Main {
		return true
	}
	held, ok := s.index.Session(s.id, []byte(m.SessionID))
	return ok && held.Held && slices.Contains(s.cmd.Sessions, held.Token)
}

// enact ends the locks.
func (s *settleDecision) enact(messages []index.Message) {
	origin := s.origin(s.cmd.Origin)
	for i := range messages {
		m, header := &messages[i], s.cmd.header(i)
		if changes, ok := s.cmd.fitChanges(s.stored, m, header); ok {
			s.enactOne(origin, m, s.cmd.token(i), header+changesSize(m), changes)
		} else {
			s.tooLarge(origin, m, s.cmd.token(i))
		}
	}
}

// tooLarge dead-letters, without the changes, a message whose properties a settlement would make
// larger than a header may be (semantics.md 9.2).
func (s *settleDecision) tooLarge(origin event.OriginID, m *index.Message, token event.LockToken) {
	ev := add[*event.MessageDeadLettered](s.decision, event.KindMessageDeadLettered)
	ev.Envelope, ev.Sequence, ev.Token = s.envelope(origin), m.Sequence, token
	ev.Cause, ev.Reason, ev.Description = event.CauseHeaderSize, headerReason, headerText
	ev.Changes.Data = encodeChanges(deadLetterChanges(headerReason, headerText))
}

// maxAuditText bounds texts of clients that are in events for the audit alone.
const maxAuditText = 4096

// clip cuts a text for the audit, at a character.
func clip(s string) string { return clipTo(s, maxAuditText) }

// changesSize returns how many bytes the property changes of a message have so far.
func changesSize(m *index.Message) (n int) {
	for _, b := range m.Changes {
		n += int(b.Size)
	}
	return n
}

// enactOne ends one lock, with the given changes. header is the size of the message without its
// body in bytes; 0: unknown.
func (s *settleDecision) enactOne(origin event.OriginID, m *index.Message, token event.LockToken, header int, changes []byte) {
	switch s.cmd.Outcome {
	case Complete:
		ev := add[*event.MessageCompleted](s.decision, event.KindMessageCompleted)
		ev.Envelope, ev.Sequence, ev.Token = s.envelope(origin), m.Sequence, token
	case Release:
		ev := add[*event.MessageReleased](s.decision, event.KindMessageReleased)
		ev.Envelope, ev.Sequence, ev.Token = s.envelope(origin), m.Sequence, token
		s.returnToQueue(m, m.DeliveryCount, header)
	case Abandon:
		ev := add[*event.MessageAbandoned](s.decision, event.KindMessageAbandoned)
		ev.Envelope, ev.Sequence, ev.Token = s.envelope(origin), m.Sequence, token
		ev.DeliveryCount, ev.Changes.Data = countAfterFailure(m), changes
		s.returnToQueue(m, ev.DeliveryCount, header+len(changes))
	case Defer:
		ev := add[*event.MessageDeferred](s.decision, event.KindMessageDeferred)
		ev.Envelope, ev.Sequence, ev.Token = s.envelope(origin), m.Sequence, token
		ev.DeliveryCount, ev.Changes.Data = countAfterFailure(m), changes
	case MoveToDeadLetter:
		ev := add[*event.MessageDeadLettered](s.decision, event.KindMessageDeadLettered)
		ev.Envelope, ev.Sequence, ev.Token, ev.Cause = s.envelope(origin), m.Sequence, token, event.CauseApplication
		ev.Reason, ev.Description, ev.Changes.Data = clip(s.cmd.Reason), clip(s.cmd.Description), changes
	default:
		panic(fmt.Sprintf("engine: settle with outcome %d", s.cmd.Outcome))
	}
}

// renew moves locks' ends to now + the LockDuration in force: of all tokens or none (semantics.md
// 6.2).
func renew(d *decision, cmd *Renew) *Error {
	s, err := d.slice(cmd.Slice)
	if err != nil {
		d.refuse(cmd.Origin, cmd.refused(cmd.Tokens), err)
		return err
	}
	if rest, way, err := s.checkRenew(cmd); err != nil {
		d.refuse(cmd.Origin, cmd.refused(rest), err)
		s.end(way)
		return err
	}
	until, origin := s.now.Add(s.entity.lockDuration()), s.origin(cmd.Origin)
	var times Times
	for _, t := range cmd.Tokens {
		l, _ := s.index.Lock(t)
		ev := add[*event.LockRenewed](d, event.KindLockRenewed)
		ev.Envelope, ev.Sequence, ev.Token, ev.LockedUntil = s.envelope(origin), l.Sequence, t, until
		times = append(times, until)
	}
	d.early, d.reply.Answer = true, times
	return nil
}

// checkRenew refuses to renew locks that are not all live, or that have no time of their own. The
// refusal is about the first of the remaining tokens.
func (s *slice) checkRenew(cmd *Renew) (rest []event.LockToken, way overdueItems, err *Error) {
	if s.entity.Properties.RequiresSession && cmd.SubQueue == event.Main {
		return cmd.Tokens, way, Refuse(NotAllowed, "The lock of a message in a session cannot be renewed; renew the lock of the session.")
	}
	for i, t := range cmd.Tokens {
		if _, way, ok := s.live(cmd.SubQueue, t); !ok {
			return cmd.Tokens[i:], way, s.lockLost(cmd.SubQueue)
		}
	}
	return nil, way, nil
}

// refused returns the fact that notes the refusal of a renewal, about the first of the remaining
// tokens.
func (cmd *Renew) refused(rest []event.LockToken) event.SettlementRefused {
	fact := event.SettlementRefused{Envelope: event.Envelope{Slice: cmd.Slice}, SubQueue: cmd.SubQueue, Wanted: event.WantedRenew}
	if len(rest) > 0 {
		fact.Token = rest[0]
	}
	return fact
}
