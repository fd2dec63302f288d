package engine

import (
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// PartitionID is [event.PartitionID], the number of a log.
type PartitionID = event.PartitionID

// Broker is the engine as the protocol side sees it. In a cluster another implementation may stand
// behind it.
type Broker interface {
	// Resolve finds what an address names: the entity with the longest known path, then the
	// sub-queue. It expects the path without scheme, authority and outer slashes, percent-decoded;
	// letter case does not matter (wire-protocol.md 1.9). A $management suffix must have been cut
	// off. It refuses with NotFound.
	Resolve(path string) (Target, error)
	// Submit gives requests to a partition, in order, and copies the slice. It blocks while the
	// partition's mailbox is full. Every request is replied to exactly once; after the partition
	// stopped with ErrUnknown.
	Submit(p PartitionID, requests []Request)
	// Serves reports whether a partition serves now. It may have changed when the answer comes.
	Serves(p PartitionID) bool
	// ReadInto reads what a partition has stored: a blob's bytes into the beginning of dst,
	// compared with the blob's checksum, and, as far as dst goes, the bytes of the log behind them,
	// which are not compared. Where the blob is longer than dst only its beginning is read, and
	// nothing is compared. A refusal with the code [Busy] says nothing about the bytes: they can be
	// read later. An error that wraps [event.ErrErased] is a fault of the broker if the message is
	// still there, see ReportDamage.
	ReadInto(p PartitionID, b event.Blob, dst []byte) (int, error)
	// ReportDamage tells a partition that a stored body could not be read back: it refuses sends
	// from now on. The lock is that under which the body's message was given; zero: none. Where the
	// message has ended meanwhile, lock and all, as with its entity, a body that was erased is no
	// damage.
	ReportDamage(p PartitionID, lock event.LockToken, err error)
	// Now is broker time.
	Now() event.Time
	// Manage carries out a command about the catalogue ([PutRule], [DeleteRule], [ListRules]) after
	// those before it and replies to the request's sink once it is durable and in force. It does
	// not block: with too many waiting it refuses with Busy.
	Manage(req Request)
	// Watch calls back whenever an entity's settings changed or it was deleted, after that is
	// durable and in force. The call must not block. The function returned ends it.
	Watch(func(Change)) (stop func())
}

// Change is a change of the catalogue that links have to know of.
type Change struct {
	Entity  *Entity // as it was before; nil: see Back
	Deleted bool    // otherwise it was updated
	// Back is, without an entity, a partition that serves again: receivers that were made while it
	// was away do not receive from there.
	Back PartitionID
}

// Entity is one version of the settings of a queue, topic or subscription. It is never changed: an
// update makes a new one.
type Entity struct {
	ID   event.EntityID
	Kind event.EntityKind
	// of a subscription <topic>/Subscriptions/<name>, in the spelling that is shown
	Path       string
	Properties event.Properties
	Hosts      []PartitionID  // by entity partition
	Topic      event.EntityID // of a subscription
	CreatedAt  event.Time
	UpdatedAt  event.Time // last change of the properties

	activity *activity // shared by all versions; nil of one that was made by hand
}

// Name is how an entity is called where its kind and its topic are known.
func (e *Entity) Name() string {
	if e.Kind == event.Subscription {
		return e.Path[strings.LastIndexByte(e.Path, '/')+1:]
	}
	return e.Path
}

// TopicPath is the path of the topic a subscription belongs to; of anything else its own.
func (e *Entity) TopicPath() string {
	if e.Kind == event.Subscription {
		return e.Path[:len(e.Path)-len(e.Name())-len(subscriptionsInfix)]
	}
	return e.Path
}

// lockDuration is how long a message of the entity is locked. A topic, of which only the transfer
// dead-letter queue has receivers, has no such property: there it is the default of other entities.
func (e *Entity) lockDuration() time.Duration {
	if e.Kind == event.Topic {
		return usualLockDuration
	}
	return e.Properties.LockDuration
}

// Target is what an address names.
type Target struct {
	Entity   *Entity
	SubQueue event.SubQueue
}
