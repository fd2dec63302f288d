package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/ledgerbus/ledgerbus/log/event"
	wire "github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// A sendableMessage is the part of a [Message] in JSON that a sender can set. The fields that the
// broker sets are parsed and ignored.
type sendableMessage struct {
	MessageID           any             `json:"messageId"`
	MessageIDType       string          `json:"messageIdType"`
	SessionID           *string         `json:"sessionId"`
	ReplyToSessionID    *string         `json:"replyToSessionId"`
	PartitionKey        *string         `json:"partitionKey"`
	ViaPartitionKey     *string         `json:"viaPartitionKey"`
	Subject             *string         `json:"subject"`
	ContentType         *string         `json:"contentType"`
	ContentEncoding     *string         `json:"contentEncoding"`
	CorrelationID       any             `json:"correlationId"`
	CorrelationIDType   string          `json:"correlationIdType"`
	To                  *string         `json:"to"`
	ReplyTo             *string         `json:"replyTo"`
	UserID              []byte          `json:"userId"`
	GroupSequence       *uint32         `json:"groupSequence"`
	TimeToLive          string          `json:"timeToLive"`
	Durable             bool            `json:"durable"`
	Priority            *uint8          `json:"priority"`
	CreationTime        any             `json:"creationTime"`
	AbsoluteExpiryTime  any             `json:"absoluteExpiryTime"`
	ScheduledTime       any             `json:"scheduledEnqueueTime"`
	Properties          map[string]any  `json:"properties"`
	PropertyTypes       map[string]any  `json:"propertyTypes"`
	Annotations         map[string]any  `json:"annotations"`
	DeliveryAnnotations map[string]any  `json:"deliveryAnnotations"`
	Footer              map[string]any  `json:"footer"`
	Body                json.RawMessage `json:"body"`
	BodyType            string          `json:"bodyType"`
	TypedBody           json.RawMessage `json:"typedBody"`

	SequenceNumber   json.RawMessage `json:"sequenceNumber"`
	State            json.RawMessage `json:"state"`
	EnqueuedSequence json.RawMessage `json:"enqueuedSequenceNumber"`
	EnqueuedTime     json.RawMessage `json:"enqueuedTime"`
	ExpiresAt        json.RawMessage `json:"expiresAt"`
	DeliveryCount    json.RawMessage `json:"deliveryCount"`
	LockToken        json.RawMessage `json:"lockToken"`
	LockedUntil      json.RawMessage `json:"lockedUntil"`
	Reason           json.RawMessage `json:"deadLetterReason"`
	Description      json.RawMessage `json:"deadLetterErrorDescription"`
	Source           json.RawMessage `json:"deadLetterSource"`
}

// ParseMessage parses a message in the JSON form of [Message] to send it. It keeps everything that
// a sender can set and ignores everything that the broker sets. It refuses unknown fields, because
// they may be misspelt. If a message has values that the AMQP library cannot write, ParseMessage
// returns it as a batch of one message.
func ParseMessage(text []byte) (*amqp.Message, error) {
	var in sendableMessage
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	err := d.Decode(&in)
	if _, end := d.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("more than one JSON value")
	}
	if err != nil {
		return nil, fmt.Errorf("not a message in JSON: %w", err)
	}
	w := messageEncoder{in: &in}
	w.header()
	w.annotations(wire.SectionDeliveryAnnotations, in.DeliveryAnnotations, nil)
	w.messageAnnotations()
	w.properties()
	w.application()
	w.body()
	w.annotations(wire.SectionFooter, in.Footer, nil)
	if w.err != nil {
		return nil, w.err
	}
	if _, err := wire.ScanMessage(w.encoded, wire.DefaultLimits); err != nil {
		return nil, err
	}
	return w.message()
}

// A messageEncoder is a message being encoded, with its first error.
type messageEncoder struct {
	in      *sendableMessage
	encoded []byte
	strange bool // has values that the library cannot write
	null    bool // the body is null
	err     error
	created wire.Opt[wire.Timestamp]
	expires wire.Opt[wire.Timestamp]
}

func (w *messageEncoder) fail(field string, err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("%s: %w", field, err)
	}
}

func (w *messageEncoder) header() {
	in, h := w.in, wire.Header{}
	if in.CreationTime != nil {
		w.created = wire.Some(w.time("creationTime", in.CreationTime))
	}
	if in.AbsoluteExpiryTime != nil {
		w.expires = wire.Some(w.time("absoluteExpiryTime", in.AbsoluteExpiryTime))
	}
	if in.TimeToLive != "" {
		ticks, err := event.ParseTicks(in.TimeToLive)
		if err == nil && ticks < event.TicksPerMillisecond {
			err = errors.New("must be at least a millisecond")
		}
		w.fail("timeToLive", err)
		ms := ticks / event.TicksPerMillisecond
		h.TTL = wire.Some(uint32(min(ms, math.MaxUint32)))
		if ms > math.MaxUint32 { // then it is the difference of two times
			w.created = wire.Some(wire.Timestamp(w.created.Or(wire.Timestamp(time.Now().UnixMilli()))))
			w.expires = wire.Some(wire.Timestamp(min(int64(w.created.Value)+ms, int64(event.EndOfTime))))
		}
	}
	if in.Durable {
		h.Durable = wire.Some(true)
	}
	if in.Priority != nil {
		h.Priority = wire.Some(*in.Priority)
	}
	if h != (wire.Header{}) {
		w.encoded = wire.AppendHeader(w.encoded, &h)
	}
}

