package event

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// body is a frame that keeps its blobs, the first one standing at base+96.
type body struct {
	base Position
	data []byte
}

func (b *body) Base() Position { return b.base }

func (b *body) AppendBlob(head, tail []byte) (Position, uint32) {
	from := len(b.data)
	b.data = append(append(b.data, head...), tail...)
	return b.base + 96 + Position(from), Sum(b.data[from:])
}

func (b *body) bounds() [2]uint32 { return [2]uint32{96, 96 + uint32(len(b.data))} }

// samples returns an event of every kind, every field different and not zero, except those that
// only a capability sets.
func samples() []Event {
	var pool Pool
	var list []Event
	for k := range 256 {
		ev := pool.New(Kind(k))
		if ev == nil {
			continue
		}
		n := 0
		fill(reflect.ValueOf(ev).Elem(), &n)
		without(reflect.ValueOf(ev).Elem(), func(tag string) bool { return strings.HasPrefix(tag, "with=") })
		switch m := ev.(type) {
		case *CatalogueRestored:
			m.KeyHash = KeyHash
		case *RowsRestored:
			for i := range m.Rows {
				m.Rows[i].Way.Hops = MaxHops
			}
		}
		list = append(list, ev)
	}
	return list
}

// without takes away the fields of a struct, and of structs in it, of whose tags one is unwanted.
func without(v reflect.Value, unwanted func(tag string) bool) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			without(v.Index(i), unwanted)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if slices.ContainsFunc(strings.Split(v.Type().Field(i).Tag.Get("log"), ","), unwanted) {
				v.Field(i).SetZero()
			} else {
				without(v.Field(i), unwanted)
			}
		}
	}
}

// movedSamples are events of older kinds with the fields that capabilities add, by the names of
// their golden files.
func movedSamples() map[string]Event {
	arrival := func() *Arrival {
		n := 500
		a := new(Arrival)
		fill(reflect.ValueOf(a).Elem(), &n)
		a.Hops = 3
		return a
	}
	enqueued := sampleOf(KindMessageEnqueued).(*MessageEnqueued)
	enqueued.Arrival = arrival()
	scheduled := sampleOf(KindMessageScheduled).(*MessageScheduled)
	scheduled.Arrival = arrival()
	reserved := sampleOf(KindMessageScheduled).(*MessageScheduled)
	reserved.Reserved = true
	keyed := sampleOf(KindMessageEnqueued).(*MessageEnqueued)
	keyed.Keyed = true
	later := sampleOf(KindMessageScheduled).(*MessageScheduled)
	later.Keyed = true
	copied := sampleOf(KindMessagePublished).(*MessagePublished)
	copied.Keyed = true
	wide := sampleOf(KindEntityCreated).(*EntityCreated)
	wide.KeyHash, wide.Hosts = KeyHash, []byte{3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2}
	published := sampleOf(KindMessagePublished).(*MessagePublished)
	published.Arrival = arrival()
	published.Arrival.Changes, published.Arrival.DeadLetterSource = Blob{}, ""
	dropped := sampleOf(KindDuplicateDropped).(*DuplicateDropped)
	dropped.Arrival = arrival()
	dead := sampleOf(KindMessageDeadLettered).(*MessageDeadLettered)
	dead.SubQueue, dead.Cause = TransferDeadLetter, CauseHopLimit
	return map[string]Event{
		"MessageEnqueued-arrival": enqueued, "MessageScheduled-arrival": scheduled, "MessageScheduled-reserved": reserved,
		"MessageEnqueued-keyed": keyed, "MessageScheduled-keyed": later, "MessagePublished-keyed": copied, "EntityCreated-partitioned": wide,
		"MessagePublished-arrival": published, "DuplicateDropped-arrival": dropped, "MessageDeadLettered-transfer": dead,
	}
}

