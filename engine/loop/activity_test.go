package loop

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// countedKinds is what one event of each kind counts in its slice.
var countedKinds = map[event.Kind]SliceActivity{
	event.KindMessageEnqueued:           {Received: 1},
	event.KindMessageScheduled:          {Received: 1},
	event.KindMessagePublished:          {Received: 1},
	event.KindMessageLocked:             {Delivered: 1},
	event.KindMessageReceivedAndDeleted: {Delivered: 1, Completed: 1},
	event.KindMessageCompleted:          {Completed: 1},
	event.KindMessageAbandoned:          {Failed: 1},
	event.KindLockExpired:               {Failed: 1},
	event.KindMessageDeadLettered:       {Died: 1},
	event.KindTransferFailed:            {Died: 1},
	// with three returned messages
	event.KindSessionReleased: {Failed: 3},

	event.KindScheduledActivated: {}, event.KindScheduledPublished: {}, event.KindScheduleCancelled: {},
	event.KindDuplicateDropped: {}, event.KindMessageHandedOver: {}, event.KindTransferStarted: {},
	event.KindTransfersFinished: {}, event.KindSourceForgotten: {}, event.KindLockRenewed: {},
	event.KindMessageReleased: {}, event.KindMessageDeferred: {}, event.KindMessageExpired: {},
	event.KindMessagesBatchDeleted: {}, event.KindSessionAccepted: {}, event.KindSessionLockRenewed: {},
	event.KindSessionStateSet: {}, event.KindSliceDropped: {}, event.KindNumbersReserved: {},

	event.KindOriginDefined: {}, event.KindClockSet: {},
	event.KindEntityCreated: {}, event.KindEntityUpdated: {}, event.KindEntityDeleted: {}, event.KindEntityTouched: {},
	event.KindRuleAdded: {}, event.KindRuleUpdated: {}, event.KindRuleRemoved: {}, event.KindHistoryPolicySet: {},
	event.KindCatalogueRestored: {}, event.KindSliceRestored: {}, event.KindSessionsRestored: {}, event.KindRowsRestored: {},
	event.KindHistoryRestored: {},
}

// newCounts returns counts over an empty state.
func newCounts() activity { return newActivity(engine.NewPartition(0, 1, index.New())) }

// It is decided of each kind of event whether it counts, and as what. Facts count nothing.
func TestCountedKinds(t *testing.T) {
	t.Parallel()
	var pool event.Pool
	for k := range 256 {
		ev := pool.New(event.Kind(k))
		if ev == nil {
			continue
		}
		want, decided := countedKinds[ev.Kind()]
		if !decided && !ev.Kind().IsFact() {
			t.Errorf("%v is not in the table", ev.Kind())
		}
		ev.Common().Slice = handEntity
		if released, ok := ev.(*event.SessionReleased); ok {
			released.Cause, released.Returned = event.ReleaseExpired, make([]event.Returned, 3)
		}
		a := newCounts()
		a.count(ev)
		got := SliceActivity{}
		if s := a.slices[handEntity]; s != nil {
			got, want.Slice = *s, handEntity
		}
		if got != want {
			t.Errorf("%v counts %+v, want %+v", ev.Kind(), got, want)
		}
	}
}

// The copies of a message count for their subscriptions, whether it was scheduled or not; one that
// is dead-lettered at once has died.
func TestCountedCopies(t *testing.T) {
	t.Parallel()
	copies := []event.Copy{{Subscription: 2}, {Subscription: 3, Cause: event.CauseFilter}}
	for _, ev := range []event.Event{&event.MessagePublished{Envelope: event.Envelope{Slice: handEntity}, Copies: copies},
		&event.ScheduledPublished{Envelope: event.Envelope{Slice: handEntity}, Copies: copies}} {
		a := newCounts()
		a.count(ev)
		for id, want := range map[event.EntityID]SliceActivity{2: {Received: 1, Copies: 1}, 3: {Received: 1, Copies: 1, Died: 1}} {
			want.Slice = event.Slice{Entity: id}
			if got := *a.of(want.Slice); got != want {
				t.Errorf("%v: %+v, want %+v", ev.Kind(), got, want)
			}
		}
	}
}

// Neither a session that its receiver gives back nor a dead letter that cannot be forwarded counts
// as a failure: the one was not failed, the other was dead before.
func TestNotCounted(t *testing.T) {
	t.Parallel()
	x := index.New()
	in := event.Envelope{Slice: handEntity}
	for _, ev := range []event.Event{
		&event.MessageEnqueued{Envelope: in, Sequence: 1},
		&event.MessageDeadLettered{Envelope: in, Sequence: 1, Cause: event.CauseExpired},
		&event.TransferStarted{Envelope: in, Destination: 9, Trigger: event.TriggerDeadLetter, First: 1, Sequences: []event.SequenceNumber{1}},
	} {
		x.Apply(1, ev)
	}
	a := newActivity(engine.NewPartition(0, 1, x))
	a.count(&event.TransferFailed{Envelope: in, Number: 1, SubQueue: event.DeadLetter, Sequence: 1})
	a.count(&event.SessionReleased{Envelope: in, Cause: event.ReleaseClosed, Returned: make([]event.Returned, 3)})
	if s := a.slices[handEntity]; s != nil && *s != (SliceActivity{Slice: handEntity}) {
		t.Errorf("%+v", *s)
	}
}

// A slice that is dropped has no counts any more, and takes none to another one.
func TestDroppedSliceIsNotCounted(t *testing.T) {
	t.Parallel()
	a := newCounts()
	a.count(&event.MessageEnqueued{Envelope: event.Envelope{Slice: handEntity}})
	a.count(&event.SliceDropped{Envelope: event.Envelope{Slice: handEntity}})
	if len(a.slices) != 0 {
		t.Errorf("%v", a.slices)
	}
	a.count(&event.MessageEnqueued{Envelope: event.Envelope{Slice: handEntity}})
	if got := a.slices[handEntity]; got == nil || got.Received != 1 {
		t.Errorf("%+v", got)
	}
}

// A partition tells what is durable only, and what happened since the loop was made.
func TestActivity(t *testing.T) {
	t.Parallel()
	h := byHandAlone(t, testQueue())
	asked := &Activity{}
	h.loop.Turn([]engine.Request{
		{Sink: h, Command: &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("x")}}}},
		{Sink: h, Command: asked},
	})
	answered := func() bool {
		for _, r := range h.got {
			if r.Answer == engine.Answer(asked) {
				return true
			}
		}
		return false
	}
	if answered() {
		t.Error("answered before the message was durable")
	}
	h.land()
	if want := (SliceActivity{Slice: handEntity, Received: 1}); !answered() || len(asked.Slices) != 1 || asked.Slices[0] != want {
		t.Errorf("%+v", asked)
	}
}

// Counting an event of a slice that is counted already allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	a := newCounts()
	events := []event.Event{&event.MessageEnqueued{Envelope: event.Envelope{Slice: handEntity}}, &event.MessageLocked{Envelope: event.Envelope{Slice: event.Slice{Entity: 2}}}}
	if n := testing.AllocsPerRun(100, func() {
		for _, ev := range events {
			a.count(ev)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
