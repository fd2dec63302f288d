package present

import (
	"context"
	"errors"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Source has the state of a namespace: a running broker, or the end of the logs of a directory, a
// backup or an excerpt. Its methods may be called from any goroutine.
type Source interface {
	// Now returns the time that ages are counted from: broker time, or the time of the newest
	// record of a directory.
	Now() event.Time
	// Entries returns the entries of the catalogue, in any order. The caller must not change them.
	Entries(ctx context.Context) ([]Entry, error)
	// Look calls read with the state of a partition, and returns when read has returned and
	// everything that it has seen is durable. It must take a short time only, since the partition
	// waits. After an error read may still be called. The error wraps [ErrAway] if the partition
	// does not serve.
	Look(ctx context.Context, partition int, read func(*index.Index)) error
	// Snapshot returns the state of a partition at one moment. Everything in it is durable. The
	// caller closes it. An error wraps [ErrAway] where the partition does not serve.
	Snapshot(ctx context.Context, partition int) (*index.Snapshot, error)
	// Body reads the bytes of a blob that a snapshot shows into the beginning of dst, and compares
	// them with the blob's checksum. If dst is longer, it also reads the bytes of the log after the
	// blob, which it does not compare. If the blob is longer than dst, it reads only the beginning,
	// and compares nothing. It returns the number of bytes read. An error wraps [event.ErrErased]
	// if the bytes are no longer kept.
	Body(ctx context.Context, partition int, b event.Blob, dst []byte) (int, error)
	// Activity returns what happened in each partition, in any order; partitions that do not serve
	// or do not answer are left out. The caller may change the answer. An error wraps
	// [ErrNotRecorded] if the source does not know.
	Activity(ctx context.Context) ([]Activity, error)
}

// Entry is a queue, topic or subscription of the catalogue.
type Entry struct {
	ID                               event.EntityID
	Kind                             event.EntityKind
	Path                             string
	Status                           event.Status
	Hosts                            []byte // partitions of the log, by the entity's own
	CreatedAt, UpdatedAt, AccessedAt event.Time
}

// Activity is what happened in a partition since it began to serve.
type Activity struct {
	Partition int
	Since     event.Time      // when all counts were 0: when the partition began to serve
	Slices    []SliceActivity // in any order; slices in which nothing has happened may be missing
}

// SliceActivity counts what happened to the messages of a slice.
type SliceActivity struct {
	Slice     event.Slice
	Received  uint64 // arrived: sent, published to it, or moved to it
	Copies    uint64 // the part of Received that is copies of a topic's messages
	Delivered uint64 // given to a receiver
	Completed uint64 // removed by their receiver
	Failed    uint64 // abandoned, or given back because their lock ended
	Died      uint64 // moved to a dead-letter queue
}

// ErrAway is wrapped by errors about a partition that does not serve.
var ErrAway = errors.New("the partition does not serve")

// ErrQuestion is wrapped by errors about a question that cannot be answered as it was put, such as
// one with an unknown sort order. The error says what exists.
var ErrQuestion = errors.New("invalid question")

// ErrNotRecorded is wrapped by errors about what only a running broker knows.
var ErrNotRecorded = errors.New("not recorded")

// ErrNotFound is wrapped by errors about an entity that does not exist.
var ErrNotFound = errors.New("not found")

// EntriesOf returns the entries of a replayed catalogue.
func EntriesOf(c *index.Catalogue) []Entry {
	all := c.All()
	list := make([]Entry, len(all))
	for i := range all {
		e := &all[i]
		list[i] = Entry{ID: e.ID, Kind: e.Kind, Path: e.Path, Status: e.Properties.Status, Hosts: e.Hosts, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, AccessedAt: e.AccessedAt}
	}
	return list
}