func fill(v reflect.Value, n *int) {
	*n++
	switch x := v.Addr().Interface().(type) {
	case *Blob:
		x.Data = fmt.Appendf(nil, "blob %d", *n)
		return
	case *Slice:
		*x = Slice{Entity: EntityID(1000 + *n), Partition: uint8(*n)}
		return
	case *Time:
		*x = Time(1_600_000_000_000 + *n)
		return
	case *time.Duration:
		*x = time.Duration(*n) * time.Second
		return
	case *[]byte:
		*x = fmt.Appendf(nil, "bytes %d", *n)
		return
	case *Cause:
		*x = CauseMaxDelivery
		return
	case *ValueType:
		*x = Double
		return
	case *EntityKind:
		*x = Subscription
		return
	case *FilterKind:
		*x = CorrelationFilter
		return
	case *Field:
		*x = FieldSessionID
		return
	case *Right:
		*x = Listen
		return
	}
	if v.Kind() == reflect.Uint8 && among(v) {
		return
	}
	fillKind(v, n)
}

// among fills in a value of a closed set of bytes.
func among(v reflect.Value) bool {
	switch x := v.Addr().Interface().(type) {
	case *SubQueue:
		*x = DeadLetter
	case *Relation:
		*x = Resubmitted
	case *Stop:
		*x = StopKilled
	case *Role:
		*x = DeletingReceiver
	case *CloseCause:
		*x = ClosedConnection
	case *Wanted:
		*x = WantedDefer
	case *Refusal:
		*x = RefusedFull
	case *Trigger:
		*x = TriggerDeadLetter
	case *AbortCause:
		*x = AbortLost
	case *FenceCause:
		*x = FencedByOperator
	case *CutCause:
		*x = CutForShare
	case *RowState:
		*x = lastRowState
	default:
		return false
	}
	return true
}

func fillKind(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer: // added by a capability
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n % 128))
	case reflect.Uint8:
		v.SetUint(uint64(*n))
	default:
		v.SetUint(uint64(*n) * 300)
	}
}

// blobs returns the blobs of an event.
func blobs(v reflect.Value) []*Blob {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	var list []*Blob
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			list = append(list, blobs(v.Index(i))...)
		}
		return list
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	if b, ok := v.Addr().Interface().(*Blob); ok {
		return []*Blob{b}
	}
	for i := range v.NumField() {
		list = append(list, blobs(v.Field(i))...)
	}
	return list
}

// byName are all samples, by the names of their golden files.
func byName() map[string]Event {
	all := movedSamples()
	for _, ev := range samples() {
		all[ev.Kind().String()] = ev
	}
	return all
}

// TestGolden keeps old logs readable: a difference here needs a new schema version. With -update
// the file of the version before moves into a directory of its own, where TestOldVersions reads it.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, ev := range byName() {
		frame := body{base: 4096}
		data := AppendRecord(nil, &frame, 1_600_000_000_000, []Event{ev})
		got := hex.Dump(data)
		file := filepath.Join("testdata", name+".hex")
		if *update {
			if err := updateGolden(file, name, got, versionIn(data)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v (new kinds: go test ./log/event -run Golden -update)", err)
		} else if string(want) != got {
			t.Errorf("%s differs:\n%s", name, got)
		}
		for v := 1; v < int(versionIn(data)) && name == ev.Kind().String(); v++ {
			if _, err := os.Stat(oldFile(v, name)); err != nil {
				t.Errorf("%v: what version %d wrote must be kept", err, v)
			}
		}
	}
}

// versionIn is the version of the one event of a record.
func versionIn(record []byte) byte {
	_, n := binary.Uvarint(record)
	return record[n+2]
}

func oldFile(version int, name string) string {
	return filepath.Join("testdata", fmt.Sprintf("v%d", version), name+".hex")
}

// updateGolden writes a golden file, and keeps the files of older versions.
func updateGolden(file, name, got string, version byte) error {
	if old, err := goldenBytes(file); err == nil && versionIn(old) < version {
		kept := oldFile(int(versionIn(old)), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), os.Rename(file, kept)); err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644))
}

