package index

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var elsewhere = event.Slice{Entity: 40, Partition: 2}

// arrival is a message that arrived in q1 from elsewhere.
func arrival(seq event.SequenceNumber, n, floor event.TransferNumber) *event.MessageEnqueued {
	ev := enqueued(seq)
	ev.Arrival = &event.Arrival{Source: elsewhere, Number: n, Floor: floor, Hops: 1, First: 100 + seq}
	return ev
}

func numbers(x *Index, highest event.TransferNumber) (here []event.TransferNumber) {
	for n := event.TransferNumber(1); n <= highest; n++ {
		if x.Arrived(q1.Slice, elsewhere, n) {
			here = append(here, n)
		}
	}
	return here
}

// SM-262: 7 is refused and 8 stored; when 7 is offered again it does not count as arrived.
// Everything below a floor is settled, whether it arrived here or not.
func TestArrivals(t *testing.T) {
	t.Parallel()
	x := New()
	for _, step := range []struct {
		ev   event.Event
		here string
	}{
		{arrival(1, 3, 1), "[3]"},
		{arrival(2, 8, 3), "[1 2 3 8]"},
		{&event.DuplicateDropped{Envelope: q1, Original: 1, Arrival: &event.Arrival{Source: elsewhere, Number: 6, Floor: 3, Hops: 1}}, "[1 2 3 6 8]"},
		{arrival(3, 7, 7), "[1 2 3 4 5 6 7 8]"},
		{&event.SourceForgotten{Envelope: q1, Source: elsewhere}, "[]"},
	} {
		x.Apply(1, step.ev)
		y, err := Decode(x.Encode(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Index{x, y} {
			if got := fmt.Sprint(numbers(x, 9)); got != step.here {
				t.Errorf("after %T %v: %s are here, not %s", step.ev, step.ev.Common(), got, step.here)
			}
		}
	}
	m, _ := x.Message(q1.Slice, 2)
	if m.Hops != 1 || m.EnqueuedSequence != 102 {
		t.Errorf("%+v; want m.Hops == 1 && m.EnqueuedSequence == 102", m)
	}
}

// An event that no engine can have written panics, with a text that says which and where.
func TestMovesThatCannotBe(t *testing.T) {
	t.Parallel()
	env := q1
	start := func(first event.TransferNumber, trigger event.Trigger, seqs ...event.SequenceNumber) event.Event {
		return &event.TransferStarted{Envelope: env, Destination: 9, Trigger: trigger, First: first, Sequences: seqs}
	}
	far := arrival(3, 1, 1)
	far.Arrival.Hops = event.MaxHops
	for _, c := range []struct {
		name   string
		before []event.Event
		bad    event.Event
	}{
		{"a number twice", []event.Event{arrival(3, 5, 5)}, arrival(4, 5, 5)},
		{"a number below the floor", []event.Event{arrival(3, 5, 5)}, arrival(4, 4, 4)},
		{"a number below its own floor", nil, arrival(3, 4, 5)},
		{"forgotten twice", nil, &event.SourceForgotten{Envelope: env, Source: elsewhere}},
		{"a transfer number left out", nil, start(2, event.TriggerForward, 1)},
		{"a message twice", nil, start(1, event.TriggerForward, 1, 1)},
		{"not in the dead-letter queue", nil, start(1, event.TriggerDeadLetter, 1)},
		{"moved too often", []event.Event{far}, start(1, event.TriggerForward, 3)},
		{"finished twice", []event.Event{start(1, event.TriggerForward, 1), &event.TransfersFinished{Envelope: env, Numbers: []event.TransferNumber{1}}},
			&event.TransfersFinished{Envelope: env, Numbers: []event.TransferNumber{1}}},
		{"failed without a beginning", nil, &event.TransferFailed{Envelope: env, Number: 1, SubQueue: event.DeadLetter}},
		{"failed, of another message", []event.Event{start(1, event.TriggerForward, 1)}, &event.TransferFailed{Envelope: env, Number: 1, Sequence: 2, SubQueue: event.DeadLetter}},
		{"locked on its way", []event.Event{start(1, event.TriggerForward, 1)}, &event.MessageLocked{Envelope: env, Sequence: 1, LockedUntil: 5}},
		{"expired on its way", []event.Event{start(1, event.TriggerForward, 1)}, &event.MessageExpired{Envelope: env, Sequence: 1}},
		{"dead-lettered on its way", []event.Event{start(1, event.TriggerForward, 1)}, &event.MessageDeadLettered{Envelope: env, Sequence: 1}},
		{"reserved by nobody", nil, &event.MessageScheduled{Envelope: env, Sequence: 3, Reserved: true}},
		{"reserved and there", nil, &event.MessageScheduled{Envelope: env, Sequence: 2, Reserved: true}},
		{"reserved after a gap", nil, &event.NumbersReserved{Envelope: env, First: 2, Count: 1}},
		{"more than there are", nil, &event.NumbersReserved{Envelope: event.Envelope{Slice: event.Slice{Entity: 5, Partition: 15}}, First: 15<<48 | 1<<48 - 2, Count: 3}},
	} {
		x := New()
		for _, ev := range append([]event.Event{enqueued(1), enqueued(2)}, c.before...) {
			x.Apply(1, ev)
		}
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "index: ") {
					t.Errorf(`%s: %v; want r != nil && strings.HasPrefix(fmt.Sprint(r), "index: ")`, c.name, r)
				}
			}()
			x.Apply(2, c.bad)
		}()
	}
}

