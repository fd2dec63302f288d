package index

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The blobs of a state are all data in the log at that time that it and any later state needs
// (decision 50): with every other blob at another place, with other bytes, the same events lead to
// the same states.
func TestBlobsAreAllThatIsNeeded(t *testing.T) {
	t.Parallel()
	seeds, steps := 60, 1500
	if testing.Short() {
		seeds = 6
	}
	for seed := range uint64(seeds) {
		x := New()
		w := newWalk(seed, x)
		for len(w.past) < 1+int(seed*97)%steps {
			w.step()
		}
		s := x.Snapshot()
		before, needed := len(w.past), map[event.Position]bool{}
		for b := range s.Blobs() {
			if b.Size == 0 {
				t.Fatalf("seed %d: a blob without bytes at %d is needed", seed, b.Position)
			}
			needed[b.Position] = true
		}
		then := x.Encode(nil)
		s.Close()
		for len(w.past) < before+steps {
			w.step()
		}
		y, moved := New(), 0
		for i, d := range w.past {
			if i < before {
				moved += misplace(reflect.ValueOf(d.ev).Elem(), needed)
			}
			y.Apply(d.at, d.ev)
			if i == before-1 && !bytes.Equal(y.Encode(nil), then) {
				t.Fatalf("seed %d: the state after %d events needs more than %d blobs", seed, before, len(needed))
			}
		}
		if !bytes.Equal(y.Encode(nil), x.Encode(nil)) {
			t.Fatalf("seed %d: a state after %d events needs more than %d blobs of the first %d", seed, len(w.past), len(needed), before)
		}
		if before > 200 && moved == 0 {
			t.Errorf("seed %d: all of %d events' blobs are needed", seed, before)
		}
	}
}

// misplace changes all blobs in a value but the needed ones, and says how many.
func misplace(v reflect.Value, needed map[event.Position]bool) (n int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n += misplace(v.Elem(), needed)
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += misplace(v.Index(i), needed)
		}
	case reflect.Struct:
		if b, ok := v.Addr().Interface().(*event.Blob); ok {
			if b.Size > 0 && !needed[b.Position] {
				b.Position, b.Sum, n = b.Position+1<<40, ^b.Sum, 1
			}
			return n
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += misplace(v.Field(i), needed)
			}
		}
	}
	return n
}