// TestRoundTrip: all events in one record come back as they were, and their blobs say where their
// bytes are.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	events := slices.AppendSeq(samples(), maps.Values(movedSamples()))
	frame := body{base: 4096}
	data := AppendRecord([]byte("before"), &frame, 77, events)[6:]
	var d Decoder
	for range 2 { // the pool is clean again
		rec, rest, err := d.Record(4096, frame.bounds(), append(bytes.Clone(data), "after"...))
		if err != nil || string(rest) != "after" || rec.At != 77 || len(rec.Events) != len(events) {
			t.Fatalf(`%+v %+v %+v %+v; want string(rest) == "after" && rec.At == 77 && len(rec.Events) == len(events)`, err, string(rest), rec.At, len(rec.Events))
		}
		for i, ev := range rec.Events {
			for _, b := range blobs(reflect.ValueOf(ev)) {
				if b.Size == 0 {
					continue
				}
				b.Data = frame.data[b.Position-4096-96:][:b.Size]
				if Sum(b.Data) != b.Sum {
					t.Errorf("%T: blob %q", ev, b.Data)
				}
			}
			if !cmp.Equal(ev, events[i]) {
				t.Errorf("%T:\n%+v\n%+v (-want +got):\n%s", ev, ev, events[i], cmp.Diff(events[i], ev))
			}
		}
	}
	for n := range data {
		if _, _, err := d.Record(4096, frame.bounds(), data[:n]); err == nil {
			t.Fatalf("%d of %d bytes decode", n, len(data))
		}
	}
}

// old sets how events of version 1 are read, besides missing fields of later versions: there were
// only queues.
var old = map[string]func(ev Event){
	"EntityCreated": func(ev Event) {
		c := ev.(*EntityCreated)
		c.EntityKind, c.Properties.SupportOrdering = Queue, !c.Properties.EnablePartitioning
	},
	"EntityUpdated": func(ev Event) {
		p := &ev.(*EntityUpdated).Properties
		p.SupportOrdering = !p.EnablePartitioning
	},
	"EntityDeleted": func(ev Event) { ev.(*EntityDeleted).EntityKind = Queue },
}

// TestOldVersions: events of earlier versions of this program read as they were.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/v*/*.hex")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := byName()
	for _, file := range files {
		var version int
		if _, err := fmt.Sscanf(filepath.ToSlash(file), "testdata/v%d/", &version); err != nil {
			t.Fatal(file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".hex")
		got, want := oldGolden(t, file), reflect.New(reflect.TypeOf(all[name]).Elem())
		want.Elem().Set(reflect.ValueOf(all[name]).Elem())
		without(want.Elem(), func(tag string) bool {
			n, err := strconv.Atoi(strings.TrimPrefix(tag, "v"))
			return err == nil && n > version
		})
		if more := old[name]; version == 1 && more != nil {
			more(want.Interface().(Event))
		}
		stored := blobs(reflect.ValueOf(got))
		for i, b := range blobs(want) {
			*b = *stored[i]
		}
		if !cmp.Equal(got, want.Interface()) {
			t.Errorf("%s:\n%+v\n%+v (-want +got):\n%s", file, got, want, cmp.Diff(want.Interface(), got))
		}
	}
}

func sampleOf(k Kind) Event {
	for _, ev := range samples() {
		if ev.Kind() == k {
			return ev
		}
	}
	return nil
}

// oldGolden decodes the one event of a golden file.
func oldGolden(t *testing.T, file string) Event {
	data, err := goldenBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	rec, rest, err := d.Record(4096, [2]uint32{96, 1096}, data)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%+v %+v %+v; want len(rest) <= 0", file, err, len(rest))
	}
	return rec.Events[0]
}

// goldenBytes are the bytes that a golden file shows.
func goldenBytes(file string) (data []byte, err error) {
	dump, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(dump)) { // as hex.Dump writes it
		p, err := hex.DecodeString(strings.ReplaceAll(line[10:58], " ", ""))
		if err != nil {
			return nil, err
		}
		data = append(data, p...)
	}
	return data, nil
}

// What a capability adds is written in its own version or under its own flag, and nothing else is:
// a namespace that has not said that it uses the capability is read by programs that do not know
// it.
func TestVersionWithoutCapability(t *testing.T) {
	t.Parallel()
	// of those with it; the others have a flag
	versions := map[string]byte{"EntityCreated-partitioned": 3, "DuplicateDropped-arrival": 2, "MessageDeadLettered-transfer": 2}
	for name, ev := range movedSamples() {
		with := AppendRecord(nil, &body{}, 1, []Event{ev})
		without := AppendRecord(nil, &body{}, 1, []Event{sampleOf(ev.Kind())})
		if v, ok := versions[name]; ok {
			if with[3] != v || without[3] != v-1 {
				t.Errorf("%s: version %d with it, %d without it; want %d, %d", name, with[3], without[3], v, v-1)
			}
		} else if with[3] != without[3] || len(with) == len(without) && bytes.Equal(with, without) {
			t.Errorf("%s: version %d with it, %d without it, or the same bytes; want one version, and a flag", name, with[3], without[3])
		}
	}
}