// time reads a time: a text, or milliseconds if no text can represent it.
func (w *messageEncoder) time(field string, v any) wire.Timestamp {
	at, err := parseAs("time", v)
	w.fail(field, err)
	t, _ := at.(wire.Timestamp)
	return t
}

func (w *messageEncoder) messageAnnotations() {
	var own wire.Map
	if w.in.ScheduledTime != nil {
		own = append(own, wire.Pair{Key: wire.Symbol("x-opt-scheduled-enqueue-time"), Value: w.time("scheduledEnqueueTime", w.in.ScheduledTime)})
	}
	for _, f := range []struct {
		name wire.Symbol
		key  *string
	}{{"x-opt-partition-key", w.in.PartitionKey}, {"x-opt-via-partition-key", w.in.ViaPartitionKey}} {
		if f.key != nil {
			own = append(own, wire.Pair{Key: f.name, Value: *f.key})
		}
	}
	for name := range w.in.Annotations {
		if slices.Contains(brokers, name) || slices.Contains(fields, name) {
			w.fail("annotations", fmt.Errorf("%s is a separate field or set by the broker", name))
		}
	}
	w.annotations(wire.SectionMessageAnnotations, w.in.Annotations, own)
}

// annotations writes a section of annotations unless it is empty.
func (w *messageEncoder) annotations(code byte, list map[string]any, own wire.Map) {
	field := map[byte]string{wire.SectionDeliveryAnnotations: "deliveryAnnotations", wire.SectionMessageAnnotations: "annotations", wire.SectionFooter: "footer"}[code]
	for name, v := range list {
		key, err := asciiSymbol(name)
		if err == nil {
			v, err = parseValue(v, 0)
		}
		if err != nil {
			w.fail(field, fmt.Errorf("%.80q: %w", name, err))
			return
		}
		own = append(own, wire.Pair{Key: key, Value: v})
	}
	w.section(code, own)
}

// section writes a map unless it is empty.
func (w *messageEncoder) section(code byte, m wire.Map) {
	if len(m) == 0 || w.err != nil {
		return
	}
	for _, p := range m {
		w.strange = w.strange || needsEncoder(p.Value)
	}
	w.encoded = wire.AppendSection(w.encoded, code, sortMaps(m))
}

// needsEncoder reports whether the library would change a value when it writes it.
func needsEncoder(v any) bool {
	switch v := v.(type) {
	case wire.Symbol, wire.Char, wire.Opaque, wire.Described, wire.Array:
		return true
	case wire.List:
		for _, item := range v {
			if needsEncoder(item) {
				return true
			}
		}
	case wire.Map:
		for _, p := range v {
			if needsEncoder(p.Key) || needsEncoder(p.Value) {
				return true
			}
		}
	}
	return false
}

func (w *messageEncoder) properties() {
	in := w.in
	p := wire.Properties{UserID: in.UserID, To: optional(in.To), Subject: optional(in.Subject), ReplyTo: optional(in.ReplyTo), AbsoluteExpiryTime: w.expires,
		CreationTime: w.created, GroupID: optional(in.SessionID), ReplyToGroupID: optional(in.ReplyToSessionID)}
	p.MessageID = w.id("messageId", in.MessageID, in.MessageIDType)
	p.CorrelationID = w.id("correlationId", in.CorrelationID, in.CorrelationIDType)
	p.ContentType, p.ContentEncoding = w.symbol("contentType", in.ContentType), w.symbol("contentEncoding", in.ContentEncoding)
	if in.GroupSequence != nil {
		p.GroupSequence = wire.Some(*in.GroupSequence)
	}
	if w.err == nil {
		w.encoded = wire.AppendProperties(w.encoded, &p)
	}
}

func optional(s *string) wire.Opt[string] {
	if s == nil {
		return wire.Opt[string]{}
	}
	return wire.Some(*s)
}

func (w *messageEncoder) symbol(field string, s *string) (o wire.Opt[wire.Symbol]) {
	if s == nil {
		return o
	}
	v, err := asciiSymbol(*s)
	w.fail(field, err)
	symbol, _ := v.(wire.Symbol)
	return wire.Some(symbol)
}

// id reads a message id or a similar id.
func (w *messageEncoder) id(field string, v any, kind string) any {
	switch {
	case v == nil:
		return nil
	case kind == "":
		kind = "string"
	case kind != "string" && kind != "ulong" && kind != "uuid" && kind != "binary":
		w.fail(field, fmt.Errorf("an id cannot be of the type %q; the types are string, ulong, uuid and binary", kind))
		return nil
	}
	id, err := parseAs(kind, v)
	w.fail(field, err)
	return id
}

