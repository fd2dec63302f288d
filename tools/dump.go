package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// ErrNoPartition reports that the directory has no partition with the requested number.
var ErrNoPartition = errors.New("no such partition")

// DumpOptions select the output of Dump.
type DumpOptions struct {
	Partition int       // -1: all partitions, one after the other
	From      event.LSN // first frame to print; 0: the first there is
	JSON      bool      // one object per line instead of text
	// print message bodies, and which of them are erased
	Bodies bool
	// Range selects the events to print; nil: all. The indexes of sealed files find the events of a
	// message or an entity.
	Range  *ledger.Range
	Beside // options for a directory that a broker may be using
}

// Dump prints every event of the directory: place, time, entity, event, fields and origin. It
// escapes control characters. A refused partition is an error, a *log.CorruptError, after the
// output of the other partitions. A record that cannot be decoded is an error after the records
// before it. An unknown partition number is ErrNoPartition.
func Dump(w io.Writer, dir string, opts DumpOptions) error {
	ctx := context.Background()
	s, err := opts.open(ctx, dir, false)
	if err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	if n := len(s.Partitions()); opts.Partition < -1 || opts.Partition >= n {
		return errors.Join(fmt.Errorf("tools: %w: %s has 0 to %d, not %d", ErrNoPartition, filepath.Base(dir), n-1, opts.Partition), s.Close())
	}
	out := bufio.NewWriter(w)
	if opts.Range != nil {
		err := dumpRange(ctx, out, s, opts)
		return errors.Join(err, out.Flush(), s.Close())
	}
	var errs []error
	for _, id := range s.Partitions() {
		if opts.Partition >= 0 && int(id) != opts.Partition {
			continue
		}
		p, err := s.Open(ctx, id)
		if err == nil {
			opts.tell(p)
			err = newDumper(out, opts, p).run(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tools: %w", err))
		}
	}
	errs = append(errs, out.Flush(), s.Close())
	return errors.Join(errs...)
}

// dumpRange prints the events of a range.
func dumpRange(ctx context.Context, out *bufio.Writer, src log.Store, opts DumpOptions) error {
	l := ledger.New(src, func(line ledger.Line) error {
		if opts.Notes != nil {
			fmt.Fprintln(opts.Notes, line.Text)
		}
		return nil
	})
	sel, err := l.Select(ctx, *opts.Range)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range sel.Partitions() {
		if opts.Partition >= 0 && int(id) != opts.Partition {
			continue
		}
		p, err := src.Open(ctx, id)
		if err != nil {
			return fmt.Errorf("tools: %w", err)
		}
		opts.tell(p)
		if err := newDumper(out, opts, p).dumpSelection(ctx, sel); err != nil {
			return err
		}
	}
	missing := sel.Missing()
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		if opts.Partition < 0 || int(id) == opts.Partition {
			errs = append(errs, fmt.Errorf("tools: %w", missing[id]))
		}
	}
	return errors.Join(errs...)
}

// dumpSelection prints the events of a selection.
func (d *dumper) dumpSelection(ctx context.Context, sel *ledger.Selection) error {
	for rec, err := range sel.Records(ctx, d.part.ID()) {
		if err != nil {
			return damagedPlace(d.part, err)
		}
		if rec.LSN < d.opts.From {
			continue
		}
		for i, ev := range rec.Events {
			ok, err := sel.Wants(ctx, d.part.ID(), rec, i)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			who := ev.Common().Origin
			o, err := sel.Origin(ctx, d.part.ID(), who)
			if err != nil {
				return err
			}
			if o != (event.Origin{}) {
				d.origins.Define(&event.OriginDefined{ID: who, Origin: o})
			}
			if err := d.event(rec.LSN, rec.At, ev); err != nil {
				return err
			}
		}
	}
	return nil
}

type dumper struct {
	out  *bufio.Writer
	opts DumpOptions
	part log.Partition
	line []byte

	events  print.Events
	origins print.Origins
}

func newDumper(out *bufio.Writer, opts DumpOptions, p log.Partition) *dumper {
	d := &dumper{out: out, opts: opts, part: p}
	d.events.Origins = &d.origins
	if opts.Bodies {
		d.events.ReadBlob = p.ReadBlob
	}
	return d
}

func (d *dumper) run(ctx context.Context) error {
	if err := checkKept(d.part, uint64(d.opts.From)); err != nil {
		return err
	}
	// from the start, because origins are defined before From
	for rec, err := range replay.Records(ctx, d.part, 0) {
		if err != nil {
			return damagedPlace(d.part, err)
		}
		for _, ev := range rec.Events {
			if o, ok := ev.(*event.OriginDefined); ok {
				d.origins.Define(o)
			}
			if rec.LSN < d.opts.From {
				continue
			}
			if err := d.event(rec.LSN, rec.At, ev); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *dumper) event(at event.LSN, t event.Time, ev event.Event) (err error) {
	e := print.Entry{Partition: d.part.ID(), LSN: at, At: t, Event: ev}
	if d.opts.JSON {
		d.line, err = d.events.AppendJSON(d.line[:0], &e)
	} else {
		err = d.text(&e)
	}
	if err != nil {
		return err
	}
	_, err = d.out.Write(append(d.line, '\n'))
	return err
}

// text prints a line for people.
func (d *dumper) text(e *print.Entry) error {
	list, err := d.events.Fields(e)
	if err != nil {
		return err
	}
	d.line = d.line[:0]
	for _, f := range list[:print.EntryHead] {
		d.line = fmt.Appendf(d.line, "%v ", f.Value())
	}
	d.line = list[print.EntryHead:].AppendText(d.line)
	return nil
}
