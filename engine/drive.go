package engine

import (
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Commands of whoever drives a partition. No client asks for them.

// Receive takes the first deliverable message for a receiver that has credit. The answer is a
// [*Delivery], in a [ReplyDelivery]; there is none when there is nothing to deliver.
type Receive struct {
	Slice    event.Slice
	SubQueue event.SubQueue
	Mode     ReceiveMode
	Origin   *Origin
	Token    event.LockToken // for the lock, fresh and random
	// HasSession says that the receiver holds a session. Session is the token of its lock, and
	// SessionID its name.
	HasSession bool
	Session    event.LockToken
	SessionID  []byte
	From       event.SequenceNumber // where a receiver that browses goes on
}

// Tick ends locks whose time has passed, at most a batch of them, or makes a scheduled message
// active.
type Tick struct {
	// Properties is what filters see of the scheduled message that a topic publishes next, and
	// Header how many bytes of it stand beside its body's sections. Nil: what is due next is no
	// such message, or filters see nothing of it.
	Properties *filter.Message
	Header     int
}

type acceptSession struct {
	slice   event.Slice
	origin  *Origin
	session []byte // its name, never nil; with any it means nothing
	any     bool
	token   event.LockToken
}

// AcceptSession is the command that gives a session of a slice to a receiver that has attached for
// one, under a fresh and random token. The answer is a [*SessionGrant]; there is none when no
// session is available now. It is refused with SessionCannotBeLocked when another holds the session
// it names.
func AcceptSession(id event.Slice, r *Receiver, token event.LockToken) Command {
	session := r.Session.ID
	if session == nil {
		session = []byte{} // "" is a session id too
	}
	return &acceptSession{id, r.Origin, session, r.Session.Any, token}
}

type releaseSession struct {
	slice event.Slice
	token event.LockToken
	cause event.ReleaseCause
}

// ReleaseSession is the command that ends the session lock of a receiver that is gone, if it has it
// still.
func ReleaseSession(id event.Slice, token event.LockToken, cause event.ReleaseCause) Command {
	return &releaseSession{id, token, cause}
}

type releaseAll struct{}

// ReleaseAll is the command that ends every session lock: after a start nobody holds one
// (semantics.md 4.3 R3).
func ReleaseAll() Command { return &releaseAll{} }

type sweep struct{ pass index.Sweep }

// Sweep is the command that looks through the main queue of a slice in search of expired messages
// (semantics.md 7.4), some at a time; see [Outcome.Rest].
func Sweep(id event.Slice) Command { return &sweep{index.Sweep{Slice: id}} }

type dropSlice struct{ slice event.Slice }

// DropSlice is the command that forgets what is in a slice of an entity that is no more.
func DropSlice(id event.Slice) Command { return &dropSlice{id} }

// Internal makes a type that embeds it a command that the driver of a partition carries out without
// asking the partition, or the answer to such a command. Package host has such types; to everybody
// else the sets of commands and answers are closed.
type Internal struct{}

func (*Receive) command()        {}
func (*Tick) command()           {}
func (*acceptSession) command()  {}
func (*releaseSession) command() {}
func (*releaseAll) command()     {}
func (*sweep) command()          {}
func (*dropSlice) command()      {}
func (Internal) command()        {}
