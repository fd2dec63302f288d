package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// erasures implements [engine.Erasures] for a namespace.
type erasures struct{ n *Namespace }

var _ engine.Erasures = erasures{}

// EraseBody implements [engine.Erasures]. The event is durable before the body goes: a process that dies in between has said what was asked for, and
// a caller that got no answer asks again.
func (v erasures) EraseBody(ctx context.Context, entity string, message event.SequenceNumber, by *engine.Origin, why event.ReasonGiven) (engine.ErasedBody, error) {
	n, out := v.n, engine.ErasedBody{Sequence: message}
	if err := engine.CheckReason(why.Reason); err != nil {
		return out, err
	}
	target, err := n.Resolve(entity)
	if err != nil {
		return out, err
	}
	p := target.OfSequence(message)
	if message == 0 || int(message.Partition()) >= len(target.Entity.Hosts) {
		return out, noMessage(entity, message)
	}
	e := erasure{n: n, id: target.Host(p), slice: target.Slice(p), message: message}
	t := n.slots[e.id].serves.Load()
	if t == nil {
		return out, notServing()
	}
	e.log, out.Entity = t.log, target.Entity.Path
	if err := e.find(ctx, entity); err != nil {
		return out, err
	}
	out.Bytes = e.body.Size
	if out.Before, err = e.gone(); err != nil || out.Before {
		return out, err
	}
	if err := e.free(ctx); err != nil {
		return out, err
	}
	return out, e.erase(ctx, by, why)
}

// erasure is the erasure of one body.
type erasure struct {
	n       *Namespace
	id      engine.PartitionID
	log     log.Partition
	slice   event.Slice
	message event.SequenceNumber
	body    event.Blob
}

func noMessage(entity string, message event.SequenceNumber) error {
	return engine.Refuse(engine.NotFound, "The log has no body of a message %d in %s.", message, entity)
}

// find looks for the body in history.
func (e *erasure) find(ctx context.Context, entity string) error {
	for at := (numbered{e.slice, e.message}); at.number != 0; { // what was scheduled had another number, which the event with the body has
		before := numbered{}
		for rec, err := range replay.Found(ctx, e.log, log.Search{Named: true, Slice: at.slice, Number: at.number}) {
			if err != nil {
				return err
			}
			for _, ev := range rec.Events {
				body, from := at.stored(ev)
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
	return noMessage(entity, e.message)
}

// numbered is a message in a slice.
type numbered struct {
	slice  event.Slice
	number event.SequenceNumber
}

// stored is the body of the message, if an event has stored it; or the slice and number that it had before, if the event says that.
func (p numbered) stored(ev event.Event) (body event.Blob, before numbered) {
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
		if is(ev.Sequence) || p.among(of, ev.Copies) {
			body = ev.Body
		}
	case *event.ScheduledActivated:
		if is(ev.NewSequence) {
			before = numbered{of, ev.Sequence}
		}
	case *event.ScheduledPublished:
		if is(ev.NewSequence) || p.among(of, ev.Copies) {
			before = numbered{of, ev.Sequence}
		}
	}
	return body, before
}

// among reports whether the message is one of the copies that a topic's slice has made.
func (p numbered) among(topic event.Slice, copies []event.Copy) bool {
	return topic.Partition == p.slice.Partition && slices.ContainsFunc(copies, func(c event.Copy) bool { return c.Subscription == p.slice.Entity && c.Sequence == p.number })
}

// gone reports whether the body is no longer in the log.
func (e *erasure) gone() (bool, error) {
	_, err := e.log.ReadInto(e.body, make([]byte, min(e.body.Size, 1)))
	if errors.Is(err, event.ErrErased) {
		return true, nil
	}
	return false, err
}

// free refuses while the body is needed: a message that still waits has to be settled first.
func (e *erasure) free(ctx context.Context) error {
	return e.n.durable(ctx, e.id, func(s *index.Snapshot, _ []event.Blob) error {
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

// erase puts down in the log who asks for it, and has the file written again.
func (e *erasure) erase(ctx context.Context, by *engine.Origin, why event.ReasonGiven) error {
	file, err := e.file()
	if err != nil {
		return err
	}
	if err := e.n.store.Use(log.Erasures); err != nil {
		return notMarked(e.n.logger, log.Erasures, err)
	}
	fact := &event.BodyErased{Envelope: event.Envelope{Slice: e.slice}, Sequence: e.message, Position: e.body.Position, Size: e.body.Size}
	if _, err := e.n.ask(ctx, e.id, &engine.Note{Fact: fact, Origin: by, Why: why}); err != nil {
		return err
	}
	_, err = e.log.(log.Compactor).DropBodies(ctx, file, func(b *log.Body) bool { return b.Position != e.body.Position }, noLeast)
	switch {
	case errors.Is(err, log.ErrHeld), errors.Is(err, log.ErrNoRoom), errors.Is(err, log.ErrDescriptors):
		return engine.Refuse(engine.Busy, "The body is not erased yet, ask again: %v.", err)
	case errors.Is(err, log.ErrTooLittle): // another was faster
		if gone, err := e.gone(); err != nil || gone {
			return err
		}
	}
	if err == nil {
		e.n.logger.Info("a body was erased", "partition", e.id, "entity", e.slice.Entity, "sequence", e.message, "bytes", e.body.Size, "by", principal(by), "reason", why.Reason)
	}
	return err
}

// noLeast has a file written again even if that makes it no shorter.
const noLeast = 0

// file is the sealed file that has the body.
func (e *erasure) file() (string, error) {
	at := event.LSN(e.body.Position)
	for _, s := range e.log.Segments() {
		if s.First <= at && at < s.End {
			if filepath.Ext(s.File) != ".lbs" {
				return "", engine.Refuse(engine.Busy, "The body is in a part of the log that is still as it was written. It can be erased when that is sealed: ask again later.")
			}
			return s.File, nil
		}
	}
	return "", fmt.Errorf("%w: position %d is in no file of partition %d", ErrInternal, e.body.Position, e.id)
}
