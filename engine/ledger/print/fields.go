package print

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Events prints events of one log. It belongs to one goroutine.
type Events struct {
	// ReadBlob reads bodies to print; nil: none are printed.
	ReadBlob func(b event.Blob, dst []byte) ([]byte, error)
	// Origins names the origins of events; nil: no names are printed.
	Origins *Origins
	body    []byte
	known   map[reflect.Type]*shape
	kinds   [1 << 8]*kind // by kind of event
	times   times
	words   []byte // of the value that is being printed; its memory is reused
	json    jsonSink
	place   place
}

// kind holds what is known of a kind of event.
type kind struct {
	*shape
	name *quotedText
}

// place is the place of the entry printed last.
type place struct {
	partition event.PartitionID
	lsn       event.LSN
	at        event.Time
	json      []byte // the beginning of its object; empty: nothing was printed yet
}

// Entry is an event and its place in a log.
type Entry struct {
	Partition event.PartitionID
	LSN       event.LSN  // of its frame
	At        event.Time // of its record
	Event     event.Event
}

// EntryHead is the number of fields of an entry before those of its event.
const EntryHead = 5

var (
	headKeys = [EntryHead]key{newKey("Partition"), newKey("LSN"), newKey("Time"), newKey("Entity"), newKey("Event")}
	byKey    = newKey("By")
)

// Fields returns the fields of an entry, without those of the event that are zero. An error is that
// of ReadBlob, or of a field of an unknown type.
func (d *Events) Fields(e *Entry) (Object, error) {
	to := objectSink{list: make(Object, 0, 2*EntryHead)}
	d.where(&to, e)
	if err := d.event(&to, e.Event); err != nil {
		return nil, err
	}
	return to.list, nil
}

// AppendJSON appends the result of [Events.Fields] as one object in ASCII, as [Object.AppendJSON]
// does, but without making it first.
func (d *Events) AppendJSON(dst []byte, e *Entry) ([]byte, error) {
	to := &d.json
	// a record has many events, and so has a frame
	if p := &d.place; len(p.json) == 0 || p.partition != e.Partition || p.lsn != e.LSN || p.at != e.At {
		to.dst = append(p.json[:0], '{')
		d.where(to, e)
		*p = place{e.Partition, e.LSN, e.At, to.dst}
	}
	to.dst = append(dst, d.place.json...)
	err := d.event(to, e.Event)
	dst, to.dst = append(to.dst, '}'), nil
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// where passes the fields for the place of an entry to a sink.
func (d *Events) where(to sink, e *Entry) {
	to.number(&headKeys[0], uint64(e.Partition))
	to.number(&headKeys[1], uint64(e.LSN))
	to.text(&headKeys[2], d.time(e.At))
}

// event passes the fields of an event to a sink.
func (d *Events) event(to sink, ev event.Event) error {
	of, c := d.kinds[ev.Kind()], ev.Common()
	if of == nil {
		of = &kind{d.shape(reflect.TypeOf(ev).Elem()), newQuotedText(ev.Kind().String())}
		d.kinds[ev.Kind()] = of
	}
	d.words = c.Slice.Append(d.words[:0])
	to.text(&headKeys[3], d.words)
	to.quoted(&headKeys[4], of.name)
	if err := d.put(to, of.shape, reflect.ValueOf(ev).Elem()); err != nil {
		return err
	}
	if c.Origin != 0 && d.Origins != nil {
		to.quoted(&byKey, d.Origins.name(c.Origin))
	}
	return nil
}

// time returns a time in words, which are valid until the next value is printed.
func (d *Events) time(t event.Time) []byte {
	d.words = d.times.append(d.words[:0], t)
	return d.words
}

// fields returns the fields of a struct in an event that are not zero.
func (d *Events) fields(v reflect.Value) (Object, error) {
	to := objectSink{list: Object{}}
	if err := d.put(&to, d.shape(v.Type()), v); err != nil {
		return nil, err
	}
	return to.list, nil
}

func (d *Events) blob(to sink, m *member, b *event.Blob) error {
	to.number(&m.blob.size, uint64(b.Size))
	to.number(&m.blob.position, uint64(b.Position))
	if d.ReadBlob == nil {
		return nil
	}
	var err error
	d.body, err = d.ReadBlob(*b, d.body[:0])
	if errors.Is(err, event.ErrErased) {
		to.flag(&m.blob.erased, true)
		return nil
	}
	if err != nil {
		return err
	}
	if m.name == "Changes" {
		if c, err := event.ReadChanges(d.body); err == nil {
			return d.general(to, m, reflect.ValueOf(c))
		}
	}
	to.text(&m.key, d.body) // of changes: those of format 1, or damaged ones
	return nil
}

// general passes a value of any type to a sink.
func (d *Events) general(to sink, m *member, v reflect.Value) error {
	shown, err := d.value(v)
	if err != nil {
		return err
	}
	return to.value(&m.key, shown)
}

// before passes the values before an event to a sink, for the audit: of a deleted entity all of
// them, of a changed one those that are different now. An event of version 1 does not know the
// values before.
func (d *Events) before(to sink, m *member, old, ev reflect.Value) error {
	var now reflect.Value
	for _, name := range []string{"Properties", "Rule"} {
		if f := ev.FieldByName(name); f.IsValid() {
			now = f
		}
	}
	var was Object
	var err error
	if now.IsValid() {
		was, err = d.different(nil, old, now)
	} else {
		was, err = d.fields(old)
	}
	if err != nil || len(was) == 0 {
		return err
	}
	return to.value(&m.key, was)
}

// different appends the fields of a struct that differ from now, zero or not.
func (d *Events) different(list Object, old, now reflect.Value) (Object, error) {
	for i := range old.NumField() {
		a, b := old.Field(i), now.Field(i)
		if reflect.DeepEqual(a.Interface(), b.Interface()) || a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
			continue
		}
		var shown any
		var err error
		if a.Kind() == reflect.Struct {
			shown, err = d.different(nil, a, b)
		} else {
			shown, err = d.value(a)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Named(old.Type().Field(i).Name, shown))
	}
	return list, nil
}

