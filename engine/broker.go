package engine

import (
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// PartitionID is [event.PartitionID], the number of a log.
type PartitionID = event.PartitionID

// Broker is the engine as the protocol side sees it. In a cluster it may have another
// implementation.
type Broker interface {
	// Resolve finds the target of an address: the entity with the longest known path, then the
	// sub-queue. It expects the path without scheme, authority and outer slashes, percent-decoded;
	// letter case does not matter (wire-protocol.md 1.9). The caller has cut off a $management
	// suffix. It refuses with NotFound.
	Resolve(path string) (Target, error)
	// Submit passes requests to a partition, in order, and copies the slice. It blocks while the
	// partition's mailbox is full. Every request is replied to exactly once; after the partition
	// has stopped, with ErrUnknown.
	Submit(p PartitionID, requests []Request)
	// Serves reports whether a partition serves now. This may have changed when the caller uses the
	// result.
	Serves(p PartitionID) bool
	// ReadInto reads stored bytes of a partition. It reads a blob into the beginning of dst and
	// compares it with the blob's checksum. If dst is longer it also reads the bytes of the log
	// after the blob, which it does not compare. If the blob is longer than dst it reads only the
	// beginning, and compares nothing. A refusal with the code [Busy] says nothing about the bytes:
	// they can be read later. An error that wraps [event.ErrErased] is a fault of the broker if the
	// message still exists; see ReportDamage.
	ReadInto(p PartitionID, b event.Blob, dst []byte) (int, error)
	// ReportDamage tells a partition that a stored body could not be read: it refuses sends from
	// now on. lock is the lock under which the message was delivered; zero means none. If the
	// message has ended meanwhile, with its lock or its entity, an erased body is no damage.
	ReportDamage(p PartitionID, lock event.LockToken, err error)
	// Now returns broker time.
	Now() event.Time
	// Manage carries out a command about the catalogue ([PutRule], [DeleteRule], [ListRules]) after
	// those before it. It replies to the request's sink once the command is durable and in force.
	// It does not block: if too many commands wait it refuses with Busy.
	Manage(req Request)
	// Watch calls the function whenever an entity's settings changed or it was deleted, after that
	// is durable and in force. The function must not block. The returned function ends the watch.
	Watch(func(Change)) (stop func())
}

// Change is a change of the catalogue that links need to know.
type Change struct {
	Entity  *Entity // as it was before; nil: see Back
	Deleted bool    // otherwise it was updated
	// Back is set if Entity is nil: a partition that serves again. Receivers that attached while it
	// was away do not receive from it.
	Back PartitionID
}

// Entity is one version of the settings of a queue, topic or subscription. It is immutable: an
// update makes a new one.
type Entity struct {
	ID   event.EntityID
	Kind event.EntityKind
	// <topic>/Subscriptions/<name> of a subscription, in the spelling that clients see
	Path       string
	Properties event.Properties
	Hosts      []PartitionID  // by entity partition
	Topic      event.EntityID // of a subscription
	CreatedAt  event.Time
	UpdatedAt  event.Time // last change of the properties

	activity *activity // shared by all versions; nil if made by hand
}

// Name returns the name of an entity for a reader who knows its kind and topic.
func (e *Entity) Name() string {
	if e.Kind == event.Subscription {
		return e.Path[strings.LastIndexByte(e.Path, '/')+1:]
	}
	return e.Path
}

// TopicPath returns the path of a subscription's topic; for any other entity, its own path.
func (e *Entity) TopicPath() string {
	if e.Kind == event.Subscription {
		return e.Path[:len(e.Path)-len(e.Name())-len(subscriptionsInfix)]
	}
	return e.Path
}

// lockDuration returns how long a message of the entity is locked. A topic has no such property,
// but its transfer dead-letter queue has receivers: it uses the default of other entities.
func (e *Entity) lockDuration() time.Duration {
	if e.Kind == event.Topic {
		return usualLockDuration
	}
	return e.Properties.LockDuration
}

// Target is the entity and sub-queue that an address names.
type Target struct {
	Entity   *Entity
	SubQueue event.SubQueue
}
