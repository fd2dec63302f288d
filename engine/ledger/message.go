package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Sketch is a message as [Ledger.Trace] takes it in JSON: the fields that the command line prints
// for a message, as far as rules see them.
type Sketch struct {
	MessageID        *string `json:"messageId,omitempty"`
	SessionID        *string `json:"sessionId,omitempty"`
	Subject          *string `json:"subject,omitempty"`
	ContentType      *string `json:"contentType,omitempty"`
	CorrelationID    *string `json:"correlationId,omitempty"`
	To               *string `json:"to,omitempty"`
	ReplyTo          *string `json:"replyTo,omitempty"`
	ReplyToSessionID *string `json:"replyToSessionId,omitempty"`
	PartitionKey     *string `json:"partitionKey,omitempty"`
	TimeToLive       *string `json:"timeToLive,omitempty"` // such as PT1H
	// application properties: an object
	Properties json.RawMessage `json:"properties,omitempty"`
}

// mostProperties is the most properties that a sketch may have.
const mostProperties = 1024

// ParseSketch parses a message. It ignores fields that rules do not see, such as the body. It
// refuses a field that no message has, because it may be misspelt. The error wraps [ErrQuestion].
func ParseSketch(text []byte) (s Sketch, err error) {
	var others struct {
		Sketch
		Body                   json.RawMessage `json:"body"`
		SequenceNumber         json.RawMessage `json:"sequenceNumber"`
		State                  json.RawMessage `json:"state"`
		EnqueuedSequenceNumber json.RawMessage `json:"enqueuedSequenceNumber"`
		EnqueuedTime           json.RawMessage `json:"enqueuedTime"`
		ExpiresAt              json.RawMessage `json:"expiresAt"`
		DeliveryCount          json.RawMessage `json:"deliveryCount"`
		LockToken              json.RawMessage `json:"lockToken"`
		LockedUntil            json.RawMessage `json:"lockedUntil"`
		Reason                 json.RawMessage `json:"deadLetterReason"`
		Description            json.RawMessage `json:"deadLetterErrorDescription"`
		Source                 json.RawMessage `json:"deadLetterSource"`
		MessageIDType          json.RawMessage `json:"messageIdType"`
		CorrelationIDType      json.RawMessage `json:"correlationIdType"`
		ViaPartitionKey        json.RawMessage `json:"viaPartitionKey"`
		ContentEncoding        json.RawMessage `json:"contentEncoding"`
		UserID                 json.RawMessage `json:"userId"`
		GroupSequence          json.RawMessage `json:"groupSequence"`
		Durable                json.RawMessage `json:"durable"`
		Priority               json.RawMessage `json:"priority"`
		CreationTime           json.RawMessage `json:"creationTime"`
		AbsoluteExpiryTime     json.RawMessage `json:"absoluteExpiryTime"`
		ScheduledTime          json.RawMessage `json:"scheduledEnqueueTime"`
		PropertyTypes          json.RawMessage `json:"propertyTypes"`
		Annotations            json.RawMessage `json:"annotations"`
		DeliveryAnnotations    json.RawMessage `json:"deliveryAnnotations"`
		Footer                 json.RawMessage `json:"footer"`
		BodyType               json.RawMessage `json:"bodyType"`
		TypedBody              json.RawMessage `json:"typedBody"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(&others); err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one JSON object")
		}
	}
	if err != nil {
		return s, fmt.Errorf("%w: the message cannot be read: %w", ErrQuestion, err)
	}
	return others.Sketch, nil
}

// parseMessage returns a sketch as rules see it when it is sent.
func parseMessage(text string) (*filter.Message, error) {
	s, err := ParseSketch([]byte(text))
	if err != nil {
		return nil, err
	}
	m := &filter.Message{}
	for p, text := range map[filter.SystemProperty]*string{filter.MessageID: s.MessageID, filter.SessionID: s.SessionID, filter.Label: s.Subject, filter.ContentType: s.ContentType,
		filter.CorrelationID: s.CorrelationID, filter.To: s.To, filter.ReplyTo: s.ReplyTo, filter.ReplyToSessionID: s.ReplyToSessionID, filter.PartitionKey: s.PartitionKey} {
		if text != nil {
			m.System[p] = event.Value{Type: event.String, Text: *text}
		}
	}
	m.System[filter.DeliveryCount], m.System[filter.State] = event.Value{Type: event.Long}, event.Value{Type: event.Long}
	m.System[filter.ForcePersistence] = event.Value{Type: event.Bool}
	if s.TimeToLive != nil {
		ticks, err := event.ParseTicks(*s.TimeToLive)
		if err != nil || ticks <= 0 {
			return nil, fmt.Errorf("%w: timeToLive: %q is not a positive duration such as PT1H", ErrQuestion, *s.TimeToLive)
		}
		m.System[filter.TimeToLive] = event.Value{Type: event.Span, Bits: uint64(ticks)}
	}
	if m.User, err = parseProperties(s.Properties); err != nil {
		return nil, fmt.Errorf("%w: properties: %w", ErrQuestion, err)
	}
	return m, nil
}

// parseProperties parses application properties in their order in the text: if names differ only in
// case, the first one counts.
func parseProperties(text json.RawMessage) (list []event.Property, err error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("must be an object of names and values")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		var raw any
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		v, err := parseValue(raw)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		if slices.ContainsFunc(list, func(p event.Property) bool { return p.Name == name }) {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		if list = append(list, event.Property{Name: name, Value: v}); len(list) > mostProperties {
			return nil, fmt.Errorf("more than %d properties", mostProperties)
		}
	}
	return list, nil
}

// parseValue returns the value of a property: a text, a boolean, a number, null, or a value with
// its type, as in {"type": "time", "value": "2026-11-03T03:12:00Z"}.
func parseValue(raw any) (v event.Value, err error) {
	switch raw := raw.(type) {
	case nil:
		return v, nil
	case bool:
		return typedValue("bool", strconv.FormatBool(raw))
	case string:
		return event.Value{Type: event.String, Text: raw}, nil
	case json.Number:
		if strings.ContainsAny(raw.String(), ".eE") {
			return typedValue("double", raw.String())
		}
		return typedValue("long", raw.String())
	case map[string]any:
		kind, ok1 := raw["type"].(string)
		text := fmt.Sprint(raw["value"])
		if ok1 && len(raw) == 2 && raw["value"] != nil {
			return typedValue(kind, text)
		}
	}
	return v, errors.New(`a value must be a string, a number, true, false, null, or an object such as {"type": "uuid", "value": "…"}`)
}

// typedValue parses a value whose type has a name.
func typedValue(kind, text string) (v event.Value, err error) {
	ok := true
	switch kind {
	case "string":
		v = event.Value{Type: event.String, Text: text}
	case "bool":
		v = event.Value{Type: event.Bool}
		if text == "true" {
			v.Bits = 1
		}
		ok = text == "true" || text == "false"
	case "int", "long":
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v = event.Value{Type: event.Long, Bits: uint64(n)}
	case "double":
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v = event.Value{Type: event.Double, Bits: math.Float64bits(f)}
	case "decimal":
		_, err = strconv.ParseFloat(text, 64)
		v = event.Value{Type: event.Decimal, Text: text}
		ok = strings.Trim(text, "+-.0123456789") == ""
	case "uuid":
		v, ok = parseUUID(text)
	case "time":
		v, ok = event.ParseInstant(text)
	case "duration":
		var ticks int64
		if ticks, err = event.ParseTicks(text); err != nil { // it is not in ISO 8601
			var d time.Duration
			d, err = quantity.Durations{}.Parse(text)
			ticks = int64(d / event.Tick)
		}
		v = event.Value{Type: event.Span, Bits: uint64(ticks)}
	default:
		return v, fmt.Errorf("unknown type %q; the types are string, bool, int, long, double, decimal, uuid, time and duration", kind)
	}
	if err != nil || !ok {
		return v, fmt.Errorf("%q is not a valid %s", text, kind)
	}
	return v, nil
}

func parseUUID(text string) (event.Value, bool) {
	digits := strings.ReplaceAll(text, "-", "")
	var id [16]byte
	for i := range id {
		if len(digits) != 2*len(id) {
			return event.Value{}, false
		}
		b, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			return event.Value{}, false
		}
		id[i] = byte(b)
	}
	return event.Value{Type: event.UUID, Text: string(id[:])}, string(event.AppendUUID(nil, id[:])) == strings.ToLower(text)
}
