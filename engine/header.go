package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// token is the lock token of message i of a settlement.
func (cmd *Settle) token(i int) event.LockToken {
	if i == 0 {
		return cmd.Token
	}
	return cmd.More[i-1]
}

// header is the size of message i of a settlement besides its body in bytes; 0: unknown.
func (cmd *Settle) header(i int) int {
	switch {
	case i == 0:
		return cmd.Header
	case i <= len(cmd.Headers):
		return cmd.Headers[i-1]
	}
	return 0
}

// written is how many bytes a settlement writes for each message beyond what every settlement
// writes.
func (cmd *Settle) written() int { return cmd.Changes.Size() + len(cmd.Reason) + len(cmd.Description) }

// stored is changes as they stand in the log; nil: none.
func stored(changes event.Changes) []byte {
	if len(changes) == 0 {
		return nil
	}
	return changes.Append(make([]byte, 0, changes.Size()))
}

// overgrow reports whether stored changes make a message's header larger than one may be
// (semantics.md 9.2).
func overgrow(changes []byte, m *index.Message, header int) bool {
	return len(changes) > 0 && header+changed(m)+len(changes) > maxChanges
}

// unread reports whether the caller has to read what the messages have beside their bodies, which
// it has not, before they can take the changes. That is not asked for where the whole message is
// small enough.
func (s *settleDecision) unread(messages []index.Message) bool {
	for i := range messages {
		if s.cmd.Unread && overgrow(s.stored, &messages[i], int(messages[i].Body.Size)) {
			return true
		}
	}
	return false
}

// show answers with the messages, which are not settled now.
func (s *settleDecision) show(messages []index.Message) {
	unread := make(Messages, len(messages))
	for i := range messages {
		unread[i] = describe(&messages[i])
	}
	s.reply.Answer = unread
}

// tooMuch refuses changes that a message of a dead-letter queue cannot take: it has nowhere to go.
func (s *settleDecision) tooMuch(messages []index.Message) *Error {
	if s.cmd.Unread || s.cmd.SubQueue == event.Main {
		return nil
	}
	for i := range messages {
		if overgrow(s.stored, &messages[i], s.cmd.header(i)) {
			return Refuse(InvalidArgument, "The changed properties exceed the limit of %d bytes.", maxChanges)
		}
	}
	return nil
}

// The dead-letter reason and description of a message whose header became too large (semantics.md
// 9.2).
const (
	headerReason = "HeaderSizeExceeded"
	headerText   = "The size quota for this stream has been exceeded."
)

// fitting is the stored changes of a settlement as a message can take them: those that dead-letter
// it with a shorter description and reason, where they do not fit beside its header. ok is false
// when they cannot be made to fit (semantics.md 9.2).
func (cmd *Settle) fitting(changes []byte, m *index.Message, header int) (_ []byte, ok bool) {
	if !overgrow(changes, m, header) {
		return changes, true
	}
	if cmd.Outcome != MoveToDeadLetter {
		return nil, false
	}
	short, ok := shortened(cmd.Changes, maxChanges-header-changed(m))
	if !ok {
		return nil, false
	}
	return stored(short), true
}

// explained is why the broker dead-letters a message, with the stored changes that say so, which
// are cut to what fits beside its header. Where they do not fit at all, that becomes the reason,
// and is written in full: a dead letter has to have one.
func explained(header int, cause event.Cause, reason, description string) (event.Cause, string, string, []byte) {
	if changes, ok := shortened(deadLetterChanges(reason, description), maxChanges-header); ok {
		return cause, reason, description, stored(changes)
	}
	return event.CauseHeaderSize, headerReason, headerText, stored(deadLetterChanges(headerReason, headerText))
}
