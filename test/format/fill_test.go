package format

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// words are what texts are made of.
var words = []string{"plain", "", "\x1b[2J", "\u202e", "\xff\xc3(", "\n\t\r\b\f\x00\x7f", "\u0085\u00e9", "\U0001f600\U000e0041", `<&>"\/`, "\u2028", "\xed\xa0\x80", "\xf0\x9f\x98"}

// changes are property changes in both encodings: three removals and replacements, with a value
// encoded as AMQP, and what format 1 had.
var changes = []string{
	"\x01\x02\x01a\x00" + "\x03\x01b\x02\x05\x00\x01c\x06\x00\x05value\x01d\xfe\x00\x04\xa1\x02xy" + "\x01\x03sys\x00\x00\x00",
	"\x01\x00\x00\x00",
	"\xc1\x06\x02\xa1\x01k\x54\x07",
	"\xd1\x00\x00\x00\x09\x00\x00\x00\x02\xa3\x01k\x56\x01",
	"\xc0\x08\x03\xc1\x01\x00\x45\xc1\x01\x00",
	"\x45",
}

// filler fills events with what makes sense field by field, a third of it zero.
type filler struct{ *rand.Rand }

// most are the highest numbers of fields that are words in a log, and the lowest, where that is
// not 0.
var most = map[reflect.Type][2]uint64{
	reflect.TypeFor[event.EntityKind]():   {1, 3},
	reflect.TypeFor[event.Status]():       {0, 3},
	reflect.TypeFor[event.FilterKind]():   {1, 4},
	reflect.TypeFor[event.Field]():        {1, 8},
	reflect.TypeFor[event.Right]():        {1, 3},
	reflect.TypeFor[event.Cause]():        {1, 6},
	reflect.TypeFor[event.IDType]():       {0, 3},
	reflect.TypeFor[event.SubQueue]():     {0, 2},
	reflect.TypeFor[event.Relation]():     {1, 3},
	reflect.TypeFor[event.Stop]():         {1, 5},
	reflect.TypeFor[event.Role]():         {1, 4},
	reflect.TypeFor[event.CloseCause]():   {1, 4},
	reflect.TypeFor[event.Wanted]():       {1, 6},
	reflect.TypeFor[event.Refusal]():      {1, 11},
	reflect.TypeFor[event.ReleaseCause](): {1, 4},
	reflect.TypeFor[event.ClockBasis]():   {1, 3},
	reflect.TypeFor[event.Trigger]():      {1, 2},
	reflect.TypeFor[event.AbortCause]():   {1, 4},
	reflect.TypeFor[event.FenceCause]():   {1, 2},
	reflect.TypeFor[event.CutCause]():     {1, 2},
}

func (f filler) text() string {
	var b strings.Builder
	for range f.IntN(4) {
		b.WriteString(words[f.IntN(len(words))])
	}
	return b.String()
}

func (f filler) value() event.Value {
	switch v := (event.Value{Type: event.ValueType(f.IntN(10))}); v.Type {
	case event.Bool:
		v.Bits = f.Uint64N(2)
		return v
	case event.Int, event.Long, event.Span:
		v.Bits = f.Uint64() >> f.IntN(64) * uint64(1-2*f.IntN(2))
		return v
	case event.Double:
		v.Bits = math.Float64bits([]float64{0, 0.5, -1, 1e6, 123456789, 1e20, 1e21, 1e-4, 1e-5, 1.5e-7, math.Pi, math.MaxFloat64, 5e-324,
			math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1), 1e22, 12345678901234567890, f.Float64(), f.NormFloat64() * 1e12}[f.IntN(21)])
		return v
	case event.Instant:
		v.Bits = []uint64{0, 1, 621355968000000000, 638000000000000000 + f.Uint64N(1e9), 3155378975999999999}[f.IntN(5)]
		v.Text = []string{"", "none", "+02:00", "-05:30", "+14:00"}[f.IntN(5)]
		return v
	case event.UUID:
		v.Text = "\x01\xff456789abcdef\x00\x80"
		return v
	case event.Decimal, event.String:
		v.Text = f.text()
		return v
	default:
		return v
	}
}

func (f filler) fill(v reflect.Value, name string) {
	limits, isWord := most[v.Type()]
	switch x := v.Addr().Interface().(type) {
	case *event.Value:
		*x = f.value()
		return
	case *event.Kind:
		return
	}
	switch k := v.Kind(); {
	case isWord:
		v.SetUint(limits[0] + f.Uint64N(limits[1]-limits[0]+1))
	case name == "Hops":
		v.SetUint(1 + f.Uint64N(event.MaxHops))
	case k == reflect.Struct && v.Type() != reflect.TypeFor[event.Blob]():
		for i := range v.NumField() {
			f.fill(v.Field(i), v.Type().Field(i).Name)
		}
	case f.IntN(3) == 0: // zero
	default:
		f.fillOne(v, name)
	}
}

