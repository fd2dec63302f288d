package engine

import (
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Commands of the driver of a partition. No client asks for them.

// Receive takes the first deliverable message for a receiver that has credit. The answer is a
// [*Delivery], in a [ReplyDelivery]; there is none if there is nothing to deliver.
type Receive struct {
	Slice    event.Slice
	SubQueue event.SubQueue
	Mode     ReceiveMode
	Origin   *Origin
	Token    event.LockToken // for the lock, fresh and random
	// HasSession means that the receiver holds a session. Session is the token of its lock, and
	// SessionID its name.
	HasSession bool
	Session    event.LockToken
	SessionID  []byte
	From       event.SequenceNumber // where a browsing receiver continues
}

// Tick ends overdue locks, at most a batch of them, or makes a scheduled message active.
type Tick struct {
	// Properties is the part of the scheduled message that filters see when a topic publishes it
	// next, and Header its size in bytes without the body's sections. Nil means that the next item
	// due is no such message, or that filters see nothing of it.
	Properties *filter.Message
	Header     int
}

type acceptSession struct {
	slice   event.Slice
	origin  *Origin
	session []byte // its name, never nil; ignored with any
	any     bool
	token   event.LockToken
}

// AcceptSession returns the command that gives a session of a slice, under a fresh and random
// token, to a receiver that has attached for one. The answer is a [*SessionGrant]; there is none if
// no session is available now. It is refused with SessionCannotBeLocked if another receiver holds
// the session it names.
func AcceptSession(id event.Slice, r *Receiver, token event.LockToken) Command {
	session := r.Session.ID
	if session == nil {
		session = []byte{} // "" is also a session id
	}
	return &acceptSession{id, r.Origin, session, r.Session.Any, token}
}

type releaseSession struct {
	slice event.Slice
	token event.LockToken
	cause event.ReleaseCause
}

// ReleaseSession returns the command that ends the session lock of a detached receiver, if it still
// has it.
func ReleaseSession(id event.Slice, token event.LockToken, cause event.ReleaseCause) Command {
	return &releaseSession{id, token, cause}
}

type releaseAll struct{}

// ReleaseAll returns the command that ends every session lock: after a start no receiver holds one
// (semantics.md 4.3 R3).
func ReleaseAll() Command { return &releaseAll{} }

type sweep struct{ pass index.Sweep }

// Sweep returns the command that looks for expired messages in the main queue of a slice
// (semantics.md 7.4), some at a time; see [Outcome.Rest].
func Sweep(id event.Slice) Command { return &sweep{index.Sweep{Slice: id}} }

type dropSlice struct{ slice event.Slice }

// DropSlice returns the command that forgets the contents of a slice of a deleted entity.
func DropSlice(id event.Slice) Command { return &dropSlice{id} }

// Internal marks the type that embeds it as a command that the driver of a partition carries out
// without asking the partition, or as the answer to one. Package host has such types; for all other
// packages the sets of commands and answers are closed.
type Internal struct{}

func (*Receive) command()        {}
func (*Tick) command()           {}
func (*acceptSession) command()  {}
func (*releaseSession) command() {}
func (*releaseAll) command()     {}
func (*sweep) command()          {}
func (*dropSlice) command()      {}
func (Internal) command()        {}
