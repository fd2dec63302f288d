package host

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
)

// Compaction of bodies (docs/decisions/0050): which sealed files are written again without the bodies that nobody needs.

// keeps is what is kept although no state needs it: what history is for.
type keeps struct {
	file func(*log.Summary) int64 // about how many bytes of bodies of a sealed file
	body func(*log.Body) bool
}

// nothing is kept of what no state needs.
var nothing = keeps{file: func(*log.Summary) int64 { return 0 }, body: func(*log.Body) bool { return false }}

// compaction is one round in a partition.
type compaction struct {
	ps   *partitions
	id   engine.PartitionID
	keep keeps
	rest func(context.Context, time.Time) error // waits until a time
}

// compacted is what a round has done, and why it has not done more.
type compacted struct {
	Files  int   // that were written again
	Freed  int64 // bytes of the disk
	Needed int64 // bytes of bodies of the files that were looked at which the state needs, about
	Kept   int64 // and which are kept all the same
	Held   error // why a file was left although it was worth it, the last of them; nil: none was
}

// worth is which part of a file's bytes has to go for it to be written again: one half.
const worth = 2

// run gives back the space of bodies, oldest file first. An error that is not about one file ends it.
func (c *compaction) run(ctx context.Context) (out compacted, err error) {
	t := c.ps.slots[c.id].serves.Load()
	if t == nil {
		return out, notServing()
	}
	compactor, ok := t.log.(log.Compactor)
	if !ok {
		return out, nil
	}
	sums, err := c.candidates(ctx, t.log, &out)
	if err != nil || len(sums) == 0 {
		return out, err
	}
	files := make([]log.SegmentInfo, len(sums))
	for i := range sums {
		files[i] = sums[i].SegmentInfo
	}
	next := 0
	n, err := c.ps.needsOf(ctx, c.id, files, func(f *needed) bool {
		s := &sums[next]
		next++
		out.Needed += f.bytes
		return c.worth(s, f.bytes+c.keep.file(s))
	})
	if err == nil {
		err = c.rest(ctx, n.after)
	}
	for i := 0; err == nil && i < len(sums); i++ {
		if f := &n.files[i]; f.known {
			err = c.drop(ctx, compactor, f, sums[i].Stored/worth, &out)
		}
	}
	return out, err
}

// candidates are the sealed files that have bodies which history does not ask to be kept.
func (c *compaction) candidates(ctx context.Context, plog log.Partition, out *compacted) (list []log.Summary, err error) {
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

// worth reports whether so many bytes of bodies may be few enough for a file to be written again.
func (c *compaction) worth(s *log.Summary, bytes int64) bool {
	there := int64(s.BodyBytes - s.ErasedBytes)
	return there > 0 && there-bytes > there/(2*worth)
}

// drop writes one file again. What is wrong with it leaves the others as they are.
func (c *compaction) drop(ctx context.Context, to log.Compactor, f *needed, least int64, out *compacted) error {
	freed, err := to.DropBodies(ctx, f.File, func(b *log.Body) bool { return f.has(b.Blob) || c.keep.body(b) }, least)
	var damage *log.CorruptError
	switch {
	case err == nil:
		out.Files, out.Freed = out.Files+1, out.Freed+freed
	case errors.Is(err, log.ErrTooLittle), errors.Is(err, fs.ErrNotExist): // it was removed, or written again, by others
	case errors.Is(err, log.ErrHeld), errors.As(err, &damage):
		out.Held = err
	default:
		return err
	}
	return nil
}
