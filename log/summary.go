package log

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// Summary is what a segment has, as far as that is known without its bodies.
type Summary struct {
	SegmentInfo
	Sealed          bool  // it is a sealed file, and else one that was written as the log was
	Cold            bool  // it is there for its bodies alone: its events are in front of what the log begins with
	Stored          int64 // what it takes on the disk, bytes
	Frames, Records uint64
	Events          uint64
	Lowest, Highest event.Time // of its records; 0 without one
	BodyBytes       uint64
	ErasedBytes     uint64 // of those, what is no longer kept
	sealed.Contents
}

// summaries is the part of a partition that makes them.
type summaries struct{ p *partition }

// Summaries implements [Partition].
func (r summaries) Summaries(ctx context.Context) iter.Seq2[Summary, error] {
	p := r.p
	return func(yield func(Summary, error) bool) {
		_, end := p.Bounds()
		for at := event.LSN(0); at < end; {
			s, next, first := r.following(at)
			if s == nil || at >= first && at > 0 && s.base > at {
				yield(Summary{}, fmt.Errorf("%w: partition %d: address %d is in no segment", ErrInternal, p.id, at))
				return
			}
			next = min(next, end)
			sum, err := r.summary(ctx, s, next)
			sum.Cold = next <= first
			again, err := p.again(s, err)
			if again {
				continue
			}
			if err == nil {
				err = ctx.Err()
			}
			if !yield(sum, err) || err != nil {
				return
			}
			at = next
		}
		if err := p.lasting(); err != nil {
			yield(Summary{}, err)
		}
	}
}

// following is the first segment that ends behind an address, where it ends, and where the log begins.
func (r summaries) following(at event.LSN) (s *segment, end, first event.LSN) {
	p := r.p
	p.mu.RLock()
	defer p.mu.RUnlock()
	i := sort.Search(len(p.segments), func(i int) bool { return p.segments[i].end > at })
	if i == len(p.segments) {
		return nil, 0, p.first
	}
	return p.segments[i], p.segments[i].end, p.first
}

// summary is the summary of a segment, which ends at an address.
func (r summaries) summary(ctx context.Context, s *segment, end event.LSN) (Summary, error) {
	sum := Summary{SegmentInfo: s.info(r.p.id, end)}
	if k, ok := s.kind.(*sealedKind); ok {
		return sum, r.believed(&sum, k)
	}
	return sum, r.counted(ctx, &sum, extent{s, end})
}

// believed completes the summary of a sealed file with what its footer and its contents say.
func (r summaries) believed(sum *Summary, k *sealedKind) error {
	p := r.p
	file, f, err := k.file(opens(p.store.opts.FS, p.dir))
	if err == nil {
		sum.Contents, err = f.Contents()
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		w := sealedWalk{&walk{id: p.id}}
		return w.wrap(k.path(), 0, k.named.First, w.verdict(k, err))
	}
	foot := &f.Footer
	sum.Sealed, sum.Stored = true, k.named.Size
	sum.Frames, sum.Records, sum.Events, sum.Lowest, sum.Highest = foot.Frames, foot.Records, foot.Events, foot.Lowest, foot.Highest
	sum.BodyBytes, sum.ErasedBytes, sum.Erased = foot.BodyBytes, foot.ErasedBytes, foot.ErasedFrames
	return nil
}

// counted completes the summary of another segment by reading its records.
func (r summaries) counted(ctx context.Context, sum *Summary, e extent) error {
	buf := readWindows.Get().(*[readWindow]byte)
	defer readWindows.Put(buf)
	t := sealed.NewTally(false)
	frames := frameReader{p: r.p, win: format.Window{Buf: buf[:]}, next: e.seg.base}
	var wrong error
	_, err := frames.segment(ctx, e, func(f Frame, _ error) bool {
		sum.Frames++
		sum.BodyBytes += uint64(f.Bodies[1] - f.Bodies[0])
		if f.Kind == Events {
			if _, _, err := t.Frame(f.Base, f.Bodies, f.Count, f.Records, 0); err != nil {
				wrong = frames.corrupt(e.seg, f.LSN, "records", err)
			}
		}
		return wrong == nil
	})
	sum.Stored = int64(e.end - e.seg.base)
	sum.Records, sum.Events, sum.Lowest, sum.Highest, sum.Contents = t.Records, t.Events, t.Lowest, t.Highest, t.Contents()
	return errors.Join(err, wrong)
}