// value returns a field as it is printed. The types of event structs are few and known; another
// type is an error, so that no unforeseen value is printed.
func (d *Events) value(v reflect.Value) (any, error) {
	switch x := v.Interface().(type) {
	case time.Duration:
		return lasting(x), nil
	case fmt.Stringer: // among them a secret, which prints as ***
		return x.String(), nil
	case []event.Returned:
		return returnedMessages(x), nil
	case []event.SequenceNumber, []event.TransferNumber:
		return x, nil
	case event.Property:
		return Object{String("Name", Text([]byte(x.Name))), String("Type", typeName(x.Value.Type)), String("Value", simple(x.Value))}, nil
	case event.Condition:
		return Object{String("Field", x.Field.String()), String("Text", Text([]byte(x.Text)))}, nil
	}
	if formOf(v.Type(), "") == number {
		return v.Uint(), nil
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		return Text([]byte(v.String())), nil
	case reflect.Struct:
		return d.fields(v)
	case reflect.Pointer: // rare fields of events
		return d.value(v.Elem())
	case reflect.Slice:
		all := make(array, v.Len())
		for i := range all {
			var err error
			if all[i], err = d.value(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("no way to print a %v", v.Type())
}

// numbers returns bytes that each represent a number.
func numbers(x []byte) array {
	all := make(array, len(x))
	for i, n := range x {
		all[i] = uint64(n)
	}
	return all
}

var typeNames = [...]string{"null", "bool", "int", "long", "double", "decimal", "string", "uuid", "time", "span"}

func typeName(t event.ValueType) string {
	switch {
	case int(t) < len(typeNames):
		return typeNames[t]
	case t == event.Encoded:
		return "encoded"
	}
	return "unknown"
}

// simple returns a value of a rule or of property changes in words: numbers of 64 bits would lose
// digits in JSON.
func simple(v event.Value) string {
	switch v.Type {
	case event.Null:
		return "null"
	case event.Bool:
		return strconv.FormatBool(v.Bits != 0)
	case event.Int, event.Long:
		return strconv.FormatInt(int64(v.Bits), 10)
	case event.Double:
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64)
	case event.UUID:
		if len(v.Text) == 16 {
			return string(event.AppendUUID(nil, v.Text))
		}
	case event.Instant:
		return string(event.AppendInstant(nil, v))
	case event.Span:
		return span(int64(v.Bits))
	}
	return Text([]byte(v.Text))
}

// span returns ticks as days.hours:minutes:seconds; a duration cannot hold all of them.
func span(ticks int64) string {
	sign, n := "", uint64(ticks)
	if ticks < 0 {
		sign, n = "-", -n
	}
	s := n / event.TicksPerSecond
	out := fmt.Sprintf("%s%d.%02d:%02d:%02d", sign, s/86400, s/3600%24, s/60%60, s%60)
	if rest := n % event.TicksPerSecond; rest > 0 {
		out += fmt.Sprintf(".%07d", rest)
	}
	return out
}

// returnedMessages is a list of messages returned to the queue; as text it has number:delivery
// count of each.
type returnedMessages []event.Returned

func (r returnedMessages) String() string {
	words := make([]string, len(r))
	for i, m := range r {
		words[i] = fmt.Sprintf("%d:%d", m.Sequence, m.DeliveryCount)
	}
	return strings.Join(words, ",")
}

// Text returns p as a string that JSON keeps: bytes that are not UTF-8 are written out as \xnn.
func Text(p []byte) string {
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
