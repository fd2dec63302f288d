package event

import (
	"reflect"
	"testing"
)

// emptyOf is an event with nothing in it but what must be one of a closed set of bytes.
func emptyOf(k Kind) Event {
	var pool Pool
	ev := pool.New(k)
	if ev == nil {
		return nil
	}
	onlyClosedSets(reflect.ValueOf(ev).Elem())
	return ev
}

// onlyClosedSets fills in what has no zero value.
func onlyClosedSets(v reflect.Value) {
	n := 0
	switch v.Addr().Interface().(type) {
	case *Cause, *EntityKind, *FilterKind:
		fill(v, &n)
		return
	}
	switch v.Kind() {
	case reflect.Uint8:
		among(v)
	case reflect.Struct:
		for i := range v.NumField() {
			onlyClosedSets(v.Field(i))
		}
	}
}

// TestEmptyEvents: two events of a kind that have nothing in them stand in one record, and come
// back. A field of a later version that is written though the event has the version of before would
// be read as the beginning of the second one.
func TestEmptyEvents(t *testing.T) {
	t.Parallel()
	for k := range 256 {
		ev := emptyOf(Kind(k))
		if ev == nil {
			continue
		}
		t.Run(ev.Kind().String(), func(t *testing.T) {
			t.Parallel()
			frame := body{base: 4096}
			data := AppendRecord(nil, &frame, 77, []Event{ev, emptyOf(Kind(k))})
			var d Decoder
			rec, rest, err := d.Record(4096, frame.bounds(), data)
			if err != nil || len(rest) > 0 || len(rec.Events) != 2 {
				t.Fatalf("%d events, %d bytes behind the record, %v; want 2, 0 and no error", len(rec.Events), len(rest), err)
			}
		})
	}
}
