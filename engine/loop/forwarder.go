package loop

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// forwarder moves messages from the slices of a partition to other entities. It puts the messages
// of queues with a standing order in transfer, and gives the courier, in order, all transfers that
// are durable. The courier's results end the transfers.
type forwarder struct {
	// set once in New
	transfers *transfers
	recorder  *recorder
	tooOften  event.SubQueue // sub-queue for messages that were moved too often
}

// turn starts transfers and gives the courier its news.
func (f *forwarder) turn(now event.Time) {
	if !f.transfers.active() {
		return
	}
	for n := f.transfers.ready.Len(); n > 0 && !f.recorder.frames.full(); n-- {
		o := f.transfers.ready.Pop()
		o.marked = false
		if f.start(now, o) {
			f.transfers.mark(o)
		}
	}
	for n := f.transfers.unreported.Len(); n > 0; n-- {
		d := f.transfers.unreported.Pop()
		d.marked = false
		f.tell(d)
	}
}

// start puts messages of a queue in transfer, and reports whether there may be more to put.
func (f *forwarder) start(now event.Time, o *order) (more bool) {
	if o.trigger == event.TriggerDeadLetter && o.destination == 0 {
		return false // they wait where they are
	}
	count, bytes := f.transfers.openTransfers(o)
	if count >= maxOpenTransfers || bytes >= maxOpenBytes || f.transfers.waitsForOldest(o.slice, o.destination, f.transfers.part.Index().NextTransfer(o.slice)) {
		return false // the end of a transfer tries again
	}
	f.recorder.commitLarge()
	out := f.transfers.part.Decide(now, &engine.Forward{Slice: o.slice, Trigger: o.trigger, Destination: o.destination, TooOften: f.tooOften,
		Count: maxOpenTransfers - count, Bytes: maxOpenBytes - bytes})
	again := out.Again
	f.recorder.background(now, out)
	return again
}

// finish handles the results of transfers.
func (f *forwarder) finish(now event.Time, cmd *TransferResults) {
	d := f.transfers.sources[cmd.Source]
	if d == nil {
		return // the entity was deleted
	}
	n := len(cmd.Arrived) + len(cmd.Failed)
	out := d.transferQueue(cmd.Trigger, cmd.Destination)
	f.transfers.outstanding -= n
	out.count -= n
	out.bytes -= cmd.Bytes
	to := f.destinations(cmd)
	if len(cmd.Arrived) > 0 {
		f.recorder.background(now, f.transfers.part.Decide(now, &engine.FinishTransfers{Slice: cmd.Source, Numbers: cmd.Arrived}))
	}
	for i := range cmd.Failed {
		f.recorder.background(now, f.transfers.part.Decide(now, &cmd.Failed[i]))
	}
	for _, destination := range to {
		f.transfers.floors.Push(floorAt{f.recorder.frames.wrote, cmd.Source, Floor{Destination: destination, Number: f.transfers.floorOf(cmd.Source, destination)}})
	}
	f.transfers.mark(f.transfers.orders[orderKey{cmd.Source, cmd.Trigger}])
	waits := out.untold.Len() > 0
	// orders with other triggers may have waited for the oldest transfer as well: see
	// waitsForOldest
	if e := f.transfers.entity(cmd.Destination); e != nil && len(e.Hosts) > 1 {
		f.transfers.mark(f.transfers.orders[orderKey{cmd.Source, event.TriggerForward}])
		f.transfers.mark(f.transfers.orders[orderKey{cmd.Source, event.TriggerDeadLetter}])
		waits = slices.ContainsFunc(d.queues, func(o *transferQueue) bool { return o.untold.Len() > 0 })
	}
	if waits {
		f.transfers.markNews(d)
	}
	d.tidy(out)
	f.transfers.unthrottle()
}

// destinations returns the destinations of transfers that are about to end.
func (f *forwarder) destinations(cmd *TransferResults) (to []event.EntityID) {
	note := func(n event.TransferNumber) {
		if _, t, ok := f.transfers.part.Index().Transfer(cmd.Source, n); ok && !slices.Contains(to, t.Destination) {
			to = append(to, t.Destination)
		}
	}
	if len(cmd.Arrived) > 0 {
		note(cmd.Arrived[0]) // the transfers of a stream have one destination
	}
	if len(cmd.Failed) > 0 {
		note(cmd.Failed[0].Number)
	}
	return to
}

// tell gives the courier the next transfers of a slice, as soon as they are durable.
func (f *forwarder) tell(d *sliceTransfers) {
	told := &TransferBatch{Source: d.slice}
	for _, o := range d.queues {
		f.handOver(d, o, told)
	}
	if len(told.Transfers) > 0 {
		f.recorder.replies.hold(heldReply{sink: f.transfers.courier, reply: engine.Reply{Answer: told}})
	}
}

// handOver adds to the courier's batch as many transfers of one kind as it may have. It gets more
// when some of those end.
func (f *forwarder) handOver(d *sliceTransfers, o *transferQueue, told *TransferBatch) {
	for o.untold.Len() > 0 && !o.full() && !f.transfers.waitsForOldest(d.slice, o.destination, *o.untold.Front()) {
		if f.transfers.outstanding >= maxOutstanding && o.count >= minOutstanding {
			if !d.throttled {
				d.throttled = true
				f.transfers.throttled.Push(d)
			}
			return
		}
		m, t, ok := f.transfers.part.Index().Transfer(d.slice, o.untold.Pop())
		if !ok {
			continue
		}
		one := engine.TransferOf(&m, &t)
		if o.trigger == event.TriggerDeadLetter {
			// the entity may be deleted before the message leaves
			one.DeadLetterSource = f.transfers.path(d.slice)
		}
		addTransfer(told, one, d.floors)
		f.transfers.outstanding++
		o.count++
		o.bytes += one.Bytes()
	}
}

// addTransfer adds a transfer to a batch, with the floor of its destination.
func addTransfer(told *TransferBatch, t engine.Transfer, floors map[event.EntityID]event.TransferNumber) {
	told.Transfers = append(told.Transfers, t)
	n, known := floors[t.Destination]
	if known && !slices.ContainsFunc(told.Floors, func(fl Floor) bool { return fl.Destination == t.Destination }) {
		told.Floors = append(told.Floors, Floor{Destination: t.Destination, Number: n})
	}
}
