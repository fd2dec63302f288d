package engine

import (
	"errors"
	"fmt"
)

// Code is the class of a refusal. One table for each protocol turns it into what the wire says: protocol/servicebus/condition.go,
// protocol/atom/refusal.go.
type Code uint8

const (
	NotFound               Code = iota + 1 // the entity does not exist
	MessageNotFound                        // no message with that sequence number qualifies
	LockLost                               // the token is not that of a live lock
	Disabled                               // the entity's status forbids it
	QuotaExceeded                          // the entity is full
	NotAllowed                             // wrong use
	InvalidArgument                        // a value out of bounds
	MessageTooLarge                        // over the entity's message size
	Busy                                   // try again: the partition takes no more work now
	NotImplemented                         // the broker does not do this yet
	AlreadyExists                          // an entity or rule of that name
	SessionLockLost                        // the session is not held, or not by the caller
	SessionCannotBeLocked                  // another receiver holds the session
	Timeout                                // nothing came in time
	NoMatchingSubscription                 // the topic filters before publishing and no rule matches
)

// Error is a refusal: the client asked for what the rules forbid. The command had no effect and never will.
type Error struct {
	Code Code
	Text string // first sentence of what the client is told
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
	return Refuse(SessionLockLost, "The session lock was lost. Request a new session receiver.")
}

// ErrUnknown is the outcome of a command whose events may or may not be in the log: its partition stopped.
var ErrUnknown = errors.New("engine: outcome unknown, the partition stopped")
