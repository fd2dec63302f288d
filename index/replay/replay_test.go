package replay_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// Records come with their places, from any LSN on.
func TestRecords(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for _, from := range []int{0, 20, len(h.records) - 1} {
		for h.records[from].number > 1 {
			from--
		}
		rest := h.records[from:]
		for rec, err := range replay.Records(t.Context(), h.part, rest[0].lsn) {
			if err != nil {
				t.Fatal(err)
			}
			want := rest[0]
			rest = rest[1:]
			var kinds []event.Kind
			for _, ev := range rec.Events {
				kinds = append(kinds, ev.Kind())
			}
			if rec.LSN != want.lsn || rec.Next != want.next || rec.Number != want.number || rec.Last != want.last || rec.At != want.at || !slices.Equal(kinds, want.kinds) {
				t.Fatalf("got %+v, want %+v", *rec, want)
			}
		}
		if len(rest) > 0 {
			t.Errorf("%d records are missing", len(rest))
		}
	}
}

// The state at each boundary between two records is that of an index fed by hand, and a replay that
// stopped there goes on.
func TestStateAtEveryRecord(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	s := replay.Begin(h.part)
	for i := range h.records {
		// begun again each time, with the record that was left out
		for rec, err := range s.Records(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if rec.LSN != h.records[i].lsn || rec.Number != h.records[i].number {
				t.Fatalf("record %d of frame %d is next, it must be %+v", rec.Number, rec.LSN, h.records[i])
			}
			if s.Hash() != h.records[i].before() {
				t.Errorf("another state before record %d of frame %d", rec.Number, rec.LSN)
			}
			if err := s.Apply(rec); err != nil {
				t.Fatal(err)
			}
			break
		}
		if s.Hash() != h.records[i].after() {
			t.Errorf("another state behind record %d", i)
		}
		if want := h.records[i]; want.last && s.At() != want.next || !want.last && s.At() != want.lsn {
			t.Errorf("at %d behind %+v", s.At(), want)
		}
	}
	run(t, s, replay.Watch{}) // nothing is left
	if s.Hash() != h.hash() {
		t.Error("another state at the end")
	}
}

// stateAt is the example in the package's documentation.
func stateAt(ctx context.Context, part log.Partition, lsn event.LSN) (*replay.State, error) {
	s := replay.Newest(part, lsn, nil)
	for rec, err := range s.Records(ctx) {
		if err != nil || rec.LSN >= lsn {
			return s, err
		}
		if err := s.Apply(rec); err != nil {
			return s, err
		}
	}
	return s, nil
}

// The state before each frame is found from the newest checkpoint that is not after it.
func TestStateAtLSN(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	from := map[event.LSN]bool{}
	for _, want := range h.records {
		s, err := stateAt(t.Context(), h.part, want.lsn)
		if err != nil {
			t.Fatal(err)
		}
		if want.number == 1 && s.Hash() != want.before() {
			t.Errorf("another state at LSN %d", want.lsn)
		}
		begin := event.LSN(0)
		for _, at := range h.saved {
			if at <= want.lsn {
				begin = at
			}
		}
		if s.From != begin {
			t.Errorf("the state at LSN %d was begun at %d, the newest checkpoint is at %d", want.lsn, s.From, begin)
		}
		from[begin] = true
	}
	if len(from) != 3 {
		t.Errorf("states were begun at %v, which shows too little", from)
	}
}

