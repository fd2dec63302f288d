package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A Census counts the contents of the logs of a directory by file, entity and kind of event.
type Census struct {
	Files    []FileCount   // by partition, oldest first
	Entities []EntityCount // by id
	Kinds    []KindCount   // by number
}

// A FileCount counts a file of a log and its live data: the bodies, session states and property
// changes that messages and sessions still have.
type FileCount struct {
	Partition log.PartitionID
	log.Summary
	Live, LiveBytes uint64
	Base            bool // the file is the base of the log, not a segment
}

// An EntityCount counts an entity's part of the logs. Events of the namespace itself count as
// entity 0.
type EntityCount struct {
	ID                event.EntityID
	Path              string // "": the entity was deleted, or it is the namespace
	Events, Bytes     uint64 // in records
	Bodies, BodyBytes uint64 // written bodies, kept or not
	// its current messages and their bodies; copies of a message share one body
	Live, LiveBytes uint64
}

// A KindCount counts the events of a kind in records.
type KindCount struct {
	Kind          event.Kind
	Events, Bytes uint64
}

// Count takes the census of a directory. It reads only the ends of sealed files, and the records of
// other segments. It finds live data as a start of the broker does, from the newest checkpoints and
// the log after them. For a refused partition it returns an error, a *log.CorruptError, together
// with the counts of the others.
func Count(dir string, beside Beside) (Census, error) {
	ctx := context.Background()
	s, err := beside.open(ctx, dir, false)
	if err != nil {
		return Census{}, fmt.Errorf("tools: %w", err)
	}
	t := census{entities: make(map[event.EntityID]*EntityCount), kinds: make(map[event.Kind]*KindCount)}
	var errs []error
	for _, id := range s.Partitions() {
		p, err := s.Open(ctx, id)
		if err == nil {
			beside.tell(p)
			err = t.partition(ctx, p)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tools: %w", err))
		}
	}
	errs = append(errs, s.Close())
	return t.result(), errors.Join(errs...)
}

// A census is a Census in progress.
type census struct {
	files    []FileCount
	entities map[event.EntityID]*EntityCount
	kinds    map[event.Kind]*KindCount
}

func (t *census) partition(ctx context.Context, p log.Partition) error {
	state := replay.Newest(p, 0, nil)
	if err := state.Run(ctx, replay.Watch{}); err != nil {
		return damagedPlace(p, err)
	}
	base := baseFiles(p)
	from := len(t.files)
	for sum, err := range p.Summaries(ctx) {
		if err != nil {
			return err
		}
		if sum.Cold { // the base contains its events
			sum.Frames, sum.Records, sum.Events, sum.Lowest, sum.Highest, sum.Kinds = 0, 0, 0, 0, 0, nil
			for i := range sum.Slices {
				sum.Slices[i].Events, sum.Slices[i].Bytes = 0, 0
			}
		}
		t.files = append(t.files, FileCount{Partition: p.ID(), Summary: sum})
		for _, k := range sum.Kinds {
			getOrAdd(t.kinds, k.Kind).add(k.Events, k.Bytes)
		}
		for _, s := range sum.Slices {
			e := getOrAdd(t.entities, s.Slice.Entity)
			e.Events, e.Bytes, e.Bodies, e.BodyBytes = e.Events+s.Events, e.Bytes+s.Bytes, e.Bodies+s.Bodies, e.BodyBytes+s.BodyBytes
		}
	}
	t.live(state, t.files[from:])
	t.files = slices.Insert(t.files, from, base...)
	return nil
}

// baseFiles returns the base of a log that does not begin with its first frame.
func baseFiles(p log.Partition) []FileCount {
	b, ok := baseOf(p)
	if !ok {
		return nil
	}
	return []FileCount{{Partition: p.ID(), Base: true, Summary: log.Summary{Stored: b.Size, SegmentInfo: log.SegmentInfo{File: b.File, First: b.LSN, End: b.LSN}}}}
}

// getOrAdd returns the value of a key and creates it if necessary.
func getOrAdd[K comparable, V any](m map[K]*V, k K) *V {
	v := m[k]
	if v == nil {
		v = new(V)
		m[k] = v
	}
	return v
}

func (k *KindCount) add(events, bytes uint64) { k.Events, k.Bytes = k.Events+events, k.Bytes+bytes }

// live counts the live data of one partition's log in a state. files are the files of the log.
func (t *census) live(at *replay.State, files []FileCount) {
	state := at.Index.Snapshot()
	defer state.Close()
	for _, e := range state.Entities() {
		getOrAdd(t.entities, e.ID).Path = e.Path
	}
	var blobs []event.Blob
	for _, id := range state.Slices() {
		e := getOrAdd(t.entities, id.Entity)
		for q := event.SubQueue(0); q <= event.TransferDeadLetter; q++ {
			for m := range state.Browse(id, q, 0) {
				e.Live++
				e.LiveBytes += uint64(m.Body.Size)
				blobs = append(append(blobs, m.Body), m.Changes...)
			}
		}
		for _, s := range state.Sessions(id) {
			if s.Set {
				blobs = append(blobs, s.State)
			}
		}
	}
	// each blob is in the log once, even if several messages share it
	slices.SortFunc(blobs, func(a, b event.Blob) int { return cmp.Compare(a.Position, b.Position) })
	blobs = slices.CompactFunc(blobs, func(a, b event.Blob) bool { return a.Position == b.Position })
	i := 0
	for _, b := range blobs {
		for i < len(files) && event.LSN(b.Position) >= files[i].End {
			i++
		}
		if i < len(files) && event.LSN(b.Position) >= files[i].First && b.Size > 0 {
			files[i].Live, files[i].LiveBytes = files[i].Live+1, files[i].LiveBytes+uint64(b.Size)
		}
	}
}

// result returns the census in order.
func (t *census) result() Census {
	c := Census{Files: t.files}
	for id, e := range t.entities {
		e.ID = id
		c.Entities = append(c.Entities, *e)
	}
	slices.SortFunc(c.Entities, func(a, b EntityCount) int { return cmp.Compare(a.ID, b.ID) })
	for kind, k := range t.kinds {
		k.Kind = kind
		c.Kinds = append(c.Kinds, *k)
	}
	slices.SortFunc(c.Kinds, func(a, b KindCount) int { return cmp.Compare(a.Kind, b.Kind) })
	return c
}
