package engine

import (
	"errors"
	"fmt"
)

// Code is the class of a refusal. Each protocol has one table that turns it into what the wire
// says: protocol/servicebus/condition.go, protocol/atom/refusal.go. Cases that the wire
// distinguishes have their own code: no code inspects a text.
type Code uint8

const (
	NotFound        Code = iota + 1 // the entity, or the rule, does not exist
	MessageNotFound                 // no message with that sequence number qualifies
	LockLost                        // the token is not that of a live lock
	Disabled                        // the entity's status forbids it
	// a limit on numbers is reached; for bytes in an entity see EntityFull
	QuotaExceeded
	NotAllowed            // wrong use
	InvalidArgument       // a value out of bounds
	MessageTooLarge       // over the entity's message size
	Busy                  // try again: the partition takes no more work now
	NotImplemented        // the broker does not do this yet
	AlreadyExists         // an entity or rule of that name exists
	SessionLockLost       // the session is not held, or not by the caller
	SessionCannotBeLocked // another receiver holds the session
	Timeout               // nothing came in time
	// the topic filters before publishing and no rule matches
	NoMatchingSubscription
	// the messages and session states of the entity have reached its size
	EntityFull
	UnknownTransaction // no transaction with that id is open
	// an operation of the transaction, or its commit, was refused: it is rolled back
	TransactionFailed
	// the stored bytes of a message that moves are damaged; no client is told this
	Unreadable
)

// Texts of refusals that the protocol also uses by itself, without asking the engine.
const (
	LockLostText     = "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."
	SessionLostText  = "The session lock was lost. Request a new session receiver."
	DeadLetteredText = "A message of a dead-letter queue cannot be dead-lettered."
	TooManySentText  = "Cannot send more than 100 messages in a single transaction."
)

// Error is a refusal: the rules forbid the request. The command had no effect and never will.
type Error struct {
	Code Code
	// the text for the client; a protocol may add to it, or name an entity in its own way
	Text string
}

func (e *Error) Error() string { return e.Text }

// Refuse returns a refusal with a code and a text as [fmt.Sprintf] formats it.
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// NoEntity returns the refusal of a path that names nothing.
func NoEntity(path string) *Error {
	return Refuse(NotFound, "The messaging entity '%s' could not be found.", path)
}

// SessionLost returns the refusal of a session lock that has ended.
func SessionLost() *Error {
	return Refuse(SessionLockLost, SessionLostText)
}

// NoTransaction returns the refusal of an operation in a transaction that does not exist, or no
// longer.
func NoTransaction(id []byte) *Error {
	return Refuse(UnknownTransaction, "No active Transaction was found for ID '%x'. The Transaction may have timed out or attempted to span "+
		"multiple top-level entities such as Queue or Topic. The server Transaction timeout is: 00:02:00.", id)
}

// ErrUnknown means that the events of a command may or may not be in the log: its partition
// stopped.
var ErrUnknown = errors.New("engine: outcome unknown, the partition stopped")
