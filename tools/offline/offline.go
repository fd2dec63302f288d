// Package offline has the state at the end of the logs of a directory, a backup or an excerpt. It
// answers questions about the present without a broker.
package offline

import (
	"context"
	"fmt"
	"sync"

	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Source has the state at the end of the logs. It implements [present.Source].
type Source struct {
	now  event.Time
	logs map[int]*ended
}

// ended is one log and the state at its end.
type ended struct {
	log.Partition
	mu    sync.Mutex // guards the index, which only its owner may read
	index *index.Index
	err   error // why there is no state
}

// Open replays the logs of a store to their ends. A log that cannot be read is missing from
// answers, except that of partition 0, which has the entities. The store must stay open.
func Open(ctx context.Context, store interface {
	Partitions() []log.PartitionID
	Open(ctx context.Context, id log.PartitionID) (log.Partition, error)
}) (*Source, error) {
	s := &Source{logs: map[int]*ended{}}
	for _, id := range store.Partitions() {
		e := &ended{}
		if e.Partition, e.err = store.Open(ctx, id); e.err == nil {
			e.err = e.replay(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case e.err != nil && id == 0:
			return nil, e.err
		case e.err == nil:
			s.now = max(s.now, e.index.LastAt())
		}
		s.logs[int(id)] = e
	}
	return s, nil
}

// replay replays the log to its end.
func (e *ended) replay(ctx context.Context) error {
	state := replay.Newest(e.Partition, 0, nil)
	for rec, err := range state.Records(ctx) {
		if err == nil {
			err = state.Apply(rec)
		}
		if err != nil {
			return err
		}
	}
	e.index = state.Index
	return nil
}

// Now implements [present.Source]. It returns the time of the newest record.
func (s *Source) Now() event.Time { return s.now }

// Entries implements [present.Source].
func (s *Source) Entries(ctx context.Context) (list []present.Entry, err error) {
	err = s.Look(ctx, 0, func(x *index.Index) { list = present.EntriesOf(&x.Catalogue) })
	return list, err
}

// Look implements [present.Source].
func (s *Source) Look(_ context.Context, partition int, read func(*index.Index)) error {
	e, err := s.log(partition)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	read(e.index)
	return nil
}

// Snapshot implements [present.Source].
func (s *Source) Snapshot(ctx context.Context, partition int) (state *index.Snapshot, err error) {
	err = s.Look(ctx, partition, func(x *index.Index) { state = x.Snapshot() })
	return state, err
}

// Body implements [present.Source].
func (s *Source) Body(_ context.Context, partition int, b event.Blob, dst []byte) (int, error) {
	e, err := s.log(partition)
	if err != nil {
		return 0, err
	}
	return e.ReadInto(b, dst)
}

// Activity implements [present.Source].
func (s *Source) Activity(context.Context) ([]present.Activity, error) {
	return nil, present.ErrNotRecorded
}

// log returns a log and its state.
func (s *Source) log(partition int) (*ended, error) {
	e := s.logs[partition]
	if e == nil {
		return nil, fmt.Errorf("partition %d: %w: the directory does not have it", partition, present.ErrAway)
	}
	if e.err != nil {
		return nil, fmt.Errorf("partition %d: %w: %w", partition, present.ErrAway, e.err)
	}
	return e, nil
}