// The state at an instant has the records up to it. From which checkpoint it can be taken, its
// newest record says.
func TestStateAtInstant(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for instant := event.Time(999); instant < h.now+2; instant += 250 {
		s := replay.Newest(h.part, 0, nil)
		for s.Index.LastAt() > instant {
			s = replay.Newest(h.part, s.From-1, nil)
		}
		for rec, err := range s.Records(t.Context()) {
			if err == nil && rec.At > instant {
				break
			}
			if err == nil {
				err = s.Apply(rec)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want := h.records[0].before()
		for _, r := range h.records {
			if r.at <= instant {
				want = r.after()
			}
		}
		if s.Hash() != want {
			t.Errorf("another state at %d", instant)
		}
	}
}

// The states between the events of a record, and a record that is applied in two ways.
func TestStep(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	s := replay.Begin(h.part)
	events := 0
	for _, want := range h.records {
		steps := min(len(want.kinds), 1+events%4) // then the rest at once
		events += len(want.kinds)
		done := 0
		for rec, err := range s.Records(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for ; done < steps; done++ {
				if s.Hash() != want.states[done] {
					t.Errorf("another state before event %d of record %d of frame %d", done, rec.Number, rec.LSN)
				}
				if err := s.Step(rec); err != nil {
					t.Fatal(err)
				}
			}
			break
		}
		if done < len(want.kinds) {
			for rec, err := range s.Records(t.Context()) { // the same one again
				if err != nil || rec.LSN != want.lsn || rec.Number != want.number || s.Hash() != want.states[done] {
					t.Fatalf("%+v, %v, want %+v", rec, err, want)
				}
				if err := s.Apply(rec); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		if s.Hash() != want.after() {
			t.Fatalf("another state behind %+v", want)
		}
	}
	if s.Events != events {
		t.Errorf("%d events, %d were written", s.Events, events)
	}
}

// A record is applied in its turn, once.
func TestApplyOutOfTurn(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	s := replay.Begin(h.part)
	refused := func(rec *replay.Record) (refused bool) {
		defer func() { refused = recover() != nil }()
		_ = s.Apply(rec)
		return false
	}
	for rec, err := range replay.Records(t.Context(), h.part, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(rec); err != nil {
			t.Fatal(err)
		}
		if !refused(rec) {
			t.Fatalf("record %d of frame %d was applied twice", rec.Number, rec.LSN)
		}
		if !rec.Last && !refused(&replay.Record{Record: rec.Record, LSN: rec.LSN, Number: rec.Number + 2}) {
			t.Fatal("a record was left out")
		}
	}
	if s.Hash() != h.hash() {
		t.Error("another state at the end")
	}
}

// A run ends at the state of the log whatever it began with, and says frame by frame how far it is.
func TestRun(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	_, end := h.part.Bounds()
	var want []event.LSN
	for _, r := range h.records {
		if r.last {
			want = append(want, r.next)
		}
	}
	for _, s := range []*replay.State{replay.Begin(h.part), replay.Newest(h.part, h.saved[0], nil), replay.Newest(h.part, 0, nil)} {
		begin := s.At()
		if begin != s.From {
			t.Errorf("at %d, from %d", begin, s.From)
		}
		var got []event.LSN
		run(t, s, replay.Watch{Progress: func(at event.LSN) { got = append(got, at) }})
		if s.Hash() != h.hash() || s.At() != end {
			t.Errorf("from %d: another state, at %d of %d", begin, s.At(), end)
		}
		if diff := cmp.Diff(want[len(want)-len(got):], got); diff != "" || len(got) == 0 || begin == 0 && len(got) != len(want) {
			t.Errorf("from %d: progress: -want +got:\n%s", begin, diff)
		}
	}
	h.frame() // the log grew; a run goes on
	s := replay.Newest(h.part, 0, nil)
	run(t, s, replay.Watch{})
	h.frame()
	before := s.Events
	run(t, s, replay.Watch{})
	if s.Hash() != h.hash() || s.Events == before {
		t.Error("a second run did not go on")
	}
}

// Checkpoints are compared wherever they are: before events, before a run that begins, at the end.
// Those with another state are reported in order.
func TestRunCompares(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	_, end := h.part.Bounds()
	h.dir.Save(h.part, end, h.x.Encode(nil))
	list := h.part.Checkpoints() // newest first
	list = append(list, log.CheckpointInfo{LSN: 8, Hash: sha256.Sum256(index.New().Encode(nil))})
	var told []event.LSN
	differs := func(c log.CheckpointInfo) error { told = append(told, c.LSN); return nil }
	run(t, replay.Begin(h.part), replay.Watch{Checkpoints: list, Differs: differs})
	if len(told) > 0 {
		t.Errorf("of good checkpoints those at %v differ", told)
	}
	for i := range list {
		list[i].Hash[5]++
	}
	run(t, replay.Begin(h.part), replay.Watch{Checkpoints: list, Differs: differs})
	if want := []event.LSN{8, h.saved[0], h.saved[1], end}; !slices.Equal(told, want) {
		t.Errorf("checkpoints at %v differ, want %v", told, want)
	}
	told = nil
	run(t, replay.Newest(h.part, h.saved[1], nil), replay.Watch{Checkpoints: list, Differs: differs})
	if want := []event.LSN{h.saved[1], end}; !slices.Equal(told, want) {
		t.Errorf("from the checkpoint on: those at %v differ, want %v", told, want)
	}
	enough := errors.New("enough")
	s := replay.Begin(h.part)
	if err := s.Run(t.Context(), replay.Watch{Checkpoints: list[1:2], Differs: func(log.CheckpointInfo) error { return enough }}); err != enough || s.At() != h.saved[1] {
		t.Errorf("%v at %d", err, s.At())
	}
}

// A state inside a frame is not compared with the checkpoint before that frame.
func TestRunComparesNothingInside(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	s := replay.Begin(h.part)
	for rec, err := range s.Records(t.Context()) {
		if err == nil {
			err = s.Apply(rec)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !rec.Last {
			break
		}
	}
	run(t, s, replay.Watch{Checkpoints: []log.CheckpointInfo{{LSN: s.At()}}, Differs: func(c log.CheckpointInfo) error {
		t.Errorf("compared with the one at %d", c.LSN)
		return nil
	}})
}

// Reading costs the same memory at any number of records, and a replay also costs the memory of the
// index. Not parallel: it counts the process's allocations.
func TestAllocations(t *testing.T) {
	d := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	p, w := d.Lead(0)
	const frames, records = 50, 40
	// which changes nothing
	dropped := &event.DuplicateDropped{Envelope: event.Envelope{Slice: event.Slice{Entity: 4}}, MessageID: []byte("m")}
	for range frames {
		for range records {
			w.Batch().AppendRecord(1000, []event.Event{dropped, dropped}, log.Durable)
		}
		d.Append(w, 1000, dropped)
	}
	t.Cleanup(d.Close)
	const bound = 200 // for frames and the start of a replay, not for 2,000 records
	if n := testing.AllocsPerRun(5, func() {
		for _, err := range replay.Records(t.Context(), p, 0) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}); n > bound {
		t.Errorf("reading asked for memory %v times", n)
	} else {
		t.Logf("reading asked for memory %v times", n)
	}
	if n := testing.AllocsPerRun(5, func() { run(t, replay.Begin(p), replay.Watch{}) }); n > bound {
		t.Errorf("a replay asked for memory %v times", n)
	} else {
		t.Logf("a replay asked for memory %v times", n)
	}
}
