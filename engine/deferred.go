package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// NotDeferred returns the refusal of sequence numbers that do not all belong to deferred messages
// which the caller may take.
func NotDeferred() *Error { return Refuse(MessageNotFound, notDeferredText) }

const notDeferredText = "Failed to lock one or more specified messages. Either the message is already locked or does not exist."

// maxDeferredAnswer bounds the bytes of the messages in one answer, because memory holds the whole
// answer. One message may be larger.
const maxDeferredAnswer = 16 << 20

// MaxAnswer returns how many bytes an answer can have if no message has more than limit.
func (cmd *ReceiveDeferred) MaxAnswer(limit int) int {
	return min(len(cmd.Sequences)*limit, max(maxDeferredAnswer, limit))
}

// deferredDecision decides a request for deferred messages by number.
type deferredDecision struct {
	slice
	cmd *ReceiveDeferred
}

// receiveDeferred takes deferred messages by number: all of them or none (semantics.md 14.1). An
// expired message expires now, and the caller does not find it (7.4).
func receiveDeferred(d *decision, cmd *ReceiveDeferred) *Error {
	of, err := d.slice(cmd.Slice)
	if err != nil {
		return err
	}
	s := deferredDecision{of, cmd}
	found, way, err := s.check()
	if err != nil {
		s.end(way)
		return err
	}
	s.enact(found)
	return nil
}

// check finds the messages, in the order of the requested numbers.
func (s *deferredDecision) check() (found []index.Message, way overdueItems, err *Error) {
	if err := s.receivable(); err != nil {
		return nil, way, err
	}
	if s.entity.Properties.RequiresSession && s.cmd.SubQueue == event.Main {
		if way, live := s.liveSession(s.cmd.Session); !live {
			return nil, way, SessionLost()
		}
	}
	found, way.messages = s.find()
	if len(found) < len(s.cmd.Sequences) || len(found) == 0 {
		return nil, way, NotDeferred()
	}
	size := s.cmd.Before
	for i := range found {
		shown := describe(&found[i])
		size += shown.Stored()
	}
	if size > maxDeferredAnswer && (len(found) > 1 || s.cmd.Before > 0) {
		return nil, way, Refuse(InvalidArgument, "The requested messages are larger than %d bytes together; request fewer at a time.", maxDeferredAnswer)
	}
	if m := &found[0]; m.InSession && s.index.LockedUnder(s.id, []byte(m.SessionID))+len(found) > maxUnderSession {
		return nil, way, Refuse(QuotaExceeded, "More than %d messages of session '%s' would be locked.", maxUnderSession, m.SessionID)
	}
	return found, way, nil
}

// find returns the messages that the caller may take, each once, and separately those that have
// expired.
func (s *deferredDecision) find() (found, over []index.Message) {
	found = make([]index.Message, 0, len(s.cmd.Sequences))
	seen := map[event.SequenceNumber]bool{}
	for _, seq := range s.cmd.Sequences {
		m, ok := s.index.Message(s.id, seq)
		switch {
		case !ok || m.State != index.Deferred || m.SubQueue != s.cmd.SubQueue || seen[seq] || !s.mayTake(&m):
		case expired(&m, s.now):
			over = append(over, m)
		default:
			found = append(found, m)
		}
		seen[seq] = true
	}
	return found, over
}

// mayTake reports whether a message is for the holder of the session that the command comes from;
// without sessions, any caller may take it.
func (s *deferredDecision) mayTake(m *index.Message) bool {
	if !m.InSession || m.SubQueue != event.Main {
		return true
	}
	held, ok := s.index.Session(s.id, []byte(m.SessionID))
	return ok && held.Held && held.Token == s.cmd.Session
}

// enact adds the events of the deliveries, and answers with them.
func (s *deferredDecision) enact(found []index.Message) {
	origin := s.origin(s.cmd.Origin)
	taken := make(Messages, len(found))
	for i := range found {
		m := &found[i]
		taken[i] = describe(m)
		if s.cmd.Mode == ReceiveAndDelete {
			s.remove(origin, m)
		} else {
			taken[i].Token = s.cmd.Tokens[i]
			s.lock(origin, m, &taken[i])
		}
	}
	s.early = s.cmd.Mode != ReceiveAndDelete
	s.reply.Answer = taken
}
