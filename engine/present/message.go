package present

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// reservedBytes is the part of an answer that is not rows, at most.
const reservedBytes = 4 << 10

// columns are the columns that a condition can name: the fields of [rows.Message].
var columns = [columnCount]filter.Column{
	{Name: "sequenceNumber"}, {Name: "state"}, {Name: "enqueuedTime", Time: true}, {Name: "expiresAt", Time: true},
	{Name: "lockedUntil", Time: true}, {Name: "scheduledFor", Time: true}, {Name: "deliveryCount"}, {Name: "sessionId"},
	{Name: "size"}, {Name: "enqueuedSequenceNumber"}, {Name: "deadLetterSource"}, {Name: "hops"},
}

const columnCount = 12

// setColumns sets the values of the columns, in their order.
func setColumns(v *[columnCount]event.Value, m *index.Message) {
	*v = [columnCount]event.Value{
		number(uint64(m.Sequence)), textOf(stateName(m.State)), event.InstantOf(m.EnqueuedAt), instantOf(m.ExpiresAt),
		instantOf(m.LockedUntil), instantOf(m.ScheduledFor), number(uint64(m.DeliveryCount)), {},
		number(uint64(m.Body.Size)), {}, {}, number(uint64(m.Hops)),
	}
	if m.InSession {
		v[7] = textOf(m.SessionID)
	}
	if m.EnqueuedSequence != 0 {
		v[9] = number(uint64(m.EnqueuedSequence))
	}
	if m.DeadLetterSource != "" {
		v[10] = textOf(m.DeadLetterSource)
	}
}

func number(n uint64) event.Value    { return event.Value{Type: event.Long, Bits: n} }
func textOf(text string) event.Value { return event.Value{Type: event.String, Text: text} }

// instantOf returns a time as a value; null: never.
func instantOf(t event.Time) event.Value {
	if t == 0 {
		return event.Value{}
	}
	return event.InstantOf(t)
}

// stateName returns the name of a state in answers.
func stateName(st index.State) string {
	if st == index.DeferredLocked {
		st = index.Locked
	}
	return st.String()
}

// newMessage returns a message without its content.
func newMessage(m *index.Message) rows.Message {
	row := rows.Message{SequenceNumber: uint64(m.Sequence), State: stateName(m.State), EnqueuedTime: m.EnqueuedAt.Std().UTC(), ExpiresAt: timeOf(m.ExpiresAt),
		LockedUntil: timeOf(m.LockedUntil), ScheduledFor: timeOf(m.ScheduledFor), DeliveryCount: m.DeliveryCount, Size: m.Body.Size,
		EnqueuedSequenceNumber: uint64(m.EnqueuedSequence), DeadLetterSource: m.DeadLetterSource, Hops: m.Hops}
	if id := m.SessionID; m.InSession {
		row.SessionID = &id
	}
	return row
}

// sizeOf returns the bytes of a row in JSON, and of the comma after it.
func sizeOf(row *rows.Message) int {
	text, err := json.Marshal(row)
	if err != nil { // no value of a row is one that JSON cannot express
		return rows.MaxBytes
	}
	return len(text) + 1
}

// setKnown sets the system properties that the broker alone knows (semantics.md 15.4).
func setKnown(into *filter.Message, m *index.Message) {
	s := &into.System
	s[filter.SequenceNumber] = number(uint64(m.Sequence))
	s[filter.DeliveryCount] = number(uint64(m.DeliveryCount))
	s[filter.EnqueuedTimeUtc] = event.InstantOf(m.EnqueuedAt)
	s[filter.ExpiresAtUtc] = instantOf(m.ExpiresAt)
	s[filter.LockedUntilUtc] = instantOf(m.LockedUntil)
	s[filter.Size] = number(uint64(m.Body.Size))
	s[filter.ForcePersistence] = event.Value{Type: event.Bool}
	state := slices.Index([]index.State{index.Active, index.Deferred, index.Scheduled}, m.State)
	s[filter.State] = event.Value{Type: event.Int, Bits: uint64(max(state, 0))}
	if m.EnqueuedSequence != 0 {
		s[filter.EnqueuedSequenceNumber] = number(uint64(m.EnqueuedSequence))
	}
	if m.DeadLetterSource != "" {
		s[filter.DeadLetterSource] = textOf(m.DeadLetterSource)
	}
	if m.State == index.Scheduled {
		s[filter.ScheduledEnqueueTimeUtc] = event.InstantOf(m.ScheduledFor)
	}
}

// newContent returns the content of a message without its body.
func newContent(m *filter.Message) *rows.Content {
	text := func(p filter.SystemProperty) *string {
		if v := &m.System[p]; v.Type == event.String {
			return new(v.Text) // the next message overwrites m
		}
		return nil
	}
	c := &rows.Content{MessageID: text(filter.MessageID), ReplyToSessionID: text(filter.ReplyToSessionID), PartitionKey: text(filter.PartitionKey),
		ViaPartitionKey: text(filter.ViaPartitionKey), Subject: text(filter.Label), ContentType: text(filter.ContentType),
		CorrelationID: text(filter.CorrelationID), To: text(filter.To), ReplyTo: text(filter.ReplyTo)}
	if v := m.System[filter.TimeToLive]; v.Type == event.Span {
		c.TimeToLive = string(event.AppendTicks(nil, int64(v.Bits)))
	}
	for i := range m.User {
		switch p := &m.User[i]; {
		case p.Name == "DeadLetterReason" && p.Value.Type == event.String:
			c.DeadLetterReason = p.Value.Text
		case p.Name == "DeadLetterErrorDescription" && p.Value.Type == event.String:
			c.DeadLetterDescription = p.Value.Text
		default:
			if c.Properties == nil {
				c.Properties = make(map[string]any, len(m.User))
			}
			c.Properties[p.Name] = plain(p.Value)
		}
	}
	return c
}

// plain returns a value in JSON as ledgerbus peek prints it. A value that filters cannot see is
// null.
func plain(v event.Value) any {
	switch v.Type {
	case event.Bool:
		return v.Bits != 0
	case event.Int, event.Long:
		return int64(v.Bits)
	case event.Double:
		f := math.Float64frombits(v.Bits)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
		return f
	case event.String, event.Decimal:
		return v.Text
	case event.UUID:
		return string(event.AppendUUID(nil, v.Text))
	case event.Instant:
		return event.StdFromTicks(int64(v.Bits)).Format(time.RFC3339Nano)
	case event.Span:
		return string(event.AppendTicks(nil, int64(v.Bits)))
	}
	return nil
}
