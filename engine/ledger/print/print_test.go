package print

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// made fills in values by a seed: some of them stay zero, and texts are arbitrary texts of clients.
type made struct{ *rand.Rand }

var someTexts = []string{"", "", "a", "orders", "a \"b\" \\c", "<é\u2028😀>", "\xff\x00cut \xf0\x9f", "\x7f\x1b[1m\r\n\t", "d7267dd0-0c47-45fe-8836-0612613f34d8 and more than that"}

// number returns a small number, a large one, or one that a time can be.
func (m made) number() uint64 {
	switch m.IntN(4) {
	case 0:
		return 0
	case 1:
		return m.Uint64N(300)
	case 2:
		return m.Uint64N(uint64(event.EndOfTime))
	}
	return m.Uint64()
}

func (m made) fill(v reflect.Value, depth int) {
	if m.IntN(5) == 0 {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *event.Time:
		*x = event.Time(m.number() % uint64(event.EndOfTime+1))
		return
	case *time.Duration:
		*x = []time.Duration{event.Forever, time.Minute, 1500, time.Duration(m.Int64())}[m.IntN(4)]
		return
	case *event.Blob:
		*x = event.Blob{Position: event.Position(m.number()), Size: uint32(m.number()), Sum: m.Uint32()}
		return
	case *event.Value:
		*x = event.Value{Type: event.ValueType(m.IntN(int(event.Span) + 2)), Bits: m.number(), Text: someTexts[m.IntN(len(someTexts))]}
		if x.Type == event.Instant {
			x.Bits, x.Text = m.Uint64N(event.MaxTicks), ""
		}
		return
	case *event.Retention:
		*x = event.Retention(m.number() % (1 << 40))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(m.IntN(2) == 0)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(m.number())
		if v.Kind() == reflect.Uint8 {
			v.SetUint(m.Uint64N(14))
		}
	case reflect.String:
		v.SetString(someTexts[m.IntN(len(someTexts))])
	case reflect.Struct:
		for i := range v.NumField() {
			m.fill(v.Field(i), depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			m.fill(v.Index(i), depth)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), depth)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]byte]() {
			v.SetBytes([]byte(someTexts[m.IntN(len(someTexts))]))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), m.IntN(3), 3))
		for i := range v.Len() {
			m.fill(v.Index(i), depth+1)
		}
	default:
		panic(fmt.Sprintf("a %v", v.Type()))
	}
}

// bodies reads a body for each blob: some texts, some changes, some that are erased.
func bodies(b event.Blob, dst []byte) ([]byte, error) {
	switch b.Sum % 4 {
	case 0:
		return nil, event.ErrErased
	case 1:
		return event.Changes{{Name: "colour", Value: event.Value{Type: event.String, Text: "<blue>"}}}.Append(dst), nil
	}
	return append(dst, someTexts[int(b.Size)%len(someTexts)]...), nil
}

// unprinted are the kinds of events with a field that cannot be printed. They are in no log.
var unprinted = map[event.Kind]bool{event.KindHistoryRestored: true}