func (f filler) fillOne(v reflect.Value, name string) {
	switch x := v.Addr().Interface().(type) {
	case *event.Blob:
		x.Data = []byte("body " + f.text())
		if name == "Changes" {
			x.Data = []byte(changes[f.IntN(len(changes))])
		}
	case *event.Time:
		*x = []event.Time{1, 999, 1_600_000_000_123, 253_402_300_799_999, event.Time(f.Uint64N(200_000_000_000_000))}[f.IntN(5)]
	case *time.Duration:
		*x = []time.Duration{event.Forever, 1, 1500, 20 * time.Millisecond, 1500 * time.Millisecond, time.Minute, 90*time.Minute + 1, 400 * 24 * time.Hour,
			time.Duration(f.Uint64N(1 << 62))}[f.IntN(9)]
	case *event.OriginID:
		*x = event.OriginID(f.Uint64N(4))
	case *event.Retention:
		*x = []event.Retention{event.KeepNone, event.KeepForever, 1, 1500, 90_000, 5_400_000, 7_200_000, 3_601_000, 604_800_000, event.Retention(f.Uint64N(1 << 41))}[f.IntN(10)]
	default:
		switch v.Kind() {
		case reflect.Array:
			for i := range v.Len() {
				v.Index(i).SetUint(f.Uint64N(256))
			}
		case reflect.Slice:
			if _, isWords := most[v.Type().Elem()]; v.Type().Elem().Kind() == reflect.Uint8 && !isWords {
				v.SetBytes([]byte(f.text()))
				return
			}
			if v.Type() == reflect.TypeFor[[]event.SequenceNumber]() || v.Type() == reflect.TypeFor[[]event.Returned]() ||
				v.Type() == reflect.TypeFor[[]event.TransferNumber]() {
				f.ascend(v)
				return
			}
			v.Set(reflect.MakeSlice(v.Type(), 3, 3))
			for i := range v.Len() {
				f.fill(v.Index(i), name)
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), name)
		case reflect.String:
			v.SetString(f.text())
		case reflect.Bool:
			v.SetBool(true)
		default:
			v.SetUint(f.Uint64() >> (64 - f.IntN(v.Type().Bits()+1)))
		}
	}
}

// ascend sets a list of numbers.
func (f filler) ascend(v reflect.Value) {
	n := event.SequenceNumber(f.Uint64() >> f.IntN(60))
	switch x := v.Addr().Interface().(type) {
	case *[]event.SequenceNumber:
		*x = []event.SequenceNumber{n, n + 1, n + 1000}
	case *[]event.TransferNumber:
		*x = []event.TransferNumber{event.TransferNumber(n), event.TransferNumber(n) + 1}
	case *[]event.Returned:
		*x = []event.Returned{{Sequence: n, DeliveryCount: 3}, {Sequence: n + 300}}
	}
}

// filled makes a directory: some runs, in each of them records with an event of every kind.
func filled(t *testing.T, seed uint64, runs, records int) (dir string) {
	t.Helper()
	f := filler{rand.New(rand.NewPCG(seed, 2))}
	dir = t.TempDir()
	for run := range runs {
		d := logdir.Open(t, dir, log.Options{Partitions: 2, SegmentBytes: 8 << 10, ChapterBytes: 40 << 10})
		for partition := range log.PartitionID(2) {
			_, w := d.Lead(partition)
			for record := range records {
				d.Append(w, event.Time(1_900_000_000_000+1000*run+record), f.events()...)
			}
		}
		d.Close()
	}
	return dir
}

// TestFilled: events of every kind, filled by chance, are the same to both readers.
func TestFilled(t *testing.T) {
	t.Parallel()
	dir := filled(t, 1, 3, 15)
	seen := map[string]int{}
	for _, line := range agree(t, dir) {
		_, line, _ = strings.Cut(line, `"Event":"`)
		kind, _, _ := strings.Cut(line, `"`)
		seen[kind]++
	}
	for k := range 256 {
		if name := event.Kind(k).String(); name != "" && !ofBase(event.Kind(k)) && seen[name] != 2*3*15 {
			t.Errorf("%d of %s", seen[name], name)
		}
	}
	if files := segments(t, dir); len(files) < 20 {
		t.Errorf("%d segment files", len(files))
	}
}

// ofBase reports whether events of a kind stand in bases alone.
func ofBase(k event.Kind) bool {
	return k >= event.KindSliceRestored && k <= event.KindCatalogueRestored
}

// events are one of every kind that stands in logs.
func (f filler) events() (list []event.Event) {
	var pool event.Pool
	for k := range 256 {
		if ev := pool.New(event.Kind(k)); ev != nil && !ofBase(ev.Kind()) {
			ev = reflect.New(reflect.TypeOf(ev).Elem()).Interface().(event.Event)
			f.fill(reflect.ValueOf(ev).Elem(), "")
			switch ev := ev.(type) {
			case *event.TransferFailed:
				ev.SubQueue = event.SubQueue(1 + f.IntN(2))
			case *event.EntityCreated:
				if ev.KeyHash != 0 {
					ev.KeyHash, ev.Hosts = event.KeyHash, make([]byte, 2+f.IntN(event.MaxEntityPartitions-1))
				}
			}
			list = append(list, ev)
		}
	}
	return list
}
