package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// PartitionID numbers the log partitions of a namespace from 0.
type PartitionID uint16

// Broker is the engine as the protocol side sees it. In a cluster another implementation may stand behind it.
type Broker interface {
	// Resolve finds what an address names: the entity with the longest known path, then the sub-queue. It expects the
	// path without scheme, authority and outer slashes, percent-decoded; letter case does not matter (wire-protocol.md 1.9).
	// A $management suffix must have been cut off. It refuses with NotFound.
	Resolve(path string) (Target, error)
	// Submit gives requests to a partition, in order, and copies the slice. It blocks while the partition's mailbox is
	// full. Every request is replied to exactly once; after the partition stopped with ErrUnknown.
	Submit(p PartitionID, requests []Request)
	// ReadAt reads up to len(dst) bytes of the partition's log. Bytes of a Blob must be compared with its Sum.
	ReadAt(p PartitionID, at event.Position, dst []byte) (int, error)
	// ReportDamage tells that a stored body could not be read back: the partition refuses sends from now on.
	ReportDamage(p PartitionID, err error)
	// Now is broker time.
	Now() event.Time
	// Watch calls back whenever an entity's settings changed or it was deleted, after that is durable and in force. The call
	// must not block. The function returned ends it.
	Watch(func(Change)) (stop func())
}

// Change is a change of the catalogue that links have to know of.
type Change struct {
	Entity  *Entity // as it was before
	Deleted bool    // otherwise it was updated
}

// Entity is one version of a queue's or topic's settings. It is never changed: an update makes a new one.
type Entity struct {
	ID         event.EntityID
	Kind       event.EntityKind
	Path       string
	Properties event.Properties
	Hosts      []PartitionID // by entity partition
}

// Target is what an address names.
type Target struct {
	Entity   *Entity
	SubQueue event.SubQueue
}

// Slice is the slice of an entity partition.
func (t Target) Slice(partition uint8) event.Slice {
	return event.Slice{Entity: t.Entity.ID, Partition: partition}
}

// Host is the log partition of an entity partition.
func (t Target) Host(partition uint8) PartitionID { return t.Entity.Hosts[partition] }
