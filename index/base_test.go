package index

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// baseRecords is the base of an index, one record after the other.
func baseRecords(x *Index) (records [][]byte) {
	s := x.Snapshot()
	defer s.Close()
	for ev := range s.Base() {
		records = append(records, event.AppendRecord(nil, nil, x.LastAt(), []event.Event{ev}))
	}
	return records
}

// restored is the index that records give; nil when they do not fit.
func restored(records [][]byte) *Index {
	r := Restore()
	var dec event.Decoder
	for _, p := range records {
		rec, _, err := dec.Record(0, [2]uint32{}, p)
		if err != nil {
			return nil
		}
		for _, ev := range rec.Events {
			if r.Apply(rec.At, ev) != nil {
				return nil
			}
		}
	}
	x, err := r.Index()
	if err != nil {
		return nil
	}
	return x
}

// A base without any one of its events, or with two in another order, is not taken for the state
// that it was made of.
func TestBaseIsWhole(t *testing.T) {
	t.Parallel()
	x := New()
	w := newWalk(3, x)
	for i := range 1200 {
		if w.step(); i%100 == 0 {
			w.policy()
		}
	}
	want, all := x.Encode(nil), baseRecords(x)
	if len(all) < 20 {
		t.Fatalf("a base of %d events", len(all))
	}
	same := func(records [][]byte) bool {
		y := restored(records)
		return y != nil && bytes.Equal(y.Encode(nil), want)
	}
	if !same(all) {
		t.Fatal("the base gives another state")
	}
	for i := range all {
		if same(slices.Delete(slices.Clone(all), i, i+1)) {
			t.Errorf("without event %d it is the same", i)
		}
		if same(slices.Insert(slices.Clone(all), i, all[i])) {
			t.Errorf("with event %d twice it is the same", i)
		}
	}
}

// A long state is in many events, none of them much longer than the others, and comes back.
func TestLongBase(t *testing.T) {
	t.Parallel()
	x := New()
	of := event.Envelope{Slice: plain}
	for i := range event.SequenceNumber(5000) {
		x.Apply(1, &event.MessageEnqueued{Envelope: of, Sequence: i + 1, EnqueuedAt: 1, MessageID: []byte{byte(i), byte(i >> 8)}, DuplicateUntil: 9, Body: event.Blob{Position: 100, Size: 5},
			Arrival: &event.Arrival{Source: news, Number: event.TransferNumber(2*i + 2), Floor: 1, Hops: 1, First: 1}})
	}
	records := baseRecords(x)
	for i, p := range records {
		if len(p) > 2*baseBytes {
			t.Errorf("record %d has %d bytes", i, len(p))
		}
	}
	if y := restored(records); y == nil || !bytes.Equal(x.Encode(nil), y.Encode(nil)) {
		t.Error("it does not come back")
	}
	if n := len(records); n < 10 || n > 40 {
		t.Errorf("%d records", n)
	}
}

// FuzzRestore: whatever the records of a base are, they are refused or give an index, whose own
// base gives the same.
func FuzzRestore(f *testing.F) {
	for seed := range uint64(3) {
		x := New()
		w := newWalk(seed, x)
		for range 60 {
			w.step()
		}
		f.Add(bytes.Join(baseRecords(x), nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var records [][]byte
		var dec event.Decoder
		for rest := data; len(rest) > 0; {
			before := rest
			var err error
			if _, rest, err = dec.Record(0, [2]uint32{}, rest); err != nil {
				return
			}
			records = append(records, before[:len(before)-len(rest)])
		}
		x := restored(records)
		if x == nil {
			return
		}
		if y := restored(baseRecords(x)); y == nil || !bytes.Equal(x.Encode(nil), y.Encode(nil)) {
			t.Fatal("its own base gives another state")
		}
	})
}
