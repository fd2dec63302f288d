package index

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func FuzzDecode(f *testing.F) {
	x := New()
	random(x, rand.New(rand.NewPCG(1, 1)), 200)
	f.Add(x.Encode(nil))
	f.Add(small().Encode(nil))
	f.Add(smallMoves().Encode(nil))
	for seed := range uint64(4) { // every kind of event
		y := New()
		w := newWalk(seed, y)
		for range 60 << seed {
			w.step()
		}
		f.Add(y.Encode(nil))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if err := tryDecode(src); err != nil {
			t.Fatal(err)
		}
	})
}

// tryDecode decodes anything: it is refused, or it is a state like any other, which can be encoded
// and used.
func tryDecode(src []byte) error {
	x, err := Decode(src)
	switch {
	case errors.Is(err, errEncoding):
		return nil
	case err != nil:
		return err
	}
	y, err := Decode(x.Encode(nil))
	if err != nil || !bytes.Equal(x.Encode(nil), y.Encode(nil)) {
		return fmt.Errorf("not a fixpoint: %w", err)
	}
	if a, b := answers(x, 1000), answers(y, 1000); a != b {
		return fmt.Errorf("answers differ:\n%s\n%s", a, b)
	}
	forgetAll(x, false)
	forgetAll(y, true)
	return nil
}

// small is a state with a little of everything.
func small() *Index {
	x := New()
	at := func(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }
	token := event.LockToken{1, 2, 3}
	for _, ev := range []event.Event{
		&event.EntityCreated{Envelope: at(1), EntityKind: event.Topic, Path: "t", Properties: event.Properties{
			AccessRules: []event.AccessRule{{Name: "a", Rights: event.Rights{event.Send}, Primary: "p"}}}},
		&event.EntityCreated{Envelope: at(2), EntityKind: event.Subscription, Path: "t/s", Topic: 1},
		&event.EntityCreated{Envelope: at(3), EntityKind: event.Queue, Path: "q"},
		&event.RuleAdded{Envelope: at(2), Rule: event.Rule{Name: "r", Filter: event.Filter{Kind: event.SQLFilter, Text: "a=@b",
			Parameters: []event.Property{{Name: "@b", Value: event.Value{Type: event.Long, Bits: 5}}}}, Action: event.Action{Text: "SET a=1"}}},
		&event.RuleAdded{Envelope: at(2), Rule: event.Rule{Name: "c", Filter: event.Filter{Kind: event.CorrelationFilter,
			Conditions: []event.Condition{{Field: event.FieldLabel, Text: "l"}}}}},
		&event.MessagePublished{Envelope: at(1), Sequence: 4, EnqueuedAt: 1, MessageID: []byte("m"), DuplicateUntil: 90,
			Body: event.Blob{Position: 100, Size: 9, Sum: 5}, Copies: []event.Copy{
				{Subscription: 2, Sequence: 1, ExpiresAt: 50, InSession: true, SessionID: []byte("s")},
				{Subscription: 2, Sequence: 2, Cause: event.CauseFilter, Changes: event.Blob{Position: 110, Size: 3}},
			}},
		&event.MessageScheduled{Envelope: at(1), Sequence: 5, ScheduledFor: 80, Body: event.Blob{Position: 120, Size: 4}},
		&event.SessionAccepted{Envelope: at(2), SessionID: []byte("s"), Token: token, LockedUntil: 70},
		&event.MessageLocked{Envelope: at(2), Sequence: 1, Token: event.LockToken{9}},
		&event.SessionStateSet{Envelope: at(2), SessionID: []byte("s"), State: event.Blob{Position: 130, Size: 2}},
	} {
		x.Apply(1, ev)
	}
	return x
}

// smallMoves is a state with a little of everything that moves.
func smallMoves() *Index {
	x := New()
	from, other := event.Slice{Entity: 5, Partition: 1}, event.Slice{Entity: 6}
	for _, ev := range []event.Event{
		enqueued(1), enqueued(2), enqueued(3),
		&event.MessageEnqueued{Envelope: q1, Sequence: 4, Body: event.Blob{Position: 10, Size: 2}, Arrival: &event.Arrival{Source: from, Number: 9, Floor: 7, Hops: 2, First: 60,
			DeadLetterSource: "a", Changes: event.Blob{Position: 20, Size: 1}}},
		&event.DuplicateDropped{Envelope: q1, Arrival: &event.Arrival{Source: from, Number: 7, Floor: 7, Hops: 1}},
		&event.MessageScheduled{Envelope: q1, Sequence: 5, ScheduledFor: 80, Arrival: &event.Arrival{Source: other, Number: 1, Hops: 4, First: 61}},
		&event.MessageDeadLettered{Envelope: q1, Sequence: 2, Cause: event.CauseHopLimit},
		&event.MessageDeadLettered{Envelope: q1, Sequence: 3},
		&event.TransferStarted{Envelope: q1, Destination: 8, Trigger: event.TriggerForward, First: 1, Sequences: []event.SequenceNumber{1, 4}},
		&event.TransferStarted{Envelope: q1, Destination: 9, Trigger: event.TriggerDeadLetter, First: 3, Sequences: []event.SequenceNumber{3}},
		&event.MessageHandedOver{Envelope: q1, Sequence: 6, Body: event.Blob{Position: 30, Size: 4}, Destination: 9, Number: 4},
	} {
		x.Apply(1, ev)
	}
	return x
}