// application writes the application properties.
func (w *messageEncoder) application() {
	for name := range w.in.PropertyTypes {
		if _, ok := w.in.Properties[name]; !ok {
			w.fail("propertyTypes", fmt.Errorf("%.80q is not among the properties", name))
		}
	}
	var m wire.Map
	for name, v := range w.in.Properties {
		var err error
		if kind, ok := w.in.PropertyTypes[name]; ok {
			word, _ := kind.(string)
			v, err = parseAs(word, v)
		} else {
			v, err = parseValue(v, 0)
		}
		if err != nil {
			w.fail("properties", fmt.Errorf("%.80q: %w", name, err))
			return
		}
		m = append(m, wire.Pair{Key: name, Value: v})
	}
	w.section(wire.SectionApplicationProperties, m)
}

func (w *messageEncoder) body() {
	in := w.in
	switch in.BodyType {
	case "", "data", "none":
		if len(in.TypedBody) > 0 {
			w.fail("typedBody", errors.New("allowed only if bodyType is value or sequence"))
			return
		}
		data, err := dataOf(in.Body)
		if err == nil && in.BodyType == "none" && len(data) > 0 {
			err = errors.New("not allowed if bodyType is none")
		}
		w.fail("body", err)
		if in.BodyType != "none" {
			w.encoded = wire.AppendData(w.encoded, data)
		}
	case "value", "sequence":
		v, err := valueOf(in)
		if err != nil {
			w.fail("body", err)
			return
		}
		if w.strange, w.null = w.strange || needsEncoder(v), v == nil; in.BodyType == "value" {
			w.encoded = wire.AppendSection(w.encoded, wire.SectionValue, v)
			return
		}
		sections, ok := v.(wire.List)
		if !ok || len(sections) == 0 {
			w.fail("body", errors.New("a sequence must be a list of lists"))
		}
		for _, section := range sections {
			if _, ok := section.(wire.List); !ok {
				w.fail("body", errors.New("a sequence must be a list of lists"))
				return
			}
			w.encoded = wire.AppendSection(w.encoded, wire.SectionSequence, section)
		}
	default:
		w.fail("bodyType", fmt.Errorf("%.80q is not one of data, value, sequence, none", in.BodyType))
	}
}

// dataOf reads a body of bytes: a text, or an object with base64.
func dataOf(body json.RawMessage) ([]byte, error) {
	var s string
	if len(body) == 0 || body[0] == '"' {
		if len(body) > 0 {
			if err := json.Unmarshal(body, &s); err != nil {
				return nil, err
			}
		}
		return []byte(s), nil
	}
	var o map[string]string
	if err := json.Unmarshal(body, &o); err != nil || len(o) != 1 || o["base64"] == "" {
		return nil, errors.New(`must be a text, or {"base64": "…"}; for an AMQP value, set bodyType to value`)
	}
	return base64.StdEncoding.Strict().DecodeString(o["base64"])
}

// valueOf reads a body that is a value or a sequence. Its two forms must be equal.
func valueOf(in *sendableMessage) (any, error) {
	from := in.TypedBody
	if len(from) == 0 {
		from = in.Body
	}
	if len(from) == 0 {
		return nil, errors.New("missing")
	}
	raw, err := readJSON(from)
	if err != nil {
		return nil, err
	}
	v, err := parseValue(raw, 0)
	if err != nil || len(in.TypedBody) == 0 || len(in.Body) == 0 {
		return v, err
	}
	want, err := json.Marshal(Body{Value: plainForm(v)})
	if err != nil {
		return nil, err
	}
	var a, b any // with numbers as most programs read them
	if err := errors.Join(json.Unmarshal(want, &a), json.Unmarshal(in.Body, &b)); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(a, b) {
		return nil, errors.New("differs from typedBody: change both, or omit one")
	}
	return v, nil
}

// message returns the encoded message in the library's form.
func (w *messageEncoder) message() (*amqp.Message, error) {
	m := new(amqp.Message)
	if !w.strange {
		err := m.UnmarshalBinary(w.encoded)
		if w.null {
			m.Value = amqp.Null{}
		}
		return m, err
	}
	s, err := wire.ScanMessage(w.encoded, wire.DefaultLimits)
	if err != nil {
		return nil, err
	}
	if err := m.UnmarshalBinary(s.Properties.Of(w.encoded)); err != nil {
		return nil, err
	}
	for name, key := range map[string]*string{"x-opt-partition-key": w.in.PartitionKey, "x-opt-via-partition-key": w.in.ViaPartitionKey} {
		if key != nil {
			if m.Annotations == nil {
				m.Annotations = make(amqp.Annotations)
			}
			m.Annotations[name] = *key
		}
	}
	m.Format, m.Data = batchFormat, [][]byte{w.encoded}
	return m, nil
}
