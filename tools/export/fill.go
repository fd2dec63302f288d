package export

import (
	"context"
	"errors"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// rowBytes is how many bytes of short texts each row is taken to have when the size of a group is bounded.
const rowBytes = 256

// text is a text of a client, as columns have it: UTF-8.
func text[T string | []byte](p T) string { return print.Text([]byte(p)) }

func token(t event.LockToken) string {
	if t == (event.LockToken{}) {
		return ""
	}
	return t.String()
}

// event makes the rows of an event.
func (x *exporter) event(ctx context.Context, at event.Time, ev event.Event) error {
	c := ev.Common()
	r := &x.row
	r.Type, r.Event, r.Origin = ledger.Type(ev), ev.Kind().String(), int64(c.Origin)
	r.Entity, r.EntityID, r.EntityPartition = x.path(c.Slice.Entity), int64(c.Slice.Entity), int32(c.Slice.Partition)
	if err := x.origin(ctx, c.Origin); err != nil {
		return err
	}
	if o, ok := ev.(*event.OriginDefined); ok {
		return x.origin(ctx, o.ID) // its only row is in the table of origins
	}
	numbers, err := x.fill(at, ev)
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		return x.events.add(*r, rowBytes+len(r.Description)+len(r.Reason))
	}
	r.Messages = int64(len(numbers))
	for _, n := range numbers {
		r.Number = int64(n)
		if err := x.events.add(*r, rowBytes); err != nil {
			return err
		}
	}
	return nil
}

// fill fills in the columns of an event that depend on its kind, and makes its rows in the other tables. It returns the messages that the event is about, if
// its kind can have several.
func (x *exporter) fill(at event.Time, ev event.Event) (several []event.SequenceNumber, err error) {
	r := &x.row
	switch ev := ev.(type) {
	case *event.MessageEnqueued, *event.MessageScheduled, *event.MessagePublished, *event.MessageHandedOver, *event.ScheduledActivated, *event.ScheduledPublished:
		return nil, x.stored(ev)
	case *event.DuplicateDropped:
		r.MessageID, r.Number = text(ev.MessageID), int64(ev.Original)
	case *event.MessageLocked:
		r.Number, r.Token, r.Until, r.DeliveryCount = int64(ev.Sequence), token(ev.Token), int64(ev.LockedUntil), int32(ev.DeliveryCount)
		x.open[message{ev.Slice, ev.Sequence}] = lockRow{Partition: x.id, LSN: r.LSN, Entity: r.Entity, EntityID: r.EntityID, EntityPartition: r.EntityPartition, Number: r.Number,
			Token: r.Token, Attempt: r.DeliveryCount + 1, LockedAt: r.At, Until: r.Until, Origin: r.Origin}
	case *event.LockRenewed:
		r.Number, r.Token, r.Until = int64(ev.Sequence), token(ev.Token), int64(ev.LockedUntil)
		if l, ok := x.open[message{ev.Slice, ev.Sequence}]; ok {
			l.Until, l.Renewals = r.Until, l.Renewals+1
			x.open[message{ev.Slice, ev.Sequence}] = l
		}
	case *event.LockExpired:
		r.Token, r.DeliveryCount = token(ev.Token), int32(ev.DeliveryCount)
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.MessageReleased:
		r.Token = token(ev.Token)
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.MessageAbandoned:
		r.Token, r.DeliveryCount = token(ev.Token), int32(ev.DeliveryCount)
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.MessageCompleted:
		r.Token = token(ev.Token)
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.MessageDeferred:
		r.Token, r.DeliveryCount = token(ev.Token), int32(ev.DeliveryCount)
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.MessageDeadLettered:
		r.Token, r.Cause, r.Reason, r.Description = token(ev.Token), ev.Cause.String(), text(ev.Reason), text(ev.Description)
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.MessageReceivedAndDeleted:
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.MessageExpired:
		r.Until = int64(ev.ExpiresAt)
		return nil, x.ended(ev.Slice, ev.Sequence, at)
	case *event.ScheduleCancelled:
		r.Number = int64(ev.Sequence)
	case *event.SettlementRefused:
		r.Number, r.Token, r.Cause, r.Reason = int64(ev.Sequence), token(ev.Token), ev.Why.String(), ev.Wanted.String()
	case *event.MessagesBatchDeleted:
		r.Until = int64(ev.Before)
		return ev.Sequences, nil
	case *event.TransferStarted:
		r.Other = x.path(ev.Destination)
		return ev.Sequences, nil
	case *event.TransferFailed:
		r.Number, r.Cause, r.Reason, r.Description = int64(ev.Sequence), ev.Why.String(), text(ev.Reason), text(ev.Description)
	default:
		return x.fillMore(at, ev)
	}
	return nil, nil
}