// A flag of the details that is not one of the event's kind is not guessed at.
func TestFlagsOfOtherKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ev   Event
		flag byte
		ok   bool
	}{
		{&MessageEnqueued{}, detailReserved, false}, {&MessagePublished{}, detailReserved, false}, {&MessageHandedOver{}, detailArrival, false},
		{&MessageHandedOver{}, detailReserved, false}, {&MessageScheduled{}, detailReserved, true}, {&MessageScheduled{}, detailKeyed, true},
		{&MessageHandedOver{}, detailKeyed, false},
	} {
		data := AppendRecord(nil, &body{}, 1, []Event{c.ev})
		data[len(data)-1] |= c.flag
		var d Decoder
		if _, _, err := d.Record(0, [2]uint32{}, data); err == nil != c.ok {
			t.Errorf("%T with flag %#x: %v", c.ev, c.flag, err)
		}
	}
}

// SM-375, R11: kinds and versions that this program does not know.
func TestUnknown(t *testing.T) {
	t.Parallel()
	var d Decoder
	for _, p := range [][]byte{{0, 1, 0, 1, 1, 0, 0}, {0, 1, 255, 1, 1, 0, 0}, {0, 1, 1, 2, 1, 0, 0}} {
		if _, _, err := d.Record(0, [2]uint32{}, p); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// FuzzRecord: no panic, blobs inside the bodies, and a decoded record encodes to a fixpoint.
func FuzzRecord(f *testing.F) {
	for _, ev := range samples() {
		frame := body{base: 4096}
		f.Add(AppendRecord(nil, &frame, 5, []Event{ev, ev}))
	}
	for _, ev := range movedSamples() {
		f.Add(AppendRecord(nil, new(body), 5, []Event{ev, ev}))
	}
	const base, bodies = Position(4096), 1000
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		again := func(data []byte) []byte {
			rec, rest, err := d.Record(base, [2]uint32{96, 96 + bodies}, data)
			if err != nil {
				return nil
			}
			if len(rest) > len(data) {
				t.Fatal("more is left than there was")
			}
			r := replay{base: base}
			for _, ev := range rec.Events {
				for _, b := range blobs(reflect.ValueOf(ev)) {
					if b.Size == 0 {
						continue
					}
					if b.Position < base+96 || b.Position+Position(b.Size) > base+96+bodies {
						t.Fatalf("blob at %d of %d bytes", b.Position, b.Size)
					}
					b.Data = make([]byte, b.Size)
					r.at = append(r.at, *b)
				}
			}
			return AppendRecord(nil, &r, rec.At, rec.Events)
		}
		one := again(data)
		if one == nil {
			return
		}
		if two := again(one); !bytes.Equal(one, two) {
			t.Fatalf("no fixpoint:\n%x\n%x\n%x", data, one, two)
		}
	})
}

// replay is a frame that puts blobs where they were.
type replay struct {
	base Position
	at   []Blob
}

func (r *replay) Base() Position { return r.base }

func (r *replay) AppendBlob(_, _ []byte) (Position, uint32) {
	b := r.at[0]
	r.at = r.at[1:]
	return b.Position, b.Sum
}

func BenchmarkRecord(b *testing.B) {
	frame := body{base: 4096}
	ev := &MessageEnqueued{MessageID: make([]byte, 32), Body: Blob{Data: make([]byte, 1024)}}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			frame.data = frame.data[:0]
			dst = AppendRecord(dst[:0], &frame, 1, []Event{ev})
		}
	})
	data := AppendRecord(nil, &frame, 1, []Event{ev})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		var d Decoder
		for b.Loop() {
			if _, _, err := d.Record(4096, [2]uint32{96, 1 << 20}, data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
