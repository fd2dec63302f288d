package engine

import (
	"context"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Live is the engine for an operator who asks what it does now, such as why a receiver gets
// nothing. Nothing of the answers is in a log. docs/guide/waiting.md says what each of the causes
// is.
type Live interface {
	// Resolve is that of [Broker].
	Resolve(path string) (Target, error)
	// Receiving returns what each partition that hosts an entity knows of the receivers and
	// messages of one of its sub-queues. It waits for answers until the context ends.
	Receiving(ctx context.Context, of Target) []PartitionNow
}

// PartitionNow is what one partition does now for a sub-queue of an entity.
type PartitionNow struct {
	ID         PartitionID
	State      PartitionState
	Conditions []string      // that last, by the names that /health has for them
	Mail       int           // requests that wait in its mailbox
	MaxMail    int           // from which on connections wait for room in it; 0: it does not serve
	Turn       time.Duration // that its turn has taken so far; 0: it sleeps

	Answered bool // the partition itself has answered; else what follows is not known
	Late     int  // costly requests that wait for later turns, of all connections
	// receivers of the entity, or of all subscriptions of its topic, that are counted here
	Attached    int
	MaxAttached int
	Ports       []PortNow

	Messages *MessagesNow // nil: not known
}

// PortNow is what a partition knows of one receiver link.
type PortNow struct {
	Receiver *Receiver
	Credit   int32 // that the link has left, in all partitions together
	Queued   int32 // of it, what waits here
	Before   int   // receivers whose credit comes first
	// deliveries that wait until their locks are written and their messages are durable
	Unwritten int
	// requests of the link's connection that have to be carried out before its next one
	Late        int
	Session     string
	HasSession  bool
	SessionFull bool // the session has as many locked messages as it may
}

// MessagesNow counts messages of a sub-queue by state; of a main queue also those of the other
// sub-queues.
type MessagesNow struct {
	Active, Locked, Deferred, Scheduled, Transferring int
	DeadLettered, TransferDeadLettered                int
}

// LinksNow is what connections know of the receiver links of a sub-queue.
type LinksNow struct {
	Links   []LinkNow
	Silent  []uint64      // numbers of the connections that did not answer, in order
	Refused []RefusedLink // newest last
}

// LinkNow is what a connection knows of one receiver link.
type LinkNow struct {
	Receiver  *Receiver
	Attaching bool  // it waits for a session, and has no answer so far
	Credit    int32 // that the peer gives now
	Passed    int32 // of it, what the partitions have got and not used
	Unsent    int   // deliveries that the connection has got and not begun to send
	Unsettled int   // deliveries that the peer has to settle
	Held      int   // likewise, of all links of the connection
	MaxHeld   int
	Window    int64 // transfers that the peer takes on the link's session
	Backlog   int   // bytes that wait for the socket
	// since the write began that the socket has not taken all of; 0: none goes on
	Blocked  time.Duration
	NoMemory bool // there is no memory for the next message
	Unread   bool // the body of the next message could not be read so far
}

// RefusedLink is a receiver link that the broker has refused, or detached for an error.
type RefusedLink struct {
	At        time.Time
	Origin    Origin
	Entity    event.EntityID // 0: there is none of that name
	Condition string
	Text      string
}