// A message in transfer counts at its place, and is shown only in the dead-letter queue.
func TestTransferring(t *testing.T) {
	t.Parallel()
	x := New()
	shown := func(q event.SubQueue) (list []event.SequenceNumber) {
		for m := range x.Browse(q1.Slice, q, 0) {
			list = append(list, m.Sequence)
		}
		return list
	}
	for seq := range event.SequenceNumber(5) {
		x.Apply(1, enqueued(seq+1))
	}
	dead := func(seq event.SequenceNumber, cause event.Cause) {
		x.Apply(1, &event.MessageDeadLettered{Envelope: q1, Sequence: seq, Cause: cause, Changes: event.Blob{Position: 900, Size: 50}})
	}
	dead(4, event.CauseExpired)
	dead(5, event.CauseHopLimit)
	bytes := x.Bytes(q1.Slice)
	x.Apply(1, &event.TransferStarted{Envelope: q1, Destination: 7, Trigger: event.TriggerForward, First: 1, Sequences: []event.SequenceNumber{1, 2}})
	x.Apply(1, &event.TransferStarted{Envelope: q1, Destination: 8, Trigger: event.TriggerDeadLetter, First: 3, Sequences: []event.SequenceNumber{4}})
	if got := fmt.Sprint(shown(event.Main), shown(event.DeadLetter)); got != "[3] [4 5]" {
		t.Errorf("shown: %s", got)
	}
	if got := fmt.Sprint(x.Count(q1.Slice, event.Main, Transferring), x.Count(q1.Slice, event.DeadLetter, Transferring), x.Bytes(q1.Slice) == bytes); got != "2 1 true" {
		t.Errorf("in transfer, bytes: %s", got)
	}
	if n, size := x.OpenTransfers(q1.Slice, event.TriggerDeadLetter); n != 1 || size != 50+int64(enqueued(1).Body.Size) {
		t.Errorf("%d transfers of %d bytes out of the dead-letter queue", n, size)
	}
	if m, ok := x.First(q1.Slice, event.DeadLetter); !ok || m.Sequence != 5 || !m.Stays {
		t.Errorf("the first in the dead-letter queue is %+v", m)
	}
	if got := len(slices.Collect(x.Movable(q1.Slice, event.DeadLetter))); got != 0 {
		t.Errorf("%d messages of the dead-letter queue may move", got)
	}
	x.Apply(1, &event.TransferFailed{Envelope: q1, Number: 3, SubQueue: event.DeadLetter})
	x.Apply(1, &event.TransferFailed{Envelope: q1, Number: 2, SubQueue: event.DeadLetter})
	var movable []event.SequenceNumber
	for m := range x.Movable(q1.Slice, event.DeadLetter) {
		movable = append(movable, m.Sequence)
	}
	if got := fmt.Sprint(movable, shown(event.DeadLetter)); got != "[2] [2 4 5]" {
		t.Errorf("movable, shown: %s", got)
	}
	x.Apply(1, &event.TransferStarted{Envelope: q1, Destination: 8, Trigger: event.TriggerDeadLetter, First: 4, Sequences: []event.SequenceNumber{2}})
	x.Apply(1, &event.TransferFailed{Envelope: q1, Number: 4, SubQueue: event.DeadLetter, Why: event.RefusedGone})
	if got := len(slices.Collect(x.Movable(q1.Slice, event.DeadLetter))); got != 1 {
		t.Errorf("%d messages may move when there is a destination again", got)
	}
	x.Apply(1, &event.TransfersFinished{Envelope: q1, Numbers: []event.TransferNumber{1}})
	x.Apply(1, &event.SliceDropped{Envelope: q1})
	if len(x.Transfers()) != 0 || x.Live() != 0 || x.NextTransfer(q1.Slice) != 1 {
		t.Errorf("left: %v", x.Transfers())
	}
}

// Many stay and many do not, and either are removed first.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	const n = 100
	for _, gone := range []bool{false, true} { // the ones that stay are removed
		x := New()
		for seq := range event.SequenceNumber(n) {
			x.Apply(1, enqueued(seq+1))
			cause := event.CauseExpired
			if seq%2 == 1 {
				cause = event.CauseHopLimit
			}
			x.Apply(1, &event.MessageDeadLettered{Envelope: q1, Sequence: seq + 1, Cause: cause})
		}
		for seq := range event.SequenceNumber(n) {
			if stay := seq%2 == 1; stay == gone {
				x.Apply(1, &event.MessageReceivedAndDeleted{Envelope: q1, Sequence: seq + 1})
			}
		}
		movable := len(slices.Collect(x.Movable(q1.Slice, event.DeadLetter)))
		first, ok := x.First(q1.Slice, event.DeadLetter)
		all := len(slices.Collect(x.BrowseActive(q1.Slice, event.DeadLetter)))
		if !ok || first.Stays == gone || all != n/2 || movable > 0 != gone {
			t.Errorf("those that stay gone: %t: first %+v, %d in all, %d may move", gone, first, all, movable)
		}
	}
}

