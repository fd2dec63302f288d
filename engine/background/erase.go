package background

import (
	"context"
	"errors"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Erase erases the body of a message, as [engine.Erasures] says. The request is durable before the
// body is deleted. If the process dies in between, or the caller leaves, the eraser still carries
// the request out.
func (v *Eraser) Erase(ctx context.Context, entity string, message event.SequenceNumber, by *engine.Origin, why event.ReasonGiven) (engine.ErasedBody, error) {
	out := engine.ErasedBody{Sequence: message}
	if err := engine.CheckReason(why.Reason); err != nil {
		return out, err
	}
	target, err := v.of.Resolve(entity)
	if err != nil {
		return out, err
	}
	p := target.OfSequence(message)
	if message == 0 || int(message.Partition()) >= len(target.Entity.Hosts) {
		return out, noBody(entity, message)
	}
	e := erasure{of: v.of, id: target.Host(p), slice: target.Slice(p), message: message}
	if e.log = v.of.Logs()[e.id]; e.log == nil {
		return out, loop.NotServing()
	}
	out.Entity = target.Entity.Path
	if err := e.find(ctx, entity); err != nil {
		return out, err
	}
	out.Bytes = e.body.Size
	if out.Before, err = e.isErased(); err != nil || out.Before {
		return out, err
	}
	if err := e.checkUnneeded(ctx); err != nil {
		return out, err
	}
	e.by, e.why, e.outcome = by, why, make(chan error, 1)
	return out, v.handOver(ctx, &e)
}

// handOver passes an erasure to the eraser and returns its outcome.
func (v *Eraser) handOver(ctx context.Context, e *erasure) error {
	select {
	case v.asked <- e:
	case <-v.ended:
		return v.cause
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-e.outcome:
		return err
	case <-v.ended:
		return v.cause
	case <-ctx.Done():
		return ctx.Err()
	}
}

// erasure is the erasure of one body.
type erasure struct {
	of      EraserEnv
	id      engine.PartitionID
	log     log.Partition
	slice   event.Slice
	message event.SequenceNumber
	body    event.Blob

	by      *engine.Origin
	why     event.ReasonGiven
	outcome chan error // buffered for one outcome
}

func noBody(entity string, message event.SequenceNumber) error {
	return engine.Refuse(engine.NotFound, "The log has no body of a message %d in %s.", message, entity)
}

// find looks for the body in history.
func (e *erasure) find(ctx context.Context, entity string) error {
	// a scheduled message had another number, which the event with the body has
	for at := (messageRef{e.slice, e.message}); at.number != 0; {
		before := messageRef{}
		for rec, err := range replay.Found(ctx, e.log, log.Search{Named: true, Slice: at.slice, Number: at.number}) {
			if err != nil {
				return err
			}
			for _, ev := range rec.Events {
				body, from := at.bodyIn(ev)
				if body.Size > 0 {
					e.body = body
					return nil
				}
				if from.number != 0 {
					before = from
				}
			}
		}
		at = before
	}
	return noBody(entity, e.message)
}

// messageRef names a message in a slice.
type messageRef struct {
	slice  event.Slice
	number event.SequenceNumber
}

// bodyIn returns the body of the message if an event has stored it, or the earlier slice and number
// of the message if the event has those.
func (p messageRef) bodyIn(ev event.Event) (body event.Blob, before messageRef) {
	of := ev.Common().Slice
	is := func(n event.SequenceNumber) bool { return of == p.slice && n == p.number }
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		if is(ev.Sequence) {
			body = ev.Body
		}
	case *event.MessageScheduled:
		if is(ev.Sequence) {
			body = ev.Body
		}
	case *event.MessageHandedOver:
		if is(ev.Sequence) {
			body = ev.Body
		}
	case *event.MessagePublished:
		if is(ev.Sequence) || p.isCopy(of, ev.Copies) {
			body = ev.Body
		}
	case *event.ScheduledActivated:
		if is(ev.NewSequence) {
			before = messageRef{of, ev.Sequence}
		}
	case *event.ScheduledPublished:
		if is(ev.NewSequence) || p.isCopy(of, ev.Copies) {
			before = messageRef{of, ev.Sequence}
		}
	}
	return body, before
}

// isCopy reports whether the message is one of the copies that a topic's slice made.
func (p messageRef) isCopy(topic event.Slice, copies []event.Copy) bool {
	return topic.Partition == p.slice.Partition && slices.ContainsFunc(copies, func(c event.Copy) bool { return c.Subscription == p.slice.Entity && c.Sequence == p.number })
}

// isErased reports whether the body is no longer in the log.
func (e *erasure) isErased() (bool, error) {
	_, err := e.log.ReadInto(e.body, make([]byte, min(e.body.Size, 1)))
	if errors.Is(err, event.ErrErased) {
		return true, nil
	}
	return false, err
}

// checkUnneeded returns a refusal while the body is needed: a message that waits has to be settled
// first.
func (e *erasure) checkUnneeded(ctx context.Context) error {
	return e.of.State(ctx, e.id, func(s *index.Snapshot, _ []event.Blob) error {
		if _, waits := s.Message(e.slice, e.message); waits {
			return engine.Refuse(engine.NotAllowed, "Message %d is still waiting: first receive and complete it, or delete it.", e.message)
		}
		for b := range s.Blobs() {
			if b.Position == e.body.Position {
				return engine.Refuse(engine.NotAllowed, "The body of message %d is shared with copies in other subscriptions that are still waiting.", e.message)
			}
		}
		return nil
	})
}
