package event

import (
	"reflect"
	"testing"
)

// emptyOf returns an event without contents, except for bytes that must be of a closed set.
func emptyOf(k Kind) Event {
	var pool Pool
	ev := pool.New(k)
	if ev == nil {
		return nil
	}
	onlyClosedSets(reflect.ValueOf(ev).Elem())
	return ev
}

// onlyClosedSets sets the fields that have no zero value.
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

// TestEmptyEvents: two empty events of a kind are in one record, and are read back. A field of a
// later version that is written although the event has the previous version would be read as the
// beginning of the second event.
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