// Every byte of a state replaced by others, and the state cut off at every byte: no panic, and
// nothing that is not a state is taken for one.
func TestDecodeChangedBytes(t *testing.T) {
	t.Parallel()
	for _, x := range []*Index{small(), smallMoves()} {
		changeBytes(t, x.Encode(nil))
	}
}

func changeBytes(t *testing.T, good []byte) {
	t.Helper()
	if err := tryDecode(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if _, err := Decode(good[:i]); !errors.Is(err, errEncoding) {
			t.Errorf("cut off at byte %d: %v", i, err)
		}
		src := slices.Clone(good)
		for v := range 256 {
			if v > 4 && v < 250 && bits.OnesCount8(byte(v)^good[i]) > 1 {
				// the rest are small numbers, large ones, and those that differ in one bit
				continue
			}
			src[i] = byte(v)
			if err := tryDecode(src); err != nil {
				t.Fatalf("byte %d of %d is %#x instead of %#x: %v", i, len(good), v, good[i], err)
			}
		}
	}
}

// encoded appends the encoding of a part of a state. It knows one scheduled message.
func encoded(dst []byte, part func(*stateEncoder)) []byte {
	w := &stateEncoder{view: new(view), dst: dst}
	w.schedule.add(&versions{now: 1}, scheduledEntry{})
	part(w)
	return w.dst
}