// fillMore is fill for what is about sessions, entities and the broker.
func (x *exporter) fillMore(at event.Time, ev event.Event) (several []event.SequenceNumber, err error) {
	r := &x.row
	switch ev := ev.(type) {
	case *event.SessionAccepted:
		r.SessionID, r.Until = text(ev.SessionID), int64(ev.LockedUntil)
		x.held[session{ev.Slice, string(ev.SessionID)}] = sessionRow{Partition: x.id, LSN: r.LSN, Entity: r.Entity, EntityID: r.EntityID, EntityPartition: r.EntityPartition,
			SessionID: r.SessionID, AcceptedAt: r.At, Until: r.Until, Origin: r.Origin}
	case *event.SessionLockRenewed:
		r.SessionID, r.Until = text(ev.SessionID), int64(ev.LockedUntil)
		if s, ok := x.held[session{ev.Slice, string(ev.SessionID)}]; ok {
			s.Until, s.Renewals = r.Until, s.Renewals+1
			x.held[session{ev.Slice, string(ev.SessionID)}] = s
		}
	case *event.SessionReleased:
		return x.released(at, ev)
	case *event.SessionStateSet:
		r.SessionID, r.Size = text(ev.SessionID), int64(ev.State.Size)
	case *event.EntityDeleted:
		r.Reason = text(ev.Reason)
	case *event.RuleAdded:
		r.Description = text(ev.Rule.Name)
	case *event.RuleUpdated:
		r.Description = text(ev.Rule.Name)
	case *event.RuleRemoved:
		r.Description = text(ev.Rule.Name)
	case *event.ReasonGiven:
		r.Reason = text(ev.Reason)
	case *event.ClockSet:
		r.Cause, r.Until = ev.Basis.String(), int64(ev.To)
	case *event.RunStarted:
		r.Cause, r.Description = ev.Stop.String(), text(ev.Version)
	case *event.LinkOpened:
		r.Cause, r.SessionID = ev.Role.String(), text(ev.SessionID)
	case *event.LinkClosed:
		r.Cause, r.Reason, r.Description = ev.Cause.String(), text(ev.Condition), text(ev.Description)
	case *event.SendsRefused:
		r.Cause, r.Messages = ev.Why.String(), int64(ev.Count)
	case *event.HistoryCut:
		r.Cause = ev.Cause.String()
	case *event.BodyErased:
		r.Number = int64(ev.Sequence)
	case *event.ErasureFinished:
		r.Number = int64(ev.Sequence)
	case *event.SliceDropped:
		for of := range x.open {
			if of.slice == ev.Slice {
				if err := x.endLock(of, at, "dropped"); err != nil {
					return nil, err
				}
			}
		}
		for of, s := range x.held {
			if of.slice == ev.Slice {
				delete(x.held, of)
				s.ReleasedAt, s.Released = int64(at), "dropped"
				if err := x.sessions.add(s, rowBytes); err != nil {
					return nil, err
				}
			}
		}
	}
	return nil, nil
}

// released ends a session, and the locks that were held with it.
func (x *exporter) released(at event.Time, ev *event.SessionReleased) (several []event.SequenceNumber, err error) {
	x.row.SessionID, x.row.Cause = text(ev.SessionID), ev.Cause.String()
	for i := range ev.Returned {
		several = append(several, ev.Returned[i].Sequence)
		if err := x.endLock(message{ev.Slice, ev.Returned[i].Sequence}, at, x.row.Type); err != nil {
			return nil, err
		}
	}
	key := session{ev.Slice, string(ev.SessionID)}
	s, ok := x.held[key]
	if !ok {
		return several, nil
	}
	delete(x.held, key)
	s.ReleasedAt, s.Released, s.Returned = int64(at), ev.Cause.String(), int32(len(ev.Returned))
	return several, x.sessions.add(s, rowBytes+len(s.SessionID))
}

// ended notes that an event is about a message whose lock, if it had one, ends with it.
func (x *exporter) ended(slice event.Slice, n event.SequenceNumber, at event.Time) error {
	x.row.Number = int64(n)
	return x.endLock(message{slice, n}, at, x.row.Type)
}

