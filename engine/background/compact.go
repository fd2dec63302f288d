package background

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Compaction of bodies (docs/decisions/0050): which sealed files are written again without the
// bodies that nobody needs.

// KeepRules is what is kept although no state needs it: what history is for. Its zero value keeps
// nothing.
type KeepRules struct {
	File func(*log.Summary) int64 // about how many bytes of bodies of a sealed file; nil: none
	Body func(*log.Body) bool     // nil: none
}

func (k *KeepRules) file(s *log.Summary) int64 {
	if k.File == nil {
		return 0
	}
	return k.File(s)
}

func (k *KeepRules) body(b *log.Body) bool { return k.Body != nil && k.Body(b) }

// compaction is one round in a partition.
type compaction struct {
	log    log.Partition
	memory log.Memory
	state  stateReader
	keep   KeepRules
	rest   func(context.Context, time.Time) error // waits until a time
}

// stateReader gives look a state of the partition that is durable, and the bodies that are still
// being read.
type stateReader func(ctx context.Context, look func(s *index.Snapshot, read []event.Blob) error) error

// compaction returns a round in a partition that serves.
func (k *Retention) compaction(id engine.PartitionID, keep KeepRules) (*compaction, error) {
	p := k.of.Logs()[id]
	if p == nil {
		return nil, loop.NotServing()
	}
	state := func(ctx context.Context, look func(*index.Snapshot, []event.Blob) error) error {
		return k.of.State(ctx, id, look)
	}
	return &compaction{log: p, memory: k.of.Memory(), state: state, keep: keep, rest: k.Rest}, nil
}

// DropBodies gives back the space of bodies of a partition that neither its state nor keep asks
// for, oldest file first. An error that is not about one file ends it.
func (k *Retention) DropBodies(ctx context.Context, id engine.PartitionID, keep KeepRules) (out CompactionResult, err error) {
	c, err := k.compaction(id, keep)
	if err != nil {
		return out, err
	}
	return c.run(ctx)
}

// restUntil waits until a time.
func restUntil(ctx context.Context, until time.Time) error {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CompactionResult is what a round has done, and why it has not done more.
type CompactionResult struct {
	Files  int      // that were written again
	Freed  int64    // bytes of the disk
	Needed int64    // bytes of bodies of the files that were looked at which the state needs, about
	Kept   int64    // and which are kept all the same
	Little []string // files of which less can go than it seemed
	Held   error    // why a file was left although it was worth it, the last of them; nil: none was
}

// worth is which part of a file's bytes has to go for it to be written again: one half.
const worth = 2

// run carries out the whole round.
func (c *compaction) run(ctx context.Context) (out CompactionResult, err error) {
	r, err := c.begin(ctx)
	if r == nil {
		return out, err
	}
	defer r.end()
	if err != nil || !r.anyChosen() {
		return r.out, err
	}
	if err := c.rest(ctx, r.live.after); err != nil {
		return r.out, err
	}
	err = r.drop(ctx)
	return r.out, err
}

// round is a compaction that knows what is needed.
type round struct {
	*compaction
	to    log.Compactor
	sums  []log.Summary
	live  *liveBodies
	shows index.Removals // that the state has seen
	out   CompactionResult
}

// begin finds out what is needed of files that may have something else; nil: nothing can be dropped
// from this log.
func (c *compaction) begin(ctx context.Context) (*round, error) {
	to, ok := c.log.(log.Compactor)
	if !ok {
		return nil, nil
	}
	r := &round{compaction: c, to: to, live: &liveBodies{}}
	var err error
	if r.sums, err = c.candidates(ctx, c.log, &r.out); err != nil || len(r.sums) == 0 {
		return r, err
	}
	files := make([]log.SegmentInfo, len(r.sums))
	for i := range r.sums {
		files[i] = r.sums[i].SegmentInfo
	}
	next := 0
	state := func(ctx context.Context, look func(*index.Snapshot, []event.Blob) error) error {
		return c.state(ctx, func(s *index.Snapshot, read []event.Blob) error {
			r.shows = s.Removals()
			return look(s, read)
		})
	}
	r.live, err = liveBodiesOf(ctx, c.memory, state, files, func(f *liveFile) bool {
		s := &r.sums[next]
		next++
		r.out.Needed += f.bytes
		return c.worth(s, f.bytes+c.keep.file(s))
	})
	return r, err
}

// end gives back the memory for what is needed.
func (r *round) end() { r.live.memory.Give() }

// anyChosen reports whether any file may be written again.
func (r *round) anyChosen() bool {
	return slices.ContainsFunc(r.live.files, func(f liveFile) bool { return f.known })
}

// drop writes again those files for which it is worth it.
func (r *round) drop(ctx context.Context) error {
	for i := range r.sums {
		f, s := &r.live.files[i], &r.sums[i]
		if !f.known {
			continue
		}
		least := s.Stored / worth
		if f.bytes == 0 && r.keep.file(s) == 0 { // the last time that the file is written
			least = 1
		}
		if err := r.dropOne(ctx, f, least); err != nil {
			return err
		}
	}
	return nil
}

// candidates are the sealed files that have bodies which history does not ask to be kept.
func (c *compaction) candidates(ctx context.Context, plog log.Partition, out *CompactionResult) (list []log.Summary, err error) {
	for s, err := range plog.Summaries(ctx) {
		if err != nil {
			return nil, err
		}
		if !s.Sealed {
			break // and so are all behind it
		}
		if kept := c.keep.file(&s); c.worth(&s, kept) {
			list = append(list, s)
		} else {
			out.Kept += kept
		}
	}
	return list, nil
}

// worth reports whether that many bytes of bodies may be few enough for a file to be written again.
func (c *compaction) worth(s *log.Summary, bytes int64) bool {
	there := int64(s.BodyBytes - s.ErasedBytes)
	return there > 0 && there-bytes > there/(2*worth)
}

// dropOne writes one file again. What is wrong with it leaves the others as they are.
func (r *round) dropOne(ctx context.Context, f *liveFile, least int64) error {
	freed, err := r.to.DropBodies(ctx, f.File, func(b *log.Body) bool { return f.has(b.Blob) || r.keep.body(b) }, least)
	out := &r.out
	var damage *log.CorruptError
	switch {
	case err == nil:
		out.Files, out.Freed = out.Files+1, out.Freed+freed
	case errors.Is(err, log.ErrTooLittle):
		out.Little = append(out.Little, f.File)
	case errors.Is(err, fs.ErrNotExist): // it was removed, or written again, by others
	case errors.Is(err, log.ErrHeld), errors.As(err, &damage):
		out.Held = err
	default:
		return err
	}
	return nil
}
