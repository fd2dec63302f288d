package tools

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxOrigins is how many origins Dump remembers. Of older ones it prints the number only.
const maxOrigins = 1 << 16

// DumpOptions say what to print.
type DumpOptions struct {
	Partition int       // which one; -1: all, one after the other
	From      event.LSN // first frame to print; 0: the first there is
	JSON      bool      // one object per line instead of text
	Bodies    bool      // print message bodies too
}

// Dump prints every event of the directory: place, time, entity, event, fields and who asked. Control characters are
// escaped. A refused partition is an error, a *log.CorruptError, after what could be printed of the others.
func Dump(w io.Writer, dir string, opts DumpOptions) error {
	ctx := context.Background()
	s, err := log.Open(ctx, dir, log.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	out := bufio.NewWriter(w)
	var errs []error
	for _, id := range s.Partitions() {
		if opts.Partition >= 0 && int(id) != opts.Partition {
			continue
		}
		p, err := s.Open(ctx, id)
		if err == nil {
			d := dumper{out: out, opts: opts, part: p, origins: make(map[event.OriginID]event.Origin)}
			err = d.run(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tools: %w", err))
		}
	}
	if opts.Partition >= len(s.Partitions()) {
		errs = append(errs, fmt.Errorf("tools: no partition %d in %s", opts.Partition, filepath.Base(dir)))
	}
	errs = append(errs, out.Flush(), s.Close())
	return errors.Join(errs...)
}

type dumper struct {
	out     *bufio.Writer
	opts    DumpOptions
	part    log.Partition
	decoder event.Decoder
	body    []byte

	origins map[event.OriginID]event.Origin
	order   []event.OriginID // of the origins, oldest first
}

func (d *dumper) run(ctx context.Context) error {
	for f, err := range d.part.Read(ctx, 0) { // from the start: origins are defined before From
		if err != nil {
			return err
		}
		if f.Kind != log.Events {
			continue
		}
		for rest := f.Records; len(rest) > 0; {
			var rec event.Record
			if rec, rest, err = d.decoder.Record(f.Base, f.Bodies, rest); err != nil {
				return fmt.Errorf("frame %d: %w", f.LSN, err)
			}
			for _, ev := range rec.Events {
				if o, ok := ev.(*event.OriginDefined); ok {
					d.define(o)
				}
				if f.LSN < d.opts.From {
					continue
				}
				if err := d.event(f.LSN, rec.At, ev); err != nil {
					return err
				}
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

// field is a named value of an event. Values are string, bool, integers, or []int.
type field struct {
	Name  string
	Value any
}

func (d *dumper) event(at event.LSN, t event.Time, ev event.Event) error {
	c := ev.Common()
	list := []field{
		{"Partition", uint64(d.part.ID())}, {"LSN", uint64(at)}, {"Time", t.String()}, {"Entity", c.Slice.String()},
		{"Event", ev.Kind().String()},
	}
	head := len(list)
	list, err := d.fields(list, "", reflect.ValueOf(ev).Elem())
	if err != nil {
		return err
	}
	if by := d.origin(c.Origin); by != "" {
		list = append(list, field{"By", by})
	}
	if d.opts.JSON {
		return d.json(list)
	}
	for i, f := range list {
		switch v := f.Value.(type) {
		case string:
			if i >= head {
				v = strconv.QuoteToASCII(v)
			}
			f.Value = v
		}
		if i < head {
			fmt.Fprintf(d.out, "%v ", f.Value)
		} else {
			fmt.Fprintf(d.out, " %s=%v", f.Name, f.Value)
		}
	}
	return d.out.WriteByte('\n')
}

// origin names who asked for an event.
func (d *dumper) origin(id event.OriginID) string {
	if id == 0 {
		return ""
	}
	o, ok := d.origins[id]
	if !ok {
		return fmt.Sprintf("origin %d", id)
	}
	var words []string
	for _, s := range []string{o.Principal, o.RemoteAddress, o.ContainerID, o.Product, o.Link} {
		if s != "" {
			words = append(words, s)
		}
	}
	return fmt.Sprintf("origin %d: %s", id, strings.Join(words, " "))
}

// fields appends the fields of an event that are not zero. The types of event structs are few and known.
func (d *dumper) fields(list []field, prefix string, v reflect.Value) ([]field, error) {
	for i := range v.NumField() {
		name, value := v.Type().Field(i).Name, v.Field(i)
		if value.IsZero() || name == "Envelope" {
			continue
		}
		name = prefix + name
		switch x := value.Interface().(type) {
		case event.Blob:
			list = append(list, field{name + "Size", uint64(x.Size)}, field{name + "Position", uint64(x.Position)})
			if d.opts.Bodies {
				var err error
				if d.body, err = d.part.ReadBlob(x, d.body[:0]); err != nil {
					return nil, err
				}
				list = append(list, field{name, text(d.body)})
			}
		case event.SequenceNumber:
			list = append(list, field{name, uint64(x)})
		case time.Duration:
			if x == event.Forever {
				list = append(list, field{name, "forever"})
			} else {
				list = append(list, field{name, x.String()})
			}
		case fmt.Stringer:
			list = append(list, field{name, x.String()})
		case []event.Returned:
			list = append(list, field{name, returned(x)})
		case []byte:
			if len(x) == 0 && !meansSomething(name, v) {
				continue
			}
			if name == "Hosts" {
				hosts := make([]int, len(x))
				for i, h := range x {
					hosts[i] = int(h)
				}
				list = append(list, field{name, hosts})
			} else {
				list = append(list, field{name, text(x)})
			}
		case string:
			list = append(list, field{name, text([]byte(x))})
		default:
			if value.Kind() == reflect.Struct {
				var err error
				if list, err = d.fields(list, "", value); err != nil {
					return nil, err
				}
				continue
			}
			list = append(list, field{name, x})
		}
	}
	return list, nil
}

// returned is a list of messages given back: in text number:delivery count of each.
type returned []event.Returned

func (r returned) String() string {
	words := make([]string, len(r))
	for i, m := range r {
		words[i] = fmt.Sprintf("%d:%d", m.Sequence, m.DeliveryCount)
	}
	return strings.Join(words, ",")
}

// meansSomething tells whether bytes that are empty are a value all the same: "" is a session, unless the event says that
// there is none.
func meansSomething(name string, v reflect.Value) bool {
	if name != "SessionID" {
		return false
	}
	has := v.FieldByName("HasSession")
	return !has.IsValid() || has.Bool()
}

// text is p as a string that JSON keeps: bytes that are not UTF-8 are written out as \xnn.
func text(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, p[0])
		} else {
			b.WriteRune(r)
		}
		p = p[n:]
	}
	return b.String()
}

// json writes the fields as one object in ASCII: terminals act on more than the control characters JSON escapes.
func (d *dumper) json(list []field) error {
	line := []byte{'{'}
	for i, f := range list {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(strconv.AppendQuote(line, f.Name), ':')
		value, err := json.Marshal(f.Value)
		if err != nil {
			return err
		}
		for _, r := range string(value) {
			switch {
			case r < 0x7f:
				line = append(line, byte(r))
			case r < 0x10000:
				line = fmt.Appendf(line, `\u%04x`, r)
			default:
				r -= 0x10000
				line = fmt.Appendf(line, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			}
		}
	}
	_, err := d.out.Write(append(line, '}', '\n'))
	return err
}
