package ledger

import (
	"context"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A stripLog reads what one log has for a strip.
type stripLog struct {
	*strip
	book  *book
	bytes []uint64 // of each bucket
	marks []stripMark
	acts  int
	raw   []log.Volume // parts that are not sealed, in order
	dec   event.Decoder
}

// read reads the log. A part that is sealed meanwhile is counted once.
func (p *stripLog) read(ctx context.Context) error {
	first, end := p.book.Bounds()
	// these stretches have all parts that are not sealed
	list, err := p.book.Find(log.Search{From: p.from, Until: p.to, Kinds: acts})
	if err != nil {
		return err
	}
	if err := log.Volumes(ctx, p.book.Partition, p.from, p.to, func(v log.Volume) error { return p.count(ctx, v) }); err != nil {
		return err
	}
	for _, st := range p.without(list, p.unwanted()) {
		st.To = min(st.To, end)
		if err := p.scan(ctx, st); err != nil {
			return err
		}
	}
	return p.book.gone(first)
}

// count counts a sealed part. Others are counted by scan.
func (p *stripLog) count(ctx context.Context, v log.Volume) error {
	switch {
	case v.Bytes == 0:
		p.raw = append(p.raw, v)
	case p.has(v.Lowest) && p.has(v.Highest) && p.bucket(v.Lowest) == p.bucket(v.Highest):
		p.bytes[p.bucket(v.Lowest)] += v.Bytes
	default:
		for f, err := range p.book.Read(ctx, v.From) {
			if err != nil || f.LSN >= v.To {
				return err
			}
			p.countFrame(&f)
		}
	}
	return nil
}

// countFrame counts a frame in the bucket of its first record.
func (p *stripLog) countFrame(f *log.Frame) {
	if f.Count > 0 && p.has(f.Time) {
		p.bytes[p.bucket(f.Time)] += uint64(f.Next-f.LSN) - uint64(f.Bodies[1]-f.Bodies[0])
	}
}

// unwanted returns the parts without an index that are before or after the range. They are not
// known if a clock was set.
func (p *stripLog) unwanted() (list []log.Volume) {
	if !p.l.names.steady() {
		return nil
	}
	for i, v := range p.raw {
		before := i+1 < len(p.raw) && p.raw[i+1].From == v.To && 0 < p.raw[i+1].Lowest && p.raw[i+1].Lowest < p.from
		if v.Lowest > p.to || before {
			list = append(list, v)
		}
	}
	return list
}

// without returns stretches without some parts.
func (*stripLog) without(list []log.Stretch, parts []log.Volume) (rest []log.Stretch) {
	for _, st := range list {
		for _, v := range parts {
			if v.To <= st.From || st.To <= v.From {
				continue
			}
			if st.From < v.From {
				rest = append(rest, log.Stretch{From: st.From, To: v.From})
			}
			st.From = v.To
		}
		if st.From < st.To {
			rest = append(rest, st)
		}
	}
	return rest
}

// scan finds the changes in a stretch, and counts its frames that are not sealed.
func (p *stripLog) scan(ctx context.Context, st log.Stretch) error {
	raw, found := p.raw, uint64(0)
	for f, err := range p.book.Read(ctx, st.From) {
		if err != nil || f.LSN >= st.To {
			return err
		}
		for len(raw) > 0 && raw[0].To <= f.LSN {
			raw = raw[1:]
		}
		if len(raw) > 0 && raw[0].From <= f.LSN {
			p.countFrame(&f)
		}
		if f.Kind != log.Events {
			continue
		}
		n, err := p.findActs(ctx, &f)
		if found += n; err != nil || st.Events > 0 && found >= st.Events {
			return err
		}
	}
	return nil
}

// findActs adds the changes of a frame to the marks, and returns how many it has.
func (p *stripLog) findActs(ctx context.Context, f *log.Frame) (n uint64, err error) {
	rec, rest := replay.Record{LSN: f.LSN, Next: f.Next}, f.Records
	for range f.Count {
		rec.Number++
		if rec.Record, rest, err = p.dec.Record(f.Base, f.Bodies, rest); err != nil {
			return n, &replay.Error{Partition: p.book.ID(), LSN: f.LSN, Number: rec.Number, Reason: err}
		}
		for i, ev := range rec.Events {
			if p.book.see(ev); !slices.Contains(acts, ev.Kind()) {
				continue
			}
			if n++; !p.has(rec.At) {
				continue
			}
			m, err := p.newMark(ctx, &eventAt{p.book, &rec, i})
			if err != nil {
				return n, err
			}
			if p.acts++; len(p.marks) >= 2*rows.Max {
				p.marks = append(p.marks[:0], newest(p.marks)...)
			}
			p.marks = append(p.marks, m)
		}
	}
	return n, nil
}
