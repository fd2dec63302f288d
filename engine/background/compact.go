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

// Compaction of bodies (docs/decisions/0050): rewrites sealed files without the bodies that are not
// needed.

// KeepRules say what history keeps although no state needs it. The zero value keeps nothing.
type KeepRules struct {
	File func(*log.Summary) int64 // about how many bytes of a file's bodies; nil: none
	Body func(*log.Body) bool     // whether to keep a body; nil: none
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

// stateReader calls look with a durable state of the partition, and with the bodies that are still
// being read.
type stateReader func(ctx context.Context, look func(s *index.Snapshot, read []event.Blob) error) error

// compaction returns a round for a partition that serves.
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

// DropBodies deletes the bodies of a partition that neither its state nor keep needs, oldest file
// first. An error that does not concern a single file ends it.
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

// CompactionResult says what a round did, and why it did not do more.
type CompactionResult struct {
	Files  int      // rewritten files
	Freed  int64    // bytes freed on the disk
	Needed int64    // bytes of bodies that the state needs, in the files that were examined, about
	Kept   int64    // bytes of bodies that history keeps besides
	Little []string // files in which less could be deleted than estimated
	Held   error    // why the last skipped file was not rewritten; nil: none was skipped
}

// worth is the part of a file's bytes that has to be deleted to make a rewrite worth it: one half.
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

// round is a compaction that knows which bodies are needed.
type round struct {
	*compaction
	to    log.Compactor
	sums  []log.Summary
	live  *liveBodies
	shows index.Removals // removals that the state has seen
	out   CompactionResult
}

// begin finds out which bodies are needed of files that may have others; nil: no bodies can be
// dropped from this log.
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

// end frees the memory of the round.
func (r *round) end() { r.live.memory.Give() }

// anyChosen reports whether any file may be rewritten.
func (r *round) anyChosen() bool {
	return slices.ContainsFunc(r.live.files, func(f liveFile) bool { return f.known })
}

// drop rewrites the files that are worth it.
func (r *round) drop(ctx context.Context) error {
	for i := range r.sums {
		f, s := &r.live.files[i], &r.sums[i]
		if !f.known {
			continue
		}
		least := s.Stored / worth
		if f.bytes == 0 && r.keep.file(s) == 0 { // the last rewrite of the file
			least = 1
		}
		if err := r.dropOne(ctx, f, least); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the sealed files with bodies that history does not keep.
func (c *compaction) candidates(ctx context.Context, plog log.Partition, out *CompactionResult) (list []log.Summary, err error) {
	for s, err := range plog.Summaries(ctx) {
		if err != nil {
			return nil, err
		}
		if !s.Sealed {
			break // all later segments are unsealed as well
		}
		if kept := c.keep.file(&s); c.worth(&s, kept) {
			list = append(list, s)
		} else {
			out.Kept += kept
		}
	}
	return list, nil
}

// worth reports whether a file may be worth a rewrite that keeps that many bytes of bodies.
func (c *compaction) worth(s *log.Summary, bytes int64) bool {
	there := int64(s.BodyBytes - s.ErasedBytes)
	return there > 0 && there-bytes > there/(2*worth)
}

// dropOne rewrites one file. A fault in the file does not affect the others.
func (r *round) dropOne(ctx context.Context, f *liveFile, least int64) error {
	freed, err := r.to.DropBodies(ctx, f.File, func(b *log.Body) bool { return f.has(b.Blob) || r.keep.body(b) }, least)
	out := &r.out
	var damage *log.CorruptError
	switch {
	case err == nil:
		out.Files, out.Freed = out.Files+1, out.Freed+freed
	case errors.Is(err, log.ErrTooLittle):
		out.Little = append(out.Little, f.File)
	case errors.Is(err, fs.ErrNotExist): // another job removed or rewrote it
	case errors.Is(err, log.ErrHeld), errors.As(err, &damage):
		out.Held = err
	default:
		return err
	}
	return nil
}
