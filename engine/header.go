package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// token returns the lock token of message i of a settlement.
func (cmd *Settle) token(i int) event.LockToken {
	if i == 0 {
		return cmd.Token
	}
	return cmd.More[i-1]
}

// header returns the size of message i of a settlement without its body, in bytes; 0: unknown.
func (cmd *Settle) header(i int) int {
	switch {
	case i == 0:
		return cmd.Header
	case i <= len(cmd.Headers):
		return cmd.Headers[i-1]
	}
	return 0
}

// writtenSize returns how many bytes a settlement writes per message, beyond what every settlement
// writes.
func (cmd *Settle) writtenSize() int {
	return cmd.Changes.Size() + len(cmd.Reason) + len(cmd.Description)
}

// encodeChanges returns the changes in the form that the log has; nil: none.
func encodeChanges(changes event.Changes) []byte {
	if len(changes) == 0 {
		return nil
	}
	return changes.Append(make([]byte, 0, changes.Size()))
}

// exceedsHeader reports whether stored changes make a message's header larger than allowed
// (semantics.md 9.2).
func exceedsHeader(changes []byte, m *index.Message, header int) bool {
	return len(changes) > 0 && header+changesSize(m)+len(changes) > maxChanges
}

// mustRead reports whether the caller must first read the messages without their bodies before they
// can take the changes. If the whole message is small enough this is not needed.
func (s *settleDecision) mustRead(messages []index.Message) bool {
	for i := range messages {
		if s.cmd.Unread && exceedsHeader(s.stored, &messages[i], int(messages[i].Body.Size)) {
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

// tooMuch refuses changes that a message of a dead-letter queue cannot take: it cannot be
// dead-lettered again.
func (s *settleDecision) tooMuch(messages []index.Message) *Error {
	if s.cmd.Unread || s.cmd.SubQueue == event.Main {
		return nil
	}
	for i := range messages {
		if exceedsHeader(s.stored, &messages[i], s.cmd.header(i)) {
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

// fitChanges returns the stored changes of a settlement in a form that a message can take. For a
// dead-lettering it shortens the description and the reason if they do not fit with the message's
// header. ok is false if the changes cannot be made to fit (semantics.md 9.2).
func (cmd *Settle) fitChanges(changes []byte, m *index.Message, header int) (_ []byte, ok bool) {
	if !exceedsHeader(changes, m, header) {
		return changes, true
	}
	if cmd.Outcome != MoveToDeadLetter {
		return nil, false
	}
	short, ok := shortenChanges(cmd.Changes, maxChanges-header-changesSize(m))
	if !ok {
		return nil, false
	}
	return encodeChanges(short), true
}

// fitReason returns why the broker dead-letters a message, with the stored changes that tell so,
// cut to what fits with its header. If they do not fit at all, the oversized header becomes the
// reason and is written in full: a dead letter must have a reason.
func fitReason(header int, cause event.Cause, reason, description string) (event.Cause, string, string, []byte) {
	if changes, ok := shortenChanges(deadLetterChanges(reason, description), maxChanges-header); ok {
		return cause, reason, description, encodeChanges(changes)
	}
	return event.CauseHeaderSize, headerReason, headerText, encodeChanges(deadLetterChanges(headerReason, headerText))
}
