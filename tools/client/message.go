package client

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"
)

// Message is a received or peeked message as people look at it. Its JSON form is what the command line prints.
type Message struct {
	SequenceNumber        int64          `json:"sequenceNumber,omitempty"`
	MessageID             string         `json:"messageId,omitempty"`
	State                 string         `json:"state,omitempty"` // active, deferred, scheduled; "" when the broker does not say
	SessionID             *string        `json:"sessionId,omitempty"`
	Subject               string         `json:"subject,omitempty"`
	ContentType           string         `json:"contentType,omitempty"`
	CorrelationID         string         `json:"correlationId,omitempty"`
	To                    string         `json:"to,omitempty"`
	ReplyTo               string         `json:"replyTo,omitempty"`
	EnqueuedSequence      int64          `json:"enqueuedSequenceNumber,omitempty"` // where it was sent; 0: here
	EnqueuedTime          *time.Time     `json:"enqueuedTime,omitempty"`
	ExpiresAt             *time.Time     `json:"expiresAt,omitempty"`
	DeliveryCount         uint32         `json:"deliveryCount"` // as on the wire: failed earlier deliveries
	LockToken             *uuid.UUID     `json:"lockToken,omitempty"`
	LockedUntil           *time.Time     `json:"lockedUntil,omitempty"`
	DeadLetterReason      string         `json:"deadLetterReason,omitempty"`
	DeadLetterDescription string         `json:"deadLetterErrorDescription,omitempty"`
	DeadLetterSource      string         `json:"deadLetterSource,omitempty"`
	Properties            map[string]any `json:"properties,omitempty"`
	Body                  Body           `json:"body"`
}

// Body is the body of a message. In JSON it is a string when it is text, {"base64": …} when it is not, and the value
// itself when the sender used an AMQP value.
type Body struct {
	Data  []byte
	Value any // nil unless the body is an AMQP value or sequence
}

// MarshalJSON implements [json.Marshaler].
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case b.Value != nil:
		return json.Marshal(plain(b.Value))
	case utf8.Valid(b.Data):
		return json.Marshal(string(b.Data))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(b.Data)})
}

// View returns what people look at in an AMQP message.
func View(m *amqp.Message) Message {
	v := Message{Body: Body{Value: m.Value}, Properties: map[string]any{}}
	for _, part := range m.Data {
		v.Body.Data = append(v.Body.Data, part...)
	}
	if len(m.Sequence) > 0 {
		v.Body.Value = m.Sequence
	}
	if h := m.Header; h != nil {
		v.DeliveryCount = h.DeliveryCount
	}
	if p := m.Properties; p != nil {
		v.MessageID, v.CorrelationID = text(p.MessageID), text(p.CorrelationID)
		v.SessionID, v.ExpiresAt = p.GroupID, p.AbsoluteExpiryTime
		for field, from := range map[*string]*string{&v.Subject: p.Subject, &v.ContentType: p.ContentType, &v.To: p.To, &v.ReplyTo: p.ReplyTo} {
			if from != nil {
				*field = *from
			}
		}
	}
	annotations(&v, m)
	for key, value := range m.ApplicationProperties {
		switch key {
		case "DeadLetterReason":
			v.DeadLetterReason = text(value)
		case "DeadLetterErrorDescription":
			v.DeadLetterDescription = text(value)
		default:
			v.Properties[key] = plain(value)
		}
	}
	return v
}

// annotations reads what the broker adds (5.2).
func annotations(v *Message, m *amqp.Message) {
	a := m.Annotations
	if n, ok := integer(a["x-opt-sequence-number"]); ok {
		v.SequenceNumber = n
	}
	if n, ok := integer(a["x-opt-enqueue-sequence-number"]); ok {
		v.EnqueuedSequence = n
	}
	if t, ok := a["x-opt-enqueued-time"].(time.Time); ok {
		v.EnqueuedTime = &t
	}
	if t, ok := a["x-opt-locked-until"].(time.Time); ok && t.Year() > 1 {
		v.LockedUntil = &t
	}
	if token := LockToken(m); token != uuid.Nil && v.LockedUntil != nil { // without a lock the delivery tag means nothing
		v.LockToken = &token
	}
	v.DeadLetterSource = text(a["x-opt-deadletter-source"])
	if n, ok := integer(a["x-opt-message-state"]); ok && n >= 0 && n <= 2 {
		v.State = []string{"active", "deferred", "scheduled"}[n]
	}
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case amqp.UUID:
		return uuid.UUID(v).String()
	}
	return fmt.Sprint(v)
}

// plain makes an AMQP value presentable in JSON.
func plain(v any) any {
	switch v := v.(type) {
	case amqp.UUID:
		return uuid.UUID(v).String()
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[text(key)] = plain(value)
		}
		return m
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key] = plain(value)
		}
		return m
	case []any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = plain(v[i])
		}
		return items
	case [][]any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = plain(v[i])
		}
		return items
	case float32, float64: // JSON has no NaN and no infinities
		if _, err := json.Marshal(v); err != nil {
			return fmt.Sprint(v)
		}
	}
	return v
}
