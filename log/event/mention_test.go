package event

import (
	"reflect"
	"slices"
	"testing"
)

// numbers are the sequence numbers in a value, except those of where a message came from.
func numbers(v reflect.Value) (list []SequenceNumber) {
	switch v.Kind() {
	case reflect.Uint64:
		if v.Type() == reflect.TypeFor[SequenceNumber]() {
			return []SequenceNumber{SequenceNumber(v.Uint())}
		}
	case reflect.Slice:
		for i := range v.Len() {
			list = append(list, numbers(v.Index(i))...)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Source]() || v.Type() == reflect.TypeFor[Arrival]() || v.Type() == reflect.TypeFor[RestoredWay]() {
			return nil
		}
		for i := range v.NumField() {
			list = append(list, numbers(v.Field(i))...)
		}
	}
	return list
}

// Every number in an event of any kind is named, of a copy with its subscription, and so is the
// slice that the event is of.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, ev := range samples() {
		got := map[SequenceNumber]Slice{}
		own := false
		Named(ev, func(s Slice, n SequenceNumber) {
			got[n] = s
			own = own || s == ev.Common().Slice
		})
		if !own {
			t.Errorf("%s: its slice is not named", ev.Kind())
		}
		for _, n := range numbers(reflect.ValueOf(ev).Elem()) {
			if _, ok := got[n]; !ok {
				t.Errorf("%s: %d is not named among %v", ev.Kind(), n, got)
			}
		}
		if p, ok := ev.(*MessagePublished); ok {
			for _, c := range p.Copies {
				if got[c.Sequence] != (Slice{Entity: c.Subscription, Partition: p.Slice.Partition}) {
					t.Errorf("copy %d is named as of %v", c.Sequence, got[c.Sequence])
				}
			}
		}
		if n, ok := ev.(*NumbersReserved); ok {
			if _, ok := got[n.First+SequenceNumber(n.Count)-1]; !ok {
				t.Errorf("the last of the reserved numbers is not named: %v", got)
			}
		}
		id := reflect.ValueOf(ev).Elem().FieldByName("MessageID")
		if id.IsValid() && !slices.Equal(MessageIDOf(ev), id.Bytes()) || !id.IsValid() && MessageIDOf(ev) != nil {
			t.Errorf("%s: the message-id is %q", ev.Kind(), MessageIDOf(ev))
		}
	}
}

// The sizes of the events of a record are those of its bytes and blobs.
func TestSizes(t *testing.T) {
	t.Parallel()
	var d Decoder
	b := &body{base: 8}
	events := samples()
	data := AppendRecord(nil, b, 5, events)
	rec, _, err := d.Record(8, b.bounds(), data)
	if err != nil {
		t.Fatal(err)
	}
	sum, bytes, count := 0, 0, 0
	for i, s := range d.Sizes() {
		sum, bytes, count = sum+s.Record, bytes+int(s.Bodies), count+s.Blobs
		want := 0
		for _, b := range blobs(reflect.ValueOf(rec.Events[i])) {
			want += int(b.Size)
		}
		if int(s.Bodies) != want {
			t.Errorf("%s: %d bytes of bodies, want %d", rec.Events[i].Kind(), s.Bodies, want)
		}
	}
	if len(d.Sizes()) != len(events) || sum+2 != len(data) || bytes != len(b.data) || count == 0 {
		t.Errorf("%d sizes of %d events, %d bytes of %d, %d of %d in %d blobs", len(d.Sizes()), len(events), sum, len(data), bytes, len(b.data), count)
	}
}
