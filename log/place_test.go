package log

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A second without traffic may be over just when something happens: then no Skip frame is written.
// There used to be one, at the place that the batch had found and not taken yet, and the process
// ended when the batch came to be written.
func TestTickWhileABatchBegins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(w *writer, at event.Time) {
		b := w.Batch()
		b.AppendRecord(at, []event.Event{&event.EntityTouched{AccessedAt: at}}, Durable)
		w.Append(b)
		for w.work() {
		}
	}
	s, err := Open(t.Context(), dir, Options{Partitions: 1, Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	led, err := p.Lead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := led.(manualWriter).writer
	write(w, 1)
	w.tick() // from here on nothing has happened
	// the tick is at the worst moment: right after the batch has taken its place
	w.open.next = func() event.LSN {
		at := w.place()
		w.tick()
		return at
	}
	write(w, 2)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	records := 0
	for f, err := range p.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		records += int(f.Count)
	}
	if records != 2 {
		t.Errorf("%d records", records)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
