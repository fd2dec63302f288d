package client

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/Azure/go-amqp"
	"github.com/google/uuid"

	"github.com/ledgerbus/ledgerbus/log/event"
	wire "github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A Message is a received or peeked message in a form for people. The command line prints its JSON
// form, and [ParseMessage] reads it. It contains everything that a sender can set, so that the
// message can be sent again unchanged.
type Message struct {
	SequenceNumber int64   `json:"sequenceNumber,omitempty"`
	MessageID      *string `json:"messageId,omitempty"`
	MessageIDType  string  `json:"messageIdType,omitempty"` // "": string
	// active, deferred or scheduled; "": the broker does not say
	State             string  `json:"state,omitempty"`
	SessionID         *string `json:"sessionId,omitempty"`
	ReplyToSessionID  *string `json:"replyToSessionId,omitempty"`
	PartitionKey      *string `json:"partitionKey,omitempty"`
	ViaPartitionKey   *string `json:"viaPartitionKey,omitempty"`
	Subject           *string `json:"subject,omitempty"`
	ContentType       *string `json:"contentType,omitempty"`
	ContentEncoding   *string `json:"contentEncoding,omitempty"`
	CorrelationID     *string `json:"correlationId,omitempty"`
	CorrelationIDType string  `json:"correlationIdType,omitempty"` // "": string
	To                *string `json:"to,omitempty"`
	ReplyTo           *string `json:"replyTo,omitempty"`
	UserID            []byte  `json:"userId,omitempty"`
	GroupSequence     *uint32 `json:"groupSequence,omitempty"`
	TimeToLive        string  `json:"timeToLive,omitempty"` // such as PT1H
	Durable           bool    `json:"durable,omitempty"`
	Priority          *uint8  `json:"priority,omitempty"` // nil: 4
	CreationTime      any     `json:"creationTime,omitempty"`
	// set by the sender; it limits nothing
	AbsoluteExpiryTime any `json:"absoluteExpiryTime,omitempty"`
	ScheduledTime      any `json:"scheduledEnqueueTime,omitempty"`
	// sequence number in the entity where the message was sent; 0: this entity
	EnqueuedSequence int64      `json:"enqueuedSequenceNumber,omitempty"`
	EnqueuedTime     *time.Time `json:"enqueuedTime,omitempty"`
	ExpiresAt        *time.Time `json:"expiresAt,omitempty"`
	// as on the wire: failed earlier deliveries
	DeliveryCount         uint32         `json:"deliveryCount"`
	LockToken             *uuid.UUID     `json:"lockToken,omitempty"`
	LockedUntil           *time.Time     `json:"lockedUntil,omitempty"`
	DeadLetterReason      string         `json:"deadLetterReason,omitempty"`
	DeadLetterDescription string         `json:"deadLetterErrorDescription,omitempty"`
	DeadLetterSource      string         `json:"deadLetterSource,omitempty"`
	Properties            map[string]any `json:"properties,omitempty"`
	// PropertyTypes are the types of the properties whose JSON values do not determine them.
	PropertyTypes map[string]string `json:"propertyTypes,omitempty"`
	// annotations that the broker does not set and that have no separate field, and the footer, in
	// the typed form
	Annotations         map[string]any `json:"annotations,omitempty"`
	DeliveryAnnotations map[string]any `json:"deliveryAnnotations,omitempty"`
	Footer              map[string]any `json:"footer,omitempty"`
	Body                Body           `json:"body"`
	// value, sequence or none; "": bytes
	BodyType string `json:"bodyType,omitempty"`
	// TypedBody is a value or a sequence in the typed form, if Body does not determine its types.
	TypedBody json.RawMessage `json:"typedBody,omitempty"`
}

// A Body is the body of a message. In JSON it is a string if it is text, {"base64": …} if not, and
// the value itself if the sender used an AMQP value.
type Body struct {
	Data  []byte
	Value any // in the plain form; nil unless the body is an AMQP value or sequence
}

// MarshalJSON implements [json.Marshaler].
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case b.Value != nil:
		return json.Marshal(b.Value)
	case utf8.Valid(b.Data):
		return json.Marshal(string(b.Data))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(b.Data)})
}

// View returns the form of an AMQP message for people.
func View(m *amqp.Message) Message {
	v := Message{Properties: map[string]any{}}
	if h := m.Header; h != nil {
		v.DeliveryCount, v.Durable = h.DeliveryCount, h.Durable
		if h.Priority != usualPriority {
			v.Priority = &h.Priority
		}
	}
	if p := m.Properties; p != nil {
		v.MessageID, v.MessageIDType = idOf(p.MessageID)
		v.CorrelationID, v.CorrelationIDType = idOf(p.CorrelationID)
		v.SessionID, v.ReplyToSessionID = p.GroupID, p.ReplyToGroupID
		v.Subject, v.ContentType, v.ContentEncoding, v.To, v.ReplyTo = p.Subject, p.ContentType, p.ContentEncoding, p.To, p.ReplyTo
		v.UserID, v.GroupSequence = p.UserID, p.GroupSequence
		v.times(m)
	}
	v.TimeToLive = timeToLive(m)
	annotations(&v, m)
	v.DeliveryAnnotations, v.Footer = typedMap(m.DeliveryAnnotations), typedMap(m.Footer)
	for key, value := range m.ApplicationProperties {
		switch key {
		case "DeadLetterReason":
			v.DeadLetterReason = text(value)
		case "DeadLetterErrorDescription":
			v.DeadLetterDescription = text(value)
		default:
			v.property(key, withType(value))
		}
	}
	v.body(m)
	return v
}