// A dropped slice also drops its open transfers and its arrivals, in memory as well.
func TestDroppedOnItsWay(t *testing.T) {
	t.Parallel()
	x, empty := New(), New().Encode(nil)
	x.Apply(0, arrival(1, 1, 1))
	x.Apply(0, &event.TransferStarted{Envelope: q1, Destination: 7, Trigger: event.TriggerForward, First: 1, Sequences: []event.SequenceNumber{1}})
	x.Apply(0, &event.MessageHandedOver{Envelope: q1, Sequence: 2, Number: 2, Destination: 8, Body: event.Blob{Position: 1, Size: 1}})
	x.Apply(0, &event.SliceDropped{Envelope: q1})
	if !bytes.Equal(x.Encode(nil), empty) || len(x.Transfers()) > 0 {
		t.Error("something is left")
	}
}

// SM-241: a lock that is held is not due, however late it is, and can be renewed; not held any
// more, it is due at once.
func TestHold(t *testing.T) {
	t.Parallel()
	token := event.LockToken{7}
	due := func(x *Index) int { return len(x.Due(event.EndOfTime, 9)) }
	locked := func() *Index {
		x := New()
		x.Apply(1, enqueued(1))
		x.Apply(1, &event.MessageLocked{Envelope: q1, Sequence: 1, Token: token, LockedUntil: 1000})
		return x
	}
	x := locked()
	free := x.Encode(nil)
	x.Hold(token)
	x.Hold(token)
	if l, ok := x.Lock(token); !ok || !l.Held || due(x) != 0 || x.NextDeadline() != 0 {
		t.Errorf("held: %+v, %d due, deadline %v", l, due(x), x.NextDeadline())
	}
	if !bytes.Equal(x.Encode(nil), free) {
		t.Error("holding a lock is part of the state")
	}
	x.Unhold(token)
	if due(x) != 0 {
		t.Error("due while it is held once more")
	}
	x.Apply(2, &event.LockRenewed{Envelope: q1, Sequence: 1, Token: token, LockedUntil: 2000})
	x.Apply(3, &event.ClockSet{Number: 1, From: 3, To: 13})
	if due(x) != 0 {
		t.Error("due after it was renewed")
	}
	x.Unhold(token)
	x.Unhold(token)
	if l, _ := x.Lock(token); l.Held || due(x) != 1 || l.Until != 2010 {
		t.Errorf("not held: %+v, %d due", l, due(x))
	}
	for _, end := range []event.Event{
		&event.MessageCompleted{Envelope: q1, Sequence: 1, Token: token}, &event.MessageReleased{Envelope: q1, Sequence: 1, Token: token},
		&event.SliceDropped{Envelope: q1},
	} {
		x := locked()
		x.Hold(token)
		x.Apply(2, end)
		x.Unhold(token)
		x.Apply(3, enqueued(2))
		x.Apply(3, &event.MessageLocked{Envelope: q1, Sequence: 2, Token: event.LockToken{8}, LockedUntil: 50})
		if due(x) != 1 {
			t.Errorf("after %T: the next lock in its place is not due", end)
		}
	}
	y := New()
	y.Apply(1, &event.SessionAccepted{Envelope: q1, SessionID: []byte("s"), Token: token, LockedUntil: 9})
	y.Hold(token)
	y.Apply(2, &event.SessionReleased{Envelope: q1, SessionID: []byte("s")})
	y.Unhold(token)
	if y.NextDeadline() != 0 || y.Locks() != 0 {
		t.Error("something is left of a session's lock")
	}
}

// Numbers that are reserved are not given out again, whether a message gets them or not.
func TestReserved(t *testing.T) {
	t.Parallel()
	x := New()
	x.Apply(1, enqueued(1))
	x.Apply(1, &event.NumbersReserved{Envelope: q1, First: 2, Count: 3})
	if got := x.NextSequence(q1.Slice); got != 5 {
		t.Errorf("the next number is %d", got)
	}
	later := enqueued(5)
	later.InSession, later.SessionID = true, []byte("s")
	x.Apply(1, later)
	x.Apply(1, &event.MessageScheduled{Envelope: q1, Sequence: 3, Reserved: true, InSession: true, SessionID: []byte("s"), ScheduledFor: 9, Body: event.Blob{Position: 1, Size: 1}})
	if m, ok := x.FirstOf(q1.Slice, []byte("s")); !ok || m.Sequence != 5 {
		t.Errorf("the first of the session is %+v", m)
	}
	x.Apply(9, &event.ScheduledActivated{Envelope: q1, Sequence: 3, NewSequence: 6})
	var shown []event.SequenceNumber
	for m := range x.BrowseSession(q1.Slice, event.Main, []byte("s"), &Walk{Left: 9}) {
		shown = append(shown, m.Sequence)
	}
	if fmt.Sprint(shown) != "[5 6]" {
		t.Errorf("the session has %v", shown)
	}
}
