package export

import (
	"context"
	"errors"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// rowBytes is the estimated size of the short texts of a row, for the limit of a group's size.
const rowBytes = 256

// text returns a client's text as UTF-8 for a column.
func text[T string | []byte](p T) string { return print.Text([]byte(p)) }

// put sets a column of numbers.
func put[C int32 | int64, N ~uint32 | ~uint64 | ~int64](column *C, n N) { *column = C(n) }

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
		return x.origin(ctx, o.ID) // has a row only in the table of origins
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

// fill sets the columns of an event and makes its rows in the other tables. It returns the messages
// of the event if its kind can have several.
func (x *exporter) fill(at event.Time, ev event.Event) (several []event.SequenceNumber, err error) {
	x.columns(ev)
	r := &x.row
	switch ev := ev.(type) {
	case *event.MessageEnqueued, *event.MessageScheduled, *event.MessagePublished, *event.MessageHandedOver, *event.ScheduledActivated, *event.ScheduledPublished:
		return nil, x.messagesStored(ev)
	case *event.MessageLocked:
		x.open[message{ev.Slice, ev.Sequence}] = lockRow{Partition: x.id, LSN: r.LSN, Entity: r.Entity, EntityID: r.EntityID, EntityPartition: r.EntityPartition, Number: r.Number,
			Token: r.Token, Attempt: r.DeliveryCount + 1, LockedAt: r.At, Until: r.Until, Origin: r.Origin}
	case *event.LockRenewed:
		if l, ok := x.open[message{ev.Slice, ev.Sequence}]; ok {
			l.Until, l.Renewals = r.Until, l.Renewals+1
			x.open[message{ev.Slice, ev.Sequence}] = l
		}
	case *event.LockExpired, *event.MessageReleased, *event.MessageAbandoned, *event.MessageCompleted, *event.MessageDeferred, *event.MessageDeadLettered,
		*event.MessageReceivedAndDeleted, *event.MessageExpired:
		return nil, x.endLock(message{ev.Common().Slice, event.SequenceNumber(r.Number)}, at, r.Type)
	case *event.MessagesBatchDeleted:
		return ev.Sequences, nil
	case *event.TransferStarted:
		return ev.Sequences, nil
	case *event.SessionAccepted:
		x.held[session{ev.Slice, string(ev.SessionID)}] = sessionRow{Partition: x.id, LSN: r.LSN, Entity: r.Entity, EntityID: r.EntityID, EntityPartition: r.EntityPartition,
			SessionID: r.SessionID, AcceptedAt: r.At, Until: r.Until, Origin: r.Origin}
	case *event.SessionLockRenewed:
		if s, ok := x.held[session{ev.Slice, string(ev.SessionID)}]; ok {
			s.Until, s.Renewals = r.Until, s.Renewals+1
			x.held[session{ev.Slice, string(ev.SessionID)}] = s
		}
	case *event.SessionReleased:
		return x.sessionReleased(at, ev)
	case *event.SliceDropped:
		return nil, x.sliceDropped(at, ev.Slice)
	}
	return nil, nil
}

// sliceDropped ends the locks and sessions of a deleted slice.
func (x *exporter) sliceDropped(at event.Time, slice event.Slice) error {
	for of := range x.open {
		if of.slice == slice {
			if err := x.endLock(of, at, "dropped"); err != nil {
				return err
			}
		}
	}
	for of, s := range x.held {
		if of.slice == slice {
			delete(x.held, of)
			s.ReleasedAt, s.Released = int64(at), "dropped"
			if err := x.sessions.add(s, rowBytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// sessionReleased ends a session and the locks held with it.
func (x *exporter) sessionReleased(at event.Time, ev *event.SessionReleased) (several []event.SequenceNumber, err error) {
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

// endLock makes the row of a lock that ends, if the message was locked.
func (x *exporter) endLock(of message, at event.Time, how string) error {
	l, ok := x.open[of]
	if !ok {
		return nil
	}
	delete(x.open, of)
	l.EndedAt, l.Ended = int64(at), how
	return x.locks.add(l, rowBytes)
}

// messagesStored makes the rows of the messages that an event stores. For a message sent to a topic
// it also makes the rows of the copies.
func (x *exporter) messagesStored(ev event.Event) error {
	r := &x.row
	m := messageRow{Partition: x.id, LSN: r.LSN, At: r.At, Type: r.Type, Entity: r.Entity, EntityID: r.EntityID, EntityPartition: r.EntityPartition, Origin: r.Origin,
		Number: r.Number, MessageID: r.MessageID, SessionID: r.SessionID, Size: r.Size}
	var body event.Blob
	var copies []event.Copy
	sent := func(key []byte, d *event.Details, b event.Blob) {
		body, m.PartitionKey = b, text(key)
		m.Subject, m.CorrelationID, m.ContentType, m.TraceParent = text(d.Subject), text(d.CorrelationID), text(d.ContentType), text(d.TraceParent)
		if a := event.ArrivalOf(ev); a != nil {
			m.FromEntity = x.path(a.Source.Entity)
		}
	}
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		sent(ev.PartitionKey, &ev.Details, ev.Body)
		m.EnqueuedAt, m.ExpiresAt = int64(ev.EnqueuedAt), int64(ev.ExpiresAt)
	case *event.MessageScheduled:
		sent(ev.PartitionKey, &ev.Details, ev.Body)
		m.ScheduledFor = int64(ev.ScheduledFor)
	case *event.MessagePublished:
		sent(ev.PartitionKey, &ev.Details, ev.Body)
		m.EnqueuedAt, copies = int64(ev.EnqueuedAt), ev.Copies
	case *event.MessageHandedOver:
		sent(ev.PartitionKey, &ev.Details, ev.Body)
		m.EnqueuedAt = int64(ev.EnqueuedAt)
	case *event.ScheduledActivated:
		m.Number, m.FromNumber, m.EnqueuedAt, m.ExpiresAt = int64(ev.NewSequence), int64(ev.Sequence), int64(ev.EnqueuedAt), int64(ev.ExpiresAt)
	case *event.ScheduledPublished:
		m.Number, m.FromNumber, m.EnqueuedAt, copies = int64(ev.NewSequence), int64(ev.Sequence), int64(ev.EnqueuedAt), ev.Copies
	}
	r.Messages = int64(len(copies))
	if err := x.addBody(&m, body); err != nil {
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
		m.Body = nil // belongs to the topic
		if err := x.messages.add(m, rowBytes); err != nil {
			return err
		}
	}
	return nil
}

// addBody adds the body to a row if bodies are exported.
func (x *exporter) addBody(m *messageRow, b event.Blob) (err error) {
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
