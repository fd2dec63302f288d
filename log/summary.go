package log

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// Summary describes a segment, as far as that is possible without reading its bodies.
type Summary struct {
	SegmentInfo
	Sealed bool // it is a sealed file; otherwise it is a file as it was first written
	// it is kept only for its bodies: its events are before the start of the log
	Cold            bool
	Stored          int64 // size on the disk, bytes
	Frames, Records uint64
	Events          uint64
	Lowest, Highest event.Time // of its records; 0 without one
	BodyBytes       uint64
	ErasedBytes     uint64 // bytes of BodyBytes that are no longer kept
	sealed.Contents
}

// Summaries implements [Partition].
func (p *partition) Summaries(ctx context.Context) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		_, end := p.Bounds()
		at := event.LSN(0)
		rest := func() []extent {
			list := p.extents(at, end)
			// there is no frame, only a segment for the first one
			if s, to := p.locate(end); at == 0 && len(list) == 0 && s != nil {
				list = []extent{{s, min(to, end)}}
			}
			return list
		}
		for list := rest(); len(list) > 0; {
			e := list[0]
			first, _ := p.Bounds()
			if at >= first && at > 0 && e.seg.base > at {
				break
			}
			sum, err := p.summary(ctx, e)
			sum.Cold = e.end <= first
			again, err := p.retry(e.seg, err)
			if again {
				list = rest()
				continue
			}
			if err == nil {
				err = ctx.Err()
			}
			if !yield(sum, err) || err != nil {
				return
			}
			at, list = e.end, list[1:]
		}
		err := p.checkUnchanged()
		if at > 0 && at < end { // with at 0 the log has no segment yet
			err = fmt.Errorf("%w: partition %d: address %d is in no segment", ErrInternal, p.id, at)
		}
		if err != nil {
			yield(Summary{}, err)
		}
	}
}

// summary returns the summary of a segment. For a sealed file it is read from the footer and the
// contents.
func (p *partition) summary(ctx context.Context, e extent) (Summary, error) {
	sum := Summary{SegmentInfo: e.seg.info(p.id, e.end)}
	k, ok := e.seg.kind.(*sealedKind)
	if !ok {
		err := p.countFrames(ctx, &sum, e)
		return sum, err
	}
	file, f, err := k.file(openerOf(p.store.opts.FS, p.dir))
	if err == nil {
		sum.Contents, err = f.Contents()
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return sum, p.store.filesOf(p.id).verdict(k.path(), k.named.First, err)
	}
	foot := &f.Footer
	sum.Sealed, sum.Stored = true, k.named.Size
	sum.Frames, sum.Records, sum.Events, sum.Lowest, sum.Highest = foot.Frames, foot.Records, foot.Events, foot.Lowest, foot.Highest
	sum.BodyBytes, sum.ErasedBytes, sum.Erased = foot.BodyBytes, foot.ErasedBytes, foot.ErasedFrames
	return sum, nil
}

// countFrames completes the summary of a segment that is not sealed by reading its records.
func (p *partition) countFrames(ctx context.Context, sum *Summary, e extent) error {
	f, err := p.files.get(p.store.opts.FS, p.dir, e.seg)
	if err != nil {
		return fmt.Errorf("log: partition %d: %w", p.id, err)
	}
	defer p.files.done(f)
	t := sealed.NewTally(false)
	err = p.readFrames(ctx, e, f.content, e.seg.base, func(w *walk, off int64, h *format.Header) error {
		f, err := w.frame(off, h)
		if err != nil {
			return err
		}
		sum.Frames++
		sum.BodyBytes += uint64(h.Bodies)
		if f.Kind == Events {
			_, _, err = t.Frame(f.Base, f.Bodies, f.Count, f.Records, 0)
		}
		if err != nil {
			return w.files.corruptBy(w.file, off, f.LSN, "records", err)
		}
		return nil
	})
	sum.Stored = int64(e.end - e.seg.base)
	sum.Records, sum.Events, sum.Lowest, sum.Highest, sum.Contents = t.Records, t.Events, t.Lowest, t.Highest, t.Contents()
	return err
}
