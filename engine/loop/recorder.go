package loop

import (
	"fmt"
	"log/slog"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// recorder carries out decisions: it adds their events to the frame being filled, counts and
// applies them, and tells receivers, transfers and replies, which have a method decided.
type recorder struct {
	// set once in New
	part      *engine.Partition
	clock     func() event.Time
	logger    *slog.Logger
	activity  *activity
	receivers *receivers
	transfers *transfers
	frames    *frames
	replies   *replies

	// owned by the loop
	unwritten bool  // the next due message has to be written before it can be read back
	err       error // why the loop stopped
}

// now returns the time of a batch: broker time, but never before anything in the log (semantics.md
// 4.3 R4).
func (r *recorder) now() event.Time { return max(r.clock(), r.part.Index().LastAt()) }

// write adds a decision's events to the frame being filled and applies them, so that the next
// command sees them.
func (r *recorder) write(now event.Time, out engine.Outcome) {
	r.part.Adopt(&out)
	if len(out.Events) == 0 {
		return
	}
	r.record(now, out)
}

// record writes one record and applies it.
func (r *recorder) record(now event.Time, out engine.Outcome) {
	at := r.frames.append(now, out)
	r.activity.record(now, out.Events)
	r.replies.waitFor(r.frames.wrote, r.frames.solid)
	for _, ev := range out.Events {
		r.part.Apply(now, ev)
		r.decided(ev, at)
		dropBody(ev)
	}
}

// decided tells the parts of the loop about an event that has been applied, with an address in its
// frame.
func (r *recorder) decided(ev event.Event, at event.LSN) {
	r.replies.decided(ev, at)
	r.transfers.decided(ev)
	if lost := r.receivers.decided(ev); lost != nil {
		r.replies.tellEnded(lost, engine.SessionLost())
	}
}

// dropBody drops a body after the frame has a copy of it. The event stays in memory until the next
// decision needs one of its kind, and a body of up to 100 MiB would stay with it.
func dropBody(ev event.Event) {
	var body *event.Blob
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		body = &ev.Body
	case *event.MessageScheduled:
		body = &ev.Body
	case *event.MessagePublished:
		body = &ev.Body
	case *event.MessageHandedOver:
		body = &ev.Body
	default:
		return
	}
	body.Data, body.Tail = nil, nil
}

// background writes unrequested events.
func (r *recorder) background(now event.Time, out engine.Outcome) {
	before := r.frames.writer.Batch().Len()
	r.write(now, out)
	r.frames.background += r.frames.writer.Batch().Len() - before
}

// awaited reports whether a reply, or a due message, waits for the log.
func (r *recorder) awaited() bool { return r.replies.any() || r.unwritten }

// commit hands the next group on; see [frames.commit].
func (r *recorder) commit() (written bool) { return r.frames.commit(r.awaited()) }

// commitLarge hands a large group on, if the disk is free.
func (r *recorder) commitLarge() {
	if r.frames.group() > maxOpen {
		r.commit()
	}
}

// fail stops the partition: memory is ahead of the disk, and after a failed sync the page cache may
// be wrong. Nothing is retried; every waiting caller learns that the outcome is unknown.
func (r *recorder) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("engine: partition %d: %w", r.part.ID(), err)
		r.logger.Error("partition stopped", "partition", r.part.ID(), "error", err)
	}
}