func (x *exporter) endLock(of message, at event.Time, how string) error {
	l, ok := x.open[of]
	if !ok {
		return nil
	}
	delete(x.open, of)
	l.EndedAt, l.Ended = int64(at), how
	return x.locks.add(l, rowBytes)
}

// stored makes the rows of the messages that an event stores: for one that was sent to a topic, those of the copies too.
func (x *exporter) stored(ev event.Event) error {
	r := &x.row
	m := messageRow{Partition: x.id, LSN: r.LSN, At: r.At, Type: r.Type, Entity: r.Entity, EntityID: r.EntityID, EntityPartition: r.EntityPartition, Origin: r.Origin}
	var body event.Blob
	var copies []event.Copy
	sent := func(n event.SequenceNumber, id, sessionID, key []byte, d *event.Details, b event.Blob, a *event.Arrival) {
		body = b
		m.Number, m.MessageID, m.SessionID, m.PartitionKey = int64(n), text(id), text(sessionID), text(key)
		m.Subject, m.CorrelationID, m.ContentType, m.TraceParent, m.Size = text(d.Subject), text(d.CorrelationID), text(d.ContentType), text(d.TraceParent), int64(b.Size)
		if a != nil {
			m.FromEntity = x.path(a.Source.Entity)
		}
	}
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		sent(ev.Sequence, ev.MessageID, ev.SessionID, ev.PartitionKey, &ev.Details, ev.Body, ev.Arrival)
		m.EnqueuedAt, m.ExpiresAt = int64(ev.EnqueuedAt), int64(ev.ExpiresAt)
	case *event.MessageScheduled:
		sent(ev.Sequence, ev.MessageID, ev.SessionID, ev.PartitionKey, &ev.Details, ev.Body, ev.Arrival)
		m.ScheduledFor, r.Until = int64(ev.ScheduledFor), int64(ev.ScheduledFor)
	case *event.MessagePublished:
		sent(ev.Sequence, ev.MessageID, ev.SessionID, ev.PartitionKey, &ev.Details, ev.Body, ev.Arrival)
		m.EnqueuedAt, copies = int64(ev.EnqueuedAt), ev.Copies
	case *event.MessageHandedOver:
		sent(ev.Sequence, ev.MessageID, ev.SessionID, ev.PartitionKey, &ev.Details, ev.Body, nil)
		m.EnqueuedAt, r.Other = int64(ev.EnqueuedAt), x.path(ev.Destination)
	case *event.ScheduledActivated:
		m.Number, m.FromNumber, m.EnqueuedAt, m.ExpiresAt = int64(ev.NewSequence), int64(ev.Sequence), int64(ev.EnqueuedAt), int64(ev.ExpiresAt)
		r.Number, r.NewNumber = int64(ev.Sequence), int64(ev.NewSequence)
	case *event.ScheduledPublished:
		m.Number, m.FromNumber, m.EnqueuedAt, copies = int64(ev.NewSequence), int64(ev.Sequence), int64(ev.EnqueuedAt), ev.Copies
		r.Number, r.NewNumber = int64(ev.Sequence), int64(ev.NewSequence)
	}
	if r.Number == 0 {
		r.Number = m.Number
	}
	r.MessageID, r.SessionID, r.Size, r.Messages = m.MessageID, m.SessionID, m.Size, int64(len(copies))
	if err := x.withBody(&m, body); err != nil {
		return err
	}
	if err := x.messages.add(m, rowBytes+len(m.Body)); err != nil {
		return err
	}
	topic := m
	for i := range copies {
		c := &copies[i]
		m.Type, m.FromEntity, m.FromNumber = "copied", topic.Entity, topic.Number
		m.Entity, m.EntityID, m.Number, m.ExpiresAt = x.path(c.Subscription), int64(c.Subscription), int64(c.Sequence), int64(c.ExpiresAt)
		m.Body = nil // it is the topic's
		if err := x.messages.add(m, rowBytes); err != nil {
			return err
		}
	}
	return nil
}

// withBody adds the body to a row, where that is wanted.
func (x *exporter) withBody(m *messageRow, b event.Blob) (err error) {
	if !x.Bodies || b.Size == 0 {
		return nil
	}
	x.body, err = x.part.ReadBlob(b, x.body[:0])
	if errors.Is(err, event.ErrErased) {
		m.BodyErased = true
		return nil
	}
	m.Body = append([]byte(nil), x.body...)
	return err
}