// Slices whose rows are inconsistent, or that belong to an entity that cannot own them.
func TestDecodeRefusesSlices(t *testing.T) {
	t.Parallel()
	topic, sub, other := newSlice(event.Slice{Entity: 1}, New().shared), newSlice(event.Slice{Entity: 2}, New().shared), newSlice(event.Slice{Entity: 3}, New().shared)
	sub.topic, other.topic = topic.id.Entity, sub.id.Entity
	elsewhere := newSlice(event.Slice{Entity: 4, Partition: 1}, New().shared)
	elsewhere.topic = topic.id.Entity
	foreign := newSlice(event.Slice{Entity: 4, Partition: 1}, New().shared)
	foreign.last = 9
	copied := func(change func(r *row, l *node)) *slice {
		s := newSlice(event.Slice{Entity: 2}, New().shared)
		s.topic, s.last = topic.id.Entity, 5
		s.store(5, row{marks: in(event.Main, Active), size: 3})
		s.rows.find(5).setOrigin(7)
		change(s.rows.edit(&s.shared.versions, 5), s.rows.root)
		return s
	}
	for _, c := range []struct {
		name   string
		slices []*slice
		ok     bool
	}{
		{"topic, subscription", []*slice{topic, sub}, true},
		{"a copy", []*slice{topic, copied(func(*row, *node) {})}, true},
		{"subscription before its topic", []*slice{sub, topic}, false},
		{"subscription without topic", []*slice{sub}, false},
		{"subscription of a subscription", []*slice{topic, sub, other}, false},
		{"topic in another partition", []*slice{topic, elsewhere}, false},
		{"numbers of another partition", []*slice{foreign}, false},
		{"slices out of order", []*slice{other, topic}, false},
		{"a slice twice", []*slice{topic, topic}, false},
		{"a changed message without changes", []*slice{topic, copied(func(r *row, _ *node) { r.marks |= changed })}, false},
		{"a scheduled copy", []*slice{topic, copied(func(r *row, _ *node) { r.marks, r.lock = in(event.Main, Scheduled), 1 })}, false},
		{"scheduled and dead-lettered", []*slice{topic, copied(func(r *row, l *node) { r.marks, r.lock, l.extra = in(event.DeadLetter, Scheduled), 1, nil })}, false},
		{"scheduled and was scheduled", []*slice{topic, copied(func(r *row, l *node) { r.marks, r.lock, l.extra = in(event.Main, Scheduled)|wasScheduled, 1, nil })}, false},
		{"no such sub-queue", []*slice{topic, copied(func(r *row, _ *node) { r.marks = in(3, Active) })}, false},
	} {
		src := New().Encode(nil)
		src = append(src[:len(src)-1], byte(len(c.slices)))
		for _, s := range c.slices {
			src = encoded(src, func(w *stateEncoder) { w.slice(s.keptSlice) })
		}
		_, err := Decode(src)
		if ok := err == nil; ok != c.ok || !ok && !errors.Is(err, errEncoding) {
			t.Errorf("%s: %v; want ok == c.ok && (ok || errors.Is(err, errEncoding))", c.name, err)
		}
		if err := tryDecode(src); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Transfers and arrivals that cannot be are refused.
func TestDecodeRefusesMoves(t *testing.T) {
	t.Parallel()
	kept := func(x *Index) *slice { return x.slices.of(q1.Slice) }
	leaving := func(x *Index, seq event.SequenceNumber) *transfer {
		s := kept(x)
		return s.shared.transfers.edit(&s.shared.versions, s.rows.find(seq).row().lock)
	}
	mark := func(seq event.SequenceNumber, set func(marks) marks) func(*Index) {
		return func(x *Index) {
			s := kept(x)
			r := s.rows.edit(&s.shared.versions, seq)
			r.marks = set(r.marks)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Index)
		ok     bool
	}{
		{"as it is", func(*Index) {}, true},
		{"a transfer number twice", func(x *Index) { leaving(x, 4).number = 1 }, false},
		{"a transfer number that was not given out", func(x *Index) { kept(x).given = 3 }, false},
		{"no transfer number was given out", func(x *Index) { kept(x).given = 0 }, false},
		{"transfer 0", func(x *Index) { leaving(x, 4).number = 0 }, false},
		{"no trigger", func(x *Index) { leaving(x, 4).trigger = 0 }, false},
		{"an unknown trigger", func(x *Index) { leaving(x, 4).trigger = 4 }, false},
		{"a dead letter in the main queue", func(x *Index) { leaving(x, 1).trigger = event.TriggerDeadLetter }, false},
		{"forwarded out of the dead-letter queue", func(x *Index) { leaving(x, 3).trigger = event.TriggerForward }, false},
		{"in transfer after four moves", mark(1, func(m marks) marks { return m.moves(4) }), false},
		{"in transfer and stays", mark(3, func(m marks) marks { return m | stays }), false},
		{"five moves", mark(2, func(m marks) marks { return m.moves(5) }), false},
		{"four moves", mark(2, func(m marks) marks { return m.moves(4) }), true},
		{"from a dead-letter queue without a move", mark(4, func(m marks) marks { return m.moves(0) }), false},
		{"scheduled, from elsewhere, without a move", mark(5, func(m marks) marks { return m.moves(0) }), false},
		{"sources out of order", func(x *Index) { slices.Reverse(kept(x).arrived.sources) }, false},
		{"a source twice", func(x *Index) { kept(x).arrived.sources[1].slice = kept(x).arrived.sources[0].slice }, false},
		{"clock without a number", func(x *Index) { x.clock.Shift = 5 }, false},
		{"clock with a number", func(x *Index) { x.clock.Number, x.clock.Shift = 1, 5 }, true},
		{"an arrival below the floor", func(x *Index) { kept(x).arrived.sources[0].floor = 8 }, false},
	} {
		x := smallMoves()
		c.change(x)
		src := x.Encode(nil)
		_, err := Decode(src)
		if ok := err == nil; ok != c.ok || !ok && !errors.Is(err, errEncoding) {
			t.Errorf("%s: %v; want ok == c.ok && (ok || errors.Is(err, errEncoding))", c.name, err)
		}
		if err := tryDecode(src); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	nothing := append(New().Encode(nil), 0, 0)
	for name, src := range map[string][]byte{"a clock that is none": nothing, "moves of no slice": append(nothing, 0), "moves of a slice that is not there": append(nothing, 1, 1, 0, 1, 0)} {
		if _, err := Decode(src); !errors.Is(err, errEncoding) {
			t.Errorf("%s: %v; want errors.Is(err, errEncoding)", name, err)
		}
	}
}

// forgetAll ends every session and drops every slice, topics before their subscriptions or after
// them, and every entity.
func forgetAll(x *Index, backwards bool) {
	for _, l := range x.HeldSessions() {
		ev := &event.SessionReleased{Envelope: event.Envelope{Slice: l.Slice}, SessionID: []byte(l.Session)}
		for m := range x.LockedOf(l.Slice, ev.SessionID) {
			ev.Returned = append(ev.Returned, event.Returned{Sequence: m.Sequence})
		}
		x.Apply(1, ev)
	}
	ids := x.Slices()
	if backwards {
		slices.Reverse(ids)
	}
	for _, id := range ids {
		x.Apply(1, &event.SliceDropped{Envelope: event.Envelope{Slice: id}})
		if x.Bytes(id) != 0 {
			panic(fmt.Sprintf("slice %v is gone and has %d bytes", id, x.Bytes(id)))
		}
	}
	all := x.Catalogue.All()
	slices.Reverse(all) // subscriptions are younger than their topics
	for _, e := range all {
		x.Apply(1, &event.EntityDeleted{Envelope: event.Envelope{Slice: event.Slice{Entity: e.ID}}})
	}
	if x.Catalogue.Roots() != 0 || x.Catalogue.Partitioned() != 0 {
		panic(fmt.Sprintf("left: %d queues and topics, %d partitioned", x.Catalogue.Roots(), x.Catalogue.Partitioned()))
	}
	if x.Locks() != 0 || x.Live() != 0 || x.NextDeadline() != 0 || len(x.Transfers()) != 0 {
		panic(fmt.Sprintf("left: %d locks, %d messages, %d transfers, deadline %v", x.Locks(), x.Live(), len(x.Transfers()), x.NextDeadline()))
	}
}
