package engine

import (
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// hashVersion names the placement hash below. It is stored with every entity: changing the hash needs a new number.
const hashVersion = 1

const (
	maxPath     = 260    // characters (semantics.md 1.2)
	maxMetadata = 4096   // bytes: 1,024 characters
	maxEntities = 10_000 // queues and topics of a namespace (semantics.md 16.3)
)

// place chooses the partition that hosts an entity partition: FNV-1a of the entity id and the number, so it depends on
// nothing else and never changes.
func place(id event.EntityID, number uint8, width int) PartitionID {
	h := fnv.New32a()
	h.Write([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), number})
	return PartitionID(h.Sum32() % uint32(width))
}

const (
	deadLetterSuffix         = "/$deadletterqueue"
	transferDeadLetterSuffix = "/$transfer/$deadletterqueue"
)

// splitPath takes a path apart: the entity, in lower case, and the sub-queue (semantics.md 1.2).
func splitPath(path string) (entity string, q event.SubQueue) {
	name := strings.ToLower(path)
	if entity, ok := strings.CutSuffix(name, transferDeadLetterSuffix); ok {
		return entity, event.TransferDeadLetter
	}
	if entity, ok := strings.CutSuffix(name, deadLetterSuffix); ok {
		return entity, event.DeadLetter
	}
	return name, event.Main
}

// putQueue creates a queue or changes it; see [PutQueue].
func (p *Partition) putQueue(cmd *PutQueue) Outcome {
	if p.id != 0 {
		panic(fmt.Sprintf("engine: catalogue command on partition %d", p.id))
	}
	if n := utf8.RuneCountInString(cmd.Path); n == 0 || n > maxPath {
		return p.refused(refuse(InvalidArgument, "A queue's path has 1 to %d characters.", maxPath))
	}
	if _, q := splitPath(cmd.Path); q != event.Main {
		return p.refused(refuse(InvalidArgument, "'%s' is the path of a sub-queue: those come and go with their entity.", cmd.Path))
	}
	if s := &cmd.Properties; max(len(s.ForwardTo), len(s.ForwardDeadLetteredMessagesTo), len(s.UserMetadata)) > maxMetadata {
		return p.refused(refuse(InvalidArgument, "A property of queue '%s' is longer than %d bytes.", cmd.Path, maxMetadata))
	}
	old, ok := p.index.Catalogue.Find(cmd.Path)
	if !ok {
		if p.index.Catalogue.Len() >= maxEntities {
			return p.refused(refuse(QuotaExceeded, "The namespace has %d queues and topics, which is the most there may be: '%s' is not created.", maxEntities, cmd.Path))
		}
		ev := p.events.New(event.KindEntityCreated).(*event.EntityCreated)
		id := p.index.Catalogue.NextID()
		ev.Envelope = p.envelope(event.Slice{Entity: id}, p.origin(cmd.Origin))
		ev.EntityKind, ev.Path, ev.Properties = event.Queue, cmd.Path, cmd.Properties
		ev.HashVersion, ev.Hosts = hashVersion, []byte{byte(place(id, 0, p.width))}
		p.out = append(p.out, ev)
		return p.done(log.Durable)
	}
	if old.Kind != event.Queue {
		return p.refused(refuse(AlreadyExists, "There is a topic named '%s' already.", old.Path))
	}
	for _, fixed := range []struct {
		name     string
		old, new bool
	}{
		{"RequiresSession", old.Properties.RequiresSession, cmd.Properties.RequiresSession},
		{"RequiresDuplicateDetection", old.Properties.RequiresDuplicateDetection, cmd.Properties.RequiresDuplicateDetection},
		{"EnablePartitioning", old.Properties.EnablePartitioning, cmd.Properties.EnablePartitioning},
	} {
		if fixed.old != fixed.new {
			return p.refused(refuse(InvalidArgument, "The value for the %s property of an existing Queue cannot be changed: '%s'.", fixed.name, old.Path))
		}
	}
	if old.Properties == cmd.Properties {
		return p.done(log.Ordered)
	}
	ev := p.events.New(event.KindEntityUpdated).(*event.EntityUpdated)
	ev.Envelope = p.envelope(event.Slice{Entity: old.ID}, p.origin(cmd.Origin))
	ev.Properties = cmd.Properties
	p.out = append(p.out, ev)
	return p.done(log.Durable)
}

// deleteQueue ends a queue in the catalogue. Its slices are forgotten by their partitions afterwards: see [dropSlice].
func (p *Partition) deleteQueue(cmd *DeleteQueue) Outcome {
	old, ok := p.index.Catalogue.Find(cmd.Path)
	if !ok || old.Kind != event.Queue {
		return p.refused(refuse(NotFound, "The messaging entity '%s' could not be found.", cmd.Path))
	}
	ev := p.events.New(event.KindEntityDeleted).(*event.EntityDeleted)
	ev.Envelope, ev.Reason = p.envelope(event.Slice{Entity: old.ID}, p.origin(cmd.Origin)), cmd.Reason
	p.out = append(p.out, ev)
	return p.done(log.Durable)
}

// DropSlice is the command that forgets a slice of an entity that was deleted. [Namespace] sends it; so does a simulation
// that drives loops by hand.
func DropSlice(id event.Slice) Command { return &dropSlice{id} }

// dropSlice forgets a slice of an entity that is no more.
func (p *Partition) dropSlice(cmd *dropSlice) Outcome {
	if !p.index.Has(cmd.slice) {
		return p.done(log.Ordered)
	}
	ev := p.events.New(event.KindSliceDropped).(*event.SliceDropped)
	ev.Envelope = p.envelope(cmd.slice, 0)
	p.out = append(p.out, ev)
	return p.done(log.Durable)
}

// view is an entity as the protocol side sees it.
func view(e index.Entity) *Entity {
	v := &Entity{ID: e.ID, Kind: e.Kind, Path: e.Path, Properties: e.Properties}
	for _, h := range e.Hosts {
		v.Hosts = append(v.Hosts, PartitionID(h))
	}
	return v
}
