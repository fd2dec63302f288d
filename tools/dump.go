package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxOrigins is how many origins Dump remembers. Of older ones it prints the number only.
const maxOrigins = 1 << 16

// ErrNoPartition: the directory has no partition of the number that was asked for.
var ErrNoPartition = errors.New("no such partition")

// DumpOptions say what to print.
type DumpOptions struct {
	Partition int       // which one; -1: all, one after the other
	From      event.LSN // first frame to print; 0: the first there is
	JSON      bool      // one object per line instead of text
	Bodies    bool      // print message bodies too, and of those that history no longer keeps that they are erased
	Beside              // how a directory is taken that a broker may be using
}

// Dump prints every event of the directory: place, time, entity, event, fields and who asked. Control characters are
// escaped. A refused partition is an error, a *log.CorruptError, after what could be printed of the others; so is a record that cannot be
// decoded, after those before it.
// A number that no partition has is ErrNoPartition.
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
	var errs []error
	for _, id := range s.Partitions() {
		if opts.Partition >= 0 && int(id) != opts.Partition {
			continue
		}
		p, err := s.Open(ctx, id)
		if err == nil {
			opts.tell(p)
			d := dumper{out: out, opts: opts, part: p, origins: make(map[event.OriginID]event.Origin)}
			err = d.run(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tools: %w", err))
		}
	}
	errs = append(errs, out.Flush(), s.Close())
	return errors.Join(errs...)
}

type dumper struct {
	out  *bufio.Writer
	opts DumpOptions
	part log.Partition
	body []byte
	line []byte

	origins map[event.OriginID]event.Origin
	order   []event.OriginID // of the origins, oldest first
}

func (d *dumper) run(ctx context.Context) error {
	for rec, err := range replay.Records(ctx, d.part, 0) { // from the start: origins are defined before From
		if err != nil {
			return located(d.part, err)
		}
		for _, ev := range rec.Events {
			if o, ok := ev.(*event.OriginDefined); ok {
				d.define(o)
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

func (d *dumper) define(o *event.OriginDefined) {
	if _, ok := d.origins[o.ID]; !ok {
		if d.order = append(d.order, o.ID); len(d.order) > maxOrigins {
			delete(d.origins, d.order[0])
			d.order = slices.Delete(d.order, 0, 1)
		}
	}
	d.origins[o.ID] = o.Origin
}

func (d *dumper) event(at event.LSN, t event.Time, ev event.Event) error {
	c := ev.Common()
	list := object{
		{"Partition", uint64(d.part.ID())}, {"LSN", uint64(at)}, {"Time", t.String()}, {"Entity", c.Slice.String()},
		{"Event", ev.Kind().String()},
	}
	head := len(list)
	list, err := d.fields(list, reflect.ValueOf(ev).Elem())
	if err != nil {
		return err
	}
	if by := d.origin(c.Origin); by != "" {
		list = append(list, field{"By", by})
	}
	if d.opts.JSON {
		d.line, err = list.json(d.line[:0])
	} else {
		d.line = d.line[:0]
		for _, f := range list[:head] {
			d.line = fmt.Appendf(d.line, "%v ", f.Value)
		}
		d.line = list[head:].text(d.line, " ", "")
	}
	if err != nil {
		return err
	}
	_, err = d.out.Write(append(d.line, '\n'))
	return err
}

// origin names who asked for an event.
func (d *dumper) origin(id event.OriginID) string {
	if id == 0 {
		return ""
	}
	o := d.origins[id]
	var words []string
	for _, s := range []string{o.Principal, o.RemoteAddress, o.ContainerID, o.Product, o.Link} {
		if s != "" {
			words = append(words, text([]byte(s)))
		}
	}
	if len(words) == 0 {
		return fmt.Sprintf("origin %d", id)
	}
	return fmt.Sprintf("origin %d: %s", id, strings.Join(words, " "))
}
