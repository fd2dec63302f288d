package replay_test

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// foundHistory writes messages with their numbers, half of them before a clock is set back, with
// the searched ones among them, and waits until all of it can be read.
func foundHistory(d *logdir.Dir, w log.Writer, rng *rand.Rand, messages int, id func(int) []byte) {
	for n := 1; n <= messages; n += 50 {
		at := event.Time(n * 10)
		if n > messages/2 {
			at -= 5000 // a clock was set back
		}
		var events []event.Event
		if n%1000 == 1 {
			events = append(events, &event.OriginDefined{ID: event.OriginID(n/1000 + 1)})
		}
		for i := range 50 {
			slice := event.Envelope{Slice: event.Slice{Entity: event.EntityID(1 + rng.IntN(3))}}
			events = append(events, &event.MessageEnqueued{Envelope: slice, Sequence: event.SequenceNumber(n + i), MessageID: id(n + i), EnqueuedAt: at, PartitionKey: id(-n - i)})
			if i%3 == 0 && n > 500 {
				events = append(events, &event.MessageCompleted{Envelope: slice, Sequence: event.SequenceNumber(1 + rng.IntN(n))})
			}
		}
		if n%2000 == 1 {
			events = append(events, &event.EntityTouched{Envelope: event.Envelope{Slice: event.Slice{Entity: 9}}, AccessedAt: at})
		}
		if n%1000 == 1 {
			d.Append(w, at, events...) // and wait
			continue
		}
		// small frames, so that many have their beginning in another block than their records
		for len(events) > 0 {
			k := min(len(events), 2)
			w.Batch().AppendRecord(at, events[:k], log.Ordered)
			w.Append(w.Batch())
			events = events[k:]
		}
	}
	d.Append(w, event.Time(messages*10-5000))
}

// A search by the indexes of sealed files finds the same as a full scan, and reads little.
func TestFound(t *testing.T) {
	t.Parallel()
	d := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1, ChapterBytes: 300_000, SealAfter: -1})
	defer d.Close()
	p, w := d.Lead(0)
	rng := rand.New(rand.NewPCG(5, 2))
	id := func(n int) []byte { return fmt.Appendf(nil, "%x-%d", rand.New(rand.NewPCG(uint64(n), 1)).Uint64(), n) }
	const messages = 12_000
	foundHistory(d, w, rng, messages, id)
	for {
		if more, err := p.(log.Sealer).Seal(t.Context()); err != nil {
			t.Fatal(err)
		} else if !more {
			break
		}
	}
	if len(p.Segments()) < 3 {
		t.Fatalf("%+v; want len(p.Segments()) >= 3", p.Segments())
	}
	hot := p.Segments()[len(p.Segments())-1]
	looked, all := 0, 0
	for i := range 300 {
		q := search(rng, i, messages, id)
		want := matching(t, q, replay.Records(t.Context(), p, 0))
		got := matching(t, q, replay.Found(t.Context(), p, q))
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: found %d, there are %d", q, len(got), len(want))
		}
		list, err := p.(log.Finder).Find(q)
		if err != nil {
			t.Fatal(err)
		}
		_, end := p.Bounds()
		at := event.LSN(0)
		for _, s := range list {
			if s.From < at || s.To <= s.From || s.To > end {
				t.Fatalf("%+v: stretches %v", q, list)
			}
			at = s.To
			if s.From < hot.First {
				looked += int(min(s.To, hot.First) - s.From)
			}
		}
		all += int(hot.First)
	}
	if looked*3 > all {
		t.Errorf("looked at %d bytes of %d", looked, all)
	}
}

// search is one of a kind.
func search(rng *rand.Rand, i, messages int, id func(int) []byte) (q log.Search) {
	if i%6 == 0 || i%6 == 4 || i%12 == 3 {
		q.From = event.Time(rng.IntN(messages * 10))
		q.Until = q.From + event.Time(rng.IntN(2000))
	}
	switch i % 6 {
	case 5:
		q.Origins = []event.OriginID{event.OriginID(1 + rng.IntN(12)), 7}
	case 1:
		q.MessageID = id(1 + rng.IntN(messages+100))
	case 2, 4:
		q.Named, q.Slice, q.Number = true, event.Slice{Entity: event.EntityID(1 + rng.IntN(4))}, event.SequenceNumber(rng.IntN(messages))
	case 3:
		q.Kinds = []event.Kind{event.KindEntityTouched}
		if rng.IntN(2) == 0 {
			q.Kinds = []event.Kind{event.KindMessageLocked}
		}
	}
	return q
}

// matching returns the matches in a log.
func matching(t *testing.T, q log.Search, records iter.Seq2[*replay.Record, error]) (found []string) {
	t.Helper()
	for rec, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		if rec.At < q.From || q.Until > 0 && rec.At > q.Until {
			continue
		}
		for i, ev := range rec.Events {
			named := !q.Named
			event.Named(ev, func(s event.Slice, n event.SequenceNumber) {
				named = named || s == q.Slice && (q.Number == 0 || n == q.Number)
			})
			if named && (q.Kinds == nil || slices.Contains(q.Kinds, ev.Kind())) && (q.Origins == nil || defines(ev, q.Origins)) && (q.MessageID == nil || bytes.Equal(event.MessageIDOf(ev), q.MessageID)) {
				found = append(found, fmt.Sprintf("%d %d %d", rec.LSN, rec.Number, i))
			}
		}
	}
	return found
}

func defines(ev event.Event, ids []event.OriginID) bool {
	o, ok := ev.(*event.OriginDefined)
	return ok && slices.Contains(ids, o.ID)
}