// same fails unless an entry prints the same as an object that is made first and as JSON that is
// appended at once.
func same(t *testing.T, d *Events, e *Entry) {
	t.Helper()
	list, err := d.Fields(e)
	if err != nil { // events that are only in bases have fields that are never printed
		if _, again := d.AppendJSON(nil, e); again == nil || again.Error() != err.Error() || !unprinted[e.Event.Kind()] {
			t.Fatalf("%v: %v, and %v", e.Event.Kind(), err, again)
		}
		return
	}
	want, err := list.AppendJSON([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.AppendJSON([]byte("before"), e)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("%v:\n%s\n%s; want string(got) == string(want)", e.Event.Kind(), got, want)
	}
	if !json.Valid(got[len("before"):]) {
		t.Fatalf("%v: no JSON: %s", e.Event.Kind(), got)
	}
	for i, name := range []string{"Partition", "LSN", "Time", "Entity", "Event"} {
		if list[i].Name != name || i >= EntryHead {
			t.Fatalf("field %d is %s, not %s", i, list[i].Name, name)
		}
	}
}

// entry returns an event of a kind, made by a seed; nil: there is no such kind.
func entry(kind uint8, seed uint64) *Entry {
	var pool event.Pool
	ev := pool.New(event.Kind(kind))
	if ev == nil {
		return nil
	}
	m := made{rand.New(rand.NewPCG(seed, uint64(kind)))}
	if seed > 0 { // else everything is zero
		m.fill(reflect.ValueOf(ev).Elem(), 0)
	}
	return &Entry{Partition: event.PartitionID(m.IntN(3)), LSN: event.LSN(m.number()), At: event.Time(m.number() % uint64(event.EndOfTime+1)), Event: ev}
}

func origins() *Origins {
	o := new(Origins)
	o.Define(&event.OriginDefined{ID: 1, Origin: event.Origin{Principal: "RootManageSharedAccessKey", RemoteAddress: "10.0.4.17:4711", ContainerID: "shop-\xff\u00e9"}})
	return o
}

// An event of any kind, with whatever values, has the same fields as text and as JSON.
func TestEventsAsJSON(t *testing.T) {
	t.Parallel()
	kinds := 0
	for kind := range 256 {
		if entry(uint8(kind), 0) == nil {
			continue
		}
		kinds++
		t.Run(event.Kind(kind).String(), func(t *testing.T) {
			t.Parallel()
			plain, with := &Events{Origins: origins()}, &Events{ReadBlob: bodies}
			for seed := range uint64(300) {
				e := entry(uint8(kind), seed)
				same(t, plain, e)
				same(t, with, e)
				again := *e // at the same place
				same(t, with, &again)
			}
		})
	}
	if kinds < 50 {
		t.Errorf("only %d kinds of events", kinds)
	}
}

func FuzzEventsAsJSON(f *testing.F) {
	for kind := range 256 {
		f.Add(uint8(kind), uint64(7))
	}
	f.Fuzz(func(t *testing.T, kind uint8, seed uint64) {
		if e := entry(kind, seed); e != nil {
			same(t, &Events{ReadBlob: bodies, Origins: origins()}, e)
		}
	})
}

// The usual events allocate no memory.
func TestEventsAsJSONAllocateNothing(t *testing.T) {
	d := &Events{Origins: origins()}
	own := event.Envelope{Slice: event.Slice{Entity: 1}, Origin: 1}
	at := event.TimeOf(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	var dst []byte
	for _, ev := range []event.Event{
		&event.MessageEnqueued{Envelope: own, Sequence: 7, MessageID: []byte("A-1"), SessionID: []byte{}, EnqueuedAt: at, ExpiresAt: at + 86_400_000, Body: event.Blob{Position: 9, Size: 1024},
			Details: event.Details{BodySize: 1000, Subject: []byte("order")}},
		&event.MessageLocked{Envelope: own, Sequence: 7, Token: event.LockToken{1, 2, 3}, LockedUntil: at + 30_000},
		&event.MessageCompleted{Envelope: own, Sequence: 7, Token: event.LockToken{1, 2, 3}},
	} {
		lsn := event.LSN(0)
		if n := testing.AllocsPerRun(100, func() {
			lsn++
			var err error
			if dst, err = d.AppendJSON(dst[:0], &Entry{LSN: lsn, At: at + event.Time(lsn), Event: ev}); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations", ev.Kind(), n)
		}
	}
}

// A body that cannot be read is an error, not an event without one.
func TestBodyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("input/output error")
	d := &Events{ReadBlob: func(event.Blob, []byte) ([]byte, error) { return nil, broken }}
	e := &Entry{Event: &event.MessageEnqueued{Body: event.Blob{Position: 9, Size: 1}}}
	if text, err := d.AppendJSON(nil, e); !errors.Is(err, broken) || text != nil {
		t.Errorf("%s, %v", text, err)
	}
	if list, err := d.Fields(e); !errors.Is(err, broken) || list != nil {
		t.Errorf("%v, %v", list, err)
	}
	d.ReadBlob = nil
	same(t, d, e)
}

// Times that are appended are those that String returns.
func TestTimes(t *testing.T) {
	t.Parallel()
	m := made{rand.New(rand.NewPCG(1, 2))}
	var c times
	for range 20_000 {
		at := event.Time(m.number() % uint64(event.EndOfTime+2))
		for _, at := range []event.Time{at, at + 1, at + 30_000, at + 14*24*60*60*1000, -at} {
			if got := string(c.append(nil, at)); got != at.String() {
				t.Fatalf("%d: %s, not %s", at, got, at)
			}
		}
	}
}