// usualPriority is the default priority.
const usualPriority = 4

// idOf returns a message id, or a similar id, with its type; "" means string.
func idOf(id any) (*string, string) {
	if id == nil {
		return nil, ""
	}
	shown := text(id)
	if kind := typeName(withType(id)); kind != "string" {
		return &shown, kind
	}
	return &shown, ""
}

// timeToLive returns the time to live from the header. If it is too long for the header, it is the
// difference of two times.
func timeToLive(m *amqp.Message) string {
	if m.Header == nil || m.Header.TTL == 0 {
		return ""
	}
	ttl := m.Header.TTL
	if p := m.Properties; ttl.Milliseconds() == math.MaxUint32 && p != nil && p.CreationTime != nil && p.AbsoluteExpiryTime != nil {
		ttl = max(ttl, p.AbsoluteExpiryTime.Sub(*p.CreationTime))
	}
	return string(event.AppendDuration(nil, ttl))
}

// times adds the two times. With a time to live the broker has set both, otherwise the sender.
func (v *Message) times(m *amqp.Message) {
	creation, expiry := m.Properties.CreationTime, m.Properties.AbsoluteExpiryTime
	if m.Header != nil && m.Header.TTL != 0 && expiry != nil {
		v.ExpiresAt = expiry
		return
	}
	if creation != nil {
		v.CreationTime = plainForm(withType(*creation))
	}
	if expiry != nil {
		v.AbsoluteExpiryTime = plainForm(withType(*expiry))
	}
}

// property adds an application property.
func (v *Message) property(name string, value any) {
	switch value.(type) {
	case wire.List, wire.Map, wire.Array: // invalid, but possible
		v.Properties[name] = typedForm(value)
		return
	}
	if v.Properties[name] = plainForm(value); isPlainEnough(value) {
		return
	}
	if v.PropertyTypes == nil {
		v.PropertyTypes = make(map[string]string)
	}
	v.PropertyTypes[name] = typeName(value)
}

// body adds the body.
func (v *Message) body(m *amqp.Message) {
	var value any
	switch {
	case m.Data != nil:
		for _, part := range m.Data {
			v.Body.Data = append(v.Body.Data, part...)
		}
		return
	case len(m.Sequence) > 0:
		list := make(wire.List, len(m.Sequence))
		for i, section := range m.Sequence {
			list[i] = withType(section)
		}
		v.BodyType, value = "sequence", list
	case m.Sequence != nil: // see decode
		v.BodyType = "none"
		return
	default:
		// the library represents a message without a body like one with a null body, which some
		// senders write
		v.BodyType, value = "value", withType(m.Value)
	}
	v.Body.Value = plainForm(value)
	shown, err := json.Marshal(v.Body)
	if err == nil {
		var back any
		if back, err = readJSON(shown); err == nil {
			back, err = parseValue(back, 0)
		}
		if err == nil && sameEncoding(back, value) {
			return
		}
	}
	v.TypedBody, _ = json.Marshal(typedForm(value)) // all texts and numbers are valid
}

// typedMap returns a map of annotations in the typed form. Only text keys have a meaning.
func typedMap(m amqp.Annotations) map[string]any {
	var list map[string]any
	for key, value := range m {
		if name, ok := key.(string); ok && name != "x-opt-lock-token" {
			if list == nil {
				list = make(map[string]any)
			}
			list[name] = typedForm(withType(value))
		}
	}
	return list
}

// brokers are the message annotations that the broker sets (5.2). fields are the annotations that
// have separate fields.
var (
	brokers = []string{"x-opt-sequence-number", "x-opt-enqueue-sequence-number", "x-opt-enqueued-time", "x-opt-locked-until", "x-opt-deadletter-source",
		"x-opt-message-state", "x-opt-partition-id"}
	fields = []string{"x-opt-scheduled-enqueue-time", "x-opt-partition-key", "x-opt-via-partition-key"}
)

// annotations reads the annotations of the broker and of the sender (5.2).
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
	// the delivery tag has a meaning only with a lock
	if token := LockToken(m); token != uuid.Nil && v.LockedUntil != nil {
		v.LockToken = &token
	}
	v.DeadLetterSource = text(a["x-opt-deadletter-source"])
	if n, ok := integer(a["x-opt-message-state"]); ok && n >= 0 && n <= 2 {
		v.State = []string{"active", "deferred", "scheduled"}[n]
	}
	if t, ok := a["x-opt-scheduled-enqueue-time"].(time.Time); ok {
		v.ScheduledTime = plainForm(withType(t))
	}
	for name, field := range map[string]**string{"x-opt-partition-key": &v.PartitionKey, "x-opt-via-partition-key": &v.ViaPartitionKey} {
		if a[name] != nil {
			key := text(a[name])
			*field = &key
		}
	}
	others := make(amqp.Annotations)
	for key, value := range a {
		if name, ok := key.(string); ok && !slices.Contains(brokers, name) && !slices.Contains(fields, name) {
			others[name] = value
		}
	}
	v.Annotations = typedMap(others)
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
