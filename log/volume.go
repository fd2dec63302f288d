package log

import (
	"context"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
	"github.com/ledgerbus/ledgerbus/log/sealed"
)

// Volume is the size of a part of a log, and the times of its records.
type Volume struct {
	From, To event.LSN // the frames that begin there
	// Bytes is the size of the frames without bodies, before compression. 0: it is unknown, because
	// the part is not sealed.
	Bytes uint64
	// Lowest and Highest are the times of the oldest and the newest record. If Bytes is 0, Lowest
	// is the time of the first record, 0 without one, and Highest is 0.
	Lowest, Highest event.Time
}

// Sizer knows the volumes of parts of a log. The partitions of a store are sizers.
type Sizer interface {
	// Volumes calls each with the parts of the log, in order and without overlap. Sealed parts
	// without a record between two times, both inclusive, are left out. They come from the indexes
	// of record blocks, so no record is read. Other parts are whole segments. An error of each ends
	// it and is returned.
	Volumes(ctx context.Context, from, until event.Time, each func(Volume) error) error
}

// Volumes calls each with the parts of a log, as [Sizer] does. A log that is no sizer is one part.
func Volumes(ctx context.Context, r Reader, from, until event.Time, each func(Volume) error) error {
	if s, ok := r.(Sizer); ok {
		return s.Volumes(ctx, from, until, each)
	}
	first, end := r.Bounds()
	return each(Volume{From: first, To: end})
}

// Volumes implements [Sizer].
func (p *partition) Volumes(ctx context.Context, from, until event.Time, each func(Volume) error) error {
	at, end := p.Bounds()
	for list := p.extents(at, end); len(list) > 0; {
		e := list[0]
		if e.seg.base > at {
			return fmt.Errorf("%w: partition %d: from LSN %d on", ErrGone, p.id, at)
		}
		parts, err := e.volumes(ctx, p, &Search{From: from, Until: until})
		again, err := p.retry(e.seg, err)
		if again {
			list = p.extents(at, end)
			continue
		}
		for _, v := range parts {
			if err == nil {
				err = each(v)
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		at, list = e.end, list[1:]
	}
	return p.checkUnchanged()
}

// volumes returns the parts of the segment that a search may have to read.
func (e extent) volumes(ctx context.Context, p *partition, q *Search) ([]Volume, error) {
	f, err := p.files.get(p.store.opts.FS, p.dir, e.seg)
	if err != nil {
		return nil, fmt.Errorf("log: partition %d: %w", p.id, err)
	}
	defer p.files.done(f)
	if c, ok := f.content.(*sealedContent); ok {
		list, err := c.volumes(q)
		if err != nil {
			err = p.store.filesOf(p.id).verdict(e.seg.kind.path(), e.seg.base, err)
		}
		return list, err
	}
	v := Volume{From: e.seg.base, To: e.end}
	err = p.readFrames(ctx, e, f.content, e.seg.base, func(_ *walk, _ int64, h *format.Header) error {
		if h.Count == 0 {
			return nil
		}
		v.Lowest = h.First
		return errEnough
	})
	return []Volume{v}, err
}

// volumes returns the parts of a sealed file that a search may have to read. A part has the block
// in which a frame begins, and the next ones if the frame fills them.
func (c *sealedContent) volumes(q *Search) (list []Volume, err error) {
	foot := &c.sealed.Footer
	if foot.Alone || !q.overlaps(foot.Lowest, foot.Highest) {
		return nil, nil
	}
	blocks, err := c.part(sealed.Records)
	if err != nil {
		return nil, err
	}
	var v Volume
	add := func(to event.LSN) {
		if v.To = to; v.Highest > 0 && q.overlaps(v.Lowest, v.Highest) {
			list = append(list, v)
		}
	}
	for i := range blocks {
		b := &blocks[i]
		if b.Frame != 0 {
			add(b.Frame)
			v = Volume{From: b.Frame, Lowest: b.Lowest, Highest: b.Highest}
		}
		v.Bytes += uint64(b.Raw)
	}
	add(foot.End)
	return list, nil
}
