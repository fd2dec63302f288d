package engine

import (
	"errors"
	"fmt"
)

// Code is the class of a refusal. One table for each protocol turns it into what the wire says:
// protocol/servicebus/condition.go, protocol/atom/refusal.go. What the wire tells apart has a code
// of its own: nobody looks into a text.
type Code uint8

const (
	NotFound        Code = iota + 1 // the entity, or the rule, does not exist
	MessageNotFound                 // no message with that sequence number qualifies
	LockLost                        // the token is not that of a live lock
	Disabled                        // the entity's status forbids it
	// there are as many as there may be; of bytes in an entity that is EntityFull
	QuotaExceeded
	NotAllowed            // wrong use
	InvalidArgument       // a value out of bounds
	MessageTooLarge       // over the entity's message size
	Busy                  // try again: the partition takes no more work now
	NotImplemented        // the broker does not do this yet
	AlreadyExists         // an entity or rule of that name
	SessionLockLost       // the session is not held, or not by the caller
	SessionCannotBeLocked // another receiver holds the session
	Timeout               // nothing came in time
	// the topic filters before publishing and no rule matches
	NoMatchingSubscription
	// the messages and session states of the entity take as many bytes as they may
	EntityFull
	UnknownTransaction // there is no transaction with that id, or no more
	// an operation of the transaction, or its commit, was refused: it is rolled back
	TransactionFailed
	// the stored bytes of the message are damaged: of one that moves, no client is told this
	Unreadable
)

// Texts of refusals that the protocol also gives by itself, where it need not ask.
const (
	LockLostText     = "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."
	SessionLostText  = "The session lock was lost. Request a new session receiver."
	DeadLetteredText = "A message of a dead-letter queue cannot be dead-lettered."
	TooManySentText  = "Cannot send more than 100 messages in a single transaction."
)

// Error is a refusal: the client asked for what the rules forbid. The command had no effect and
// never will.
type Error struct {
	Code Code
	// what the client is told; a protocol may add to it, or name an entity in its own way
	Text string
}

func (e *Error) Error() string { return e.Text }

// Refuse makes a refusal of a code and the words of [fmt.Sprintf].
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// NoEntity is the refusal of a path that names nothing.
func NoEntity(path string) *Error {
	return Refuse(NotFound, "The messaging entity '%s' could not be found.", path)
}

// SessionLost is the refusal of a session lock that has ended.
func SessionLost() *Error {
	return Refuse(SessionLockLost, SessionLostText)
}

// NoTransaction is the refusal of an operation in a transaction that is not there, or no more.
func NoTransaction(id []byte) *Error {
	return Refuse(UnknownTransaction, "No active Transaction was found for ID '%x'. The Transaction may have timed out or attempted to span "+
		"multiple top-level entities such as Queue or Topic. The server Transaction timeout is: 00:02:00.", id)
}

// ErrUnknown is the outcome of a command whose events may or may not be in the log: its partition
// stopped.
var ErrUnknown = errors.New("engine: outcome unknown, the partition stopped")
