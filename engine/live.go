package engine

import (
	"context"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Live is the engine for an operator who asks what it does now, such as why a receiver gets
// nothing. Nothing in the answers is in a log. docs/guide/waiting.md explains each of the causes.
type Live interface {
	// Resolve is [Broker.Resolve].
	Resolve(path string) (Target, error)
	// Receiving returns what each partition that hosts an entity knows of the receivers and
	// messages of one of its sub-queues. It waits for answers until the context ends.
	Receiving(ctx context.Context, of Target) []PartitionNow
}

// PartitionNow tells what one partition does now for a sub-queue of an entity.
type PartitionNow struct {
	ID         PartitionID
	State      PartitionState
	Conditions []string      // that last, by their names in /health
	Mail       int           // requests that wait in its mailbox
	MaxMail    int           // mailbox length at which connections wait; 0: it does not serve
	Turn       time.Duration // length of its current turn; 0: it sleeps

	Answered bool // the partition itself has answered; else the rest is unknown
	Late     int  // costly requests that wait for later turns, of all connections
	// receivers of the entity, or of all subscriptions of its topic, that are counted here
	Attached    int
	MaxAttached int
	Ports       []PortNow

	Messages *MessagesNow // nil: unknown
}

// PortNow tells what a partition knows of one receiver link.
type PortNow struct {
	Receiver *Receiver
	Credit   int32 // left on the link, in all partitions together
	Queued   int32 // the part of it that waits here
	Before   int   // receivers whose credit is served first
	// deliveries that wait until their locks are written and their messages are durable
	Unwritten int
	// requests of the link's connection that must be carried out before its next one
	Late       int
	Session    string
	HasSession bool
	// end of the lock of the session
	SessionUntil event.Time
	SessionFull  bool // the session has the maximum of locked messages
}

// MessagesNow counts messages of a sub-queue; for a main queue those of the whole entity.
type MessagesNow struct {
	index.Tally
	Locked, Deferred int // of the sub-queue; a deferred message that is locked counts in both
	// messages that a receiver of the sub-queue can get, and expired ones
	Available int
}

// LinksNow tells what connections know of the receiver links of a sub-queue.
type LinksNow struct {
	Links   []LinkNow
	Silent  []uint64      // numbers of the connections that did not answer, in order
	Refused []RefusedLink // newest last
}

// LinkNow tells what a connection knows of one receiver link.
type LinkNow struct {
	Receiver  *Receiver
	Attaching bool  // it waits for a session, and has no answer yet
	Credit    int32 // current credit of the peer
	Passed    int32 // the part of it that partitions have and have not used
	Unsent    int   // deliveries that the connection has and has not begun to send
	Unsettled int   // deliveries that the peer has to settle
	// messages that the link has locked: of deliveries that the peer has to settle, and of unsent
	// ones
	Locks int
	// end of the first of these locks; 0: there is none, or they end with the lock of a session
	LockedUntil event.Time
	Held        int // the same, for all links of the connection
	MaxHeld     int
	Window      int64 // transfers that the peer accepts on the link's session
	Backlog     int   // bytes that wait for the socket
	// time since the start of the write that the socket has not finished; 0: none
	Blocked  time.Duration
	NoMemory bool // there is no memory for the next message
	Unread   bool // the body of the next message could not be read yet
}

// RefusedLink is a receiver link that the broker has refused, or detached because of an error.
type RefusedLink struct {
	At        time.Time
	Origin    Origin
	Entity    event.EntityID // 0: there is no entity of that name
	Condition string
	Text      string
}
