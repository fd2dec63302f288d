package loop

import (
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Activity asks a partition what happened in its slices since the loop was made. It is its own
// answer.
type Activity struct {
	engine.Internal
	Since  event.Time      // when all counts were 0
	Slices []SliceActivity // in no order; slices in which nothing happened are missing
}

// SliceActivity counts what happened to the messages of a slice.
type SliceActivity struct {
	Slice     event.Slice
	Received  uint64 // arrived: sent, published to it, or moved to it
	Copies    uint64 // the part of Received that is copies of a topic's messages
	Delivered uint64 // given to a receiver
	Completed uint64 // removed by their receiver
	Failed    uint64 // abandoned, or given back because their lock ended
	Died      uint64 // moved to a dead-letter queue
}

// activity counts what happens in the slices of a partition. Nothing of it is in the log: it begins
// with the loop.
type activity struct {
	part   *engine.Partition
	since  event.Time // when the loop wrote or told something for the first time; 0: it has not
	slices map[event.Slice]*SliceActivity
	last   *SliceActivity // of the newest event; most events are of the slice of the one before
}

func newActivity(part *engine.Partition) activity {
	return activity{part: part, slices: map[event.Slice]*SliceActivity{}, last: new(SliceActivity)}
}

// of returns the counts of a slice.
func (a *activity) of(id event.Slice) *SliceActivity {
	if a.last.Slice == id {
		return a.last
	}
	s := a.slices[id]
	if s == nil {
		s = &SliceActivity{Slice: id}
		a.slices[id] = s
	}
	a.last = s
	return s
}

// record counts the events of a record before they are applied, while the state still has the
// transfers that they end.
func (a *activity) record(now event.Time, events []event.Event) {
	a.begin(now)
	for _, ev := range events {
		a.count(ev)
	}
}

// count counts an event. Each kind is here, except facts and those of the catalogue.
func (a *activity) count(ev event.Event) {
	switch ev := ev.(type) {
	case *event.MessageEnqueued: // sent, or moved here
		a.of(ev.Slice).Received++
	case *event.MessageScheduled: // arrives once: when it is sent
		a.of(ev.Slice).Received++
	case *event.MessagePublished:
		a.of(ev.Slice).Received++
		a.countCopies(ev.Slice.Partition, ev.Copies)
	case *event.ScheduledPublished: // the topic has received it as a MessageScheduled
		a.countCopies(ev.Slice.Partition, ev.Copies)

	case *event.MessageLocked:
		a.of(ev.Slice).Delivered++
	case *event.MessageReceivedAndDeleted:
		s := a.of(ev.Slice)
		s.Delivered++
		s.Completed++
	case *event.MessageCompleted:
		a.of(ev.Slice).Completed++

	case *event.MessageAbandoned:
		a.of(ev.Slice).Failed++
	case *event.LockExpired:
		a.of(ev.Slice).Failed++
	case *event.SessionReleased: // the other causes count no failed delivery
		if ev.Cause == event.ReleaseExpired && len(ev.Returned) > 0 {
			a.of(ev.Slice).Failed += uint64(len(ev.Returned))
		}
	case *event.MessageDeadLettered:
		a.of(ev.Slice).Died++
	case *event.TransferFailed:
		_, t, _ := a.part.Index().Transfer(ev.Slice, ev.Number)
		if t.Trigger != event.TriggerDeadLetter { // else it was dead before
			a.of(ev.Slice).Died++
		}

	case *event.SliceDropped:
		delete(a.slices, ev.Slice)
		a.last = new(SliceActivity)

	case *event.ScheduledActivated, // received when it was scheduled
		*event.DuplicateDropped,  // not stored
		*event.MessageHandedOver, // received by the entity that it is sent to, when it is there
		*event.TransferStarted, *event.TransfersFinished, *event.SourceForgotten,
		*event.MessageReleased, *event.MessageDeferred, // neither fails
		*event.LockRenewed, *event.ScheduleCancelled,
		*event.MessageExpired, *event.MessagesBatchDeleted, // removed, but not by a receiver
		*event.SessionAccepted, *event.SessionLockRenewed, *event.SessionStateSet,
		*event.NumbersReserved:
	}
}

// countCopies counts the copies of a published message. Some are dead-lettered at once.
func (a *activity) countCopies(partition uint8, copies []event.Copy) {
	for i := range copies {
		s := a.of(event.Slice{Entity: copies[i].Subscription, Partition: partition})
		s.Received++
		s.Copies++
		if copies[i].Cause != 0 {
			s.Died++
		}
	}
}

// begin notes when counting begins.
func (a *activity) begin(now event.Time) {
	if a.since == 0 {
		a.since = now
	}
}

// tell fills in an answer.
func (a *activity) tell(now event.Time, cmd *Activity) engine.Reply {
	a.begin(now)
	cmd.Since, cmd.Slices = a.since, make([]SliceActivity, 0, len(a.slices))
	for _, s := range a.slices {
		cmd.Slices = append(cmd.Slices, *s)
	}
	return engine.Reply{Answer: cmd}
}
