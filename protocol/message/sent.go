package message

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Annotations with a meaning (5.2).
const (
	keyEnqueuedTime     = "x-opt-enqueued-time"
	keySequence         = "x-opt-sequence-number"
	keyEnqueueSequence  = "x-opt-enqueue-sequence-number"
	keyLockedUntil      = "x-opt-locked-until"
	keyScheduled        = "x-opt-scheduled-enqueue-time"
	keyPartitionKey     = "x-opt-partition-key"
	keyViaPartitionKey  = "x-opt-via-partition-key"
	keyPartitionID      = "x-opt-partition-id"
	keyDeadLetterSource = "x-opt-deadletter-source"
	keyState            = "x-opt-message-state"
	keyLockToken        = "x-opt-lock-token"
)

// Application properties in which SDKs store the trace of a message (W3C Trace Context). If a
// message has both, the first one counts.
const (
	keyDiagnosticID = "Diagnostic-Id"
	keyTraceParent  = "traceparent"
)

// Limits bounds a sent message.
type Limits struct {
	Decode       amqp.Limits // of the decoder
	IDLength     int         // characters of message-id, session id and partition key
	PropertySize int         // bytes of one property
	HeaderSize   int         // bytes of everything except body and footer
}

// otherKey refuses a session id and a partition key that differ: each of them chooses the
// partition.
const otherKey = "The partition key must equal the session id when both are set."

func keysDiffer(m *engine.Message) bool {
	return len(m.SessionID) > 0 && len(m.PartitionKey) > 0 && !bytes.Equal(m.SessionID, m.PartitionKey)
}

// Sent is the result of the checks of one message.
type Sent struct {
	// Message is the message that the engine stores. Its slices alias the inspected bytes, or a
	// regular copy of them; its filter properties are not set yet.
	Message engine.Message

	sections amqp.Sections
	hasID    bool
}

// ArgumentError refuses a value of a peer, with a text as of [fmt.Sprintf].
func ArgumentError(format string, args ...any) *amqp.Error {
	return &amqp.Error{Condition: amqp.CondArgumentError, Description: fmt.Sprintf(format, args...)}
}

// DecodeError refuses bytes that are not a message; err says where they are wrong.
func DecodeError(err error) *amqp.Error {
	return &amqp.Error{Condition: amqp.CondDecodeError, Description: "The message cannot be decoded: " + err.Error() + "."}
}

// Inspect checks a message and finds the fields that the rules need (semantics.md 2.1, 16.3). The
// result aliases b; texts in b's annotations are made strings in place. An error has the text for
// the peer, and the message is refused.
func Inspect(b []byte, limits *Limits) (in Sent, e *amqp.Error) {
	if e = in.inspect(b, limits); e == nil && keysDiffer(&in.Message) {
		e = &amqp.Error{Condition: amqp.CondNotAllowed, Description: otherKey}
	}
	return in, e
}

// inspect is Inspect without the check that compares two fields.
func (in *Sent) inspect(b []byte, limits *Limits) *amqp.Error {
	s, err := amqp.ScanMessage(b, limits.Decode)
	if err != nil {
		return DecodeError(err)
	}
	in.Message.Details.BodySize = uint32(s.Body.Len())
	// some consumers read only the small form (5.1); the copy lives as long as its bytes are used
	if !s.Regular() {
		b = amqp.AppendNormalized(make([]byte, 0, len(b)), b, &s)
		if s, err = amqp.ScanMessage(b, limits.Decode); err != nil {
			return DecodeError(err)
		}
	}
	in.sections, in.Message.Body = s, b
	if in.Message.Header = len(b) - s.Body.Len() - s.Footer.Len(); in.Message.Header > limits.HeaderSize {
		return &amqp.Error{Condition: amqp.CondMessageSizeExceeded, Description: fmt.Sprintf("The size quota for this stream (%d) has been exceeded.", limits.HeaderSize)}
	}
	between, e := inspectProperties(s.Properties.Of(b), limits, in)
	if e != nil {
		return e
	}
	if e = inspectAnnotations(s.MessageAnnotations.Of(b), limits, &in.Message); e != nil {
		return e
	}
	if e = inspectApplicationProperties(s.ApplicationProperties.Of(b), limits, &in.Message.Details); e != nil {
		return e
	}
	in.Message.TimeToLive, e = timeToLive(s.TTL, &between)
	return e
}

// inspectProperties checks each field once. It returns the two times from which the time to live
// may be computed.
func inspectProperties(section []byte, limits *Limits, in *Sent) (between times, _ *amqp.Error) {
	if section == nil {
		return between, nil
	}
	if len(section) > limits.PropertySize {
		for _, raw := range amqp.PropertiesFields(section) {
			if len(raw) > limits.PropertySize+5 {
				return between, ArgumentError("A property is larger than %d bytes.", limits.PropertySize)
			}
		}
	}
	m := &in.Message
	for i, raw := range amqp.PropertiesFields(section) {
		switch i {
		case amqp.FieldMessageID:
			in.hasID = true
			m.ID, m.IDType = idText(raw)
			if utf8.RuneCount(m.ID) > limits.IDLength {
				return between, ArgumentError("The message id is longer than %d characters.", limits.IDLength)
			}
		case amqp.FieldSubject:
			m.Details.Subject = detail(raw)
		case amqp.FieldCorrelationID:
			m.Details.CorrelationID = idDetail(raw)
		case amqp.FieldContentType:
			m.Details.ContentType = detail(raw)
		case amqp.FieldAbsoluteExpiryTime:
			between.expiry = raw
		case amqp.FieldCreationTime:
			between.creation = raw
		case amqp.FieldGroupID:
			m.SessionID, m.HasSession = amqp.RawText(raw)
			if utf8.RuneCount(m.SessionID) > limits.IDLength {
				return between, ArgumentError("The session id is longer than %d characters.", limits.IDLength)
			}
		case amqp.FieldReplyToGroupID:
			if text, _ := amqp.RawText(raw); utf8.RuneCount(text) > limits.IDLength {
				return between, ArgumentError("The reply-to session id is longer than %d characters.", limits.IDLength)
			}
		}
	}
	return between, nil
}

// detail returns a text for history: the value of an encoded string or symbol, cut to
// [event.MaxDetail] bytes at a character boundary. It aliases raw, and is nil if raw is neither or
// is not UTF-8.
func detail(raw []byte) []byte {
	text, ok := amqp.RawText(raw)
	if !ok {
		return nil
	}
	return detailOf(text)
}

// detailOf is [detail] for a text.
func detailOf(text []byte) []byte {
	n := len(text)
	if n > event.MaxDetail {
		for n = event.MaxDetail; n > 0 && !utf8.RuneStart(text[n]); n-- {
		}
	}
	if !utf8.Valid(text[:n]) {
		return nil
	}
	return text[:n:n]
}

// idDetail is [detail] for a correlation id, which may have any type of a message-id. Of a binary
// only the part that is kept is formatted.
func idDetail(raw []byte) []byte {
	if text := detail(raw); text != nil {
		return text
	}
	if b, ok := amqp.RawBinary(raw); ok {
		return hex.AppendEncode(nil, b[:min(len(b), event.MaxDetail/2)])
	}
	if _, ok := amqp.RawText(raw); ok {
		return nil
	}
	text, _ := idText(raw)
	return text
}

// idText returns a message-id as text, unchanged or in the usual form of its type, and its type.
func idText(raw []byte) ([]byte, event.IDType) {
	if text, ok := amqp.RawText(raw); ok {
		return text, event.IDString
	}
	if id, ok := amqp.RawUUID(raw); ok {
		return []byte(id.String()), event.IDUUID
	}
	if b, ok := amqp.RawBinary(raw); ok {
		return hex.AppendEncode(nil, b), event.IDBinary
	}
	switch raw[0] {
	case amqp.CodeUlong:
		return strconv.AppendUint(nil, binary.BigEndian.Uint64(raw[1:]), 10), event.IDUlong
	default:
		n, _ := amqp.RawInt(raw)
		return strconv.AppendInt(nil, n, 10), event.IDUlong
	}
}

func inspectAnnotations(section []byte, limits *Limits, m *engine.Message) *amqp.Error {
	if section == nil {
		return nil
	}
	for name, value := range amqp.MapEntries(section) {
		if len(name)+len(value) > limits.PropertySize {
			return ArgumentError("The annotation '%s' is larger than %d bytes.", clip(name), limits.PropertySize)
		}
		switch string(name) {
		case keyScheduled:
			at, ok := amqp.RawTimestamp(value)
			if !ok {
				return ArgumentError("The annotation '%s' must be a timestamp.", keyScheduled)
			}
			m.ScheduledFor = min(event.Time(at), event.EndOfTime)
		case keyState, keyEnqueueSequence:
			if amqp.RawIsNull(value) {
				return ArgumentError("The annotation '%s' must not be null.", name)
			}
		case keyPartitionKey, keyViaPartitionKey:
			if amqp.RawIsNull(value) {
				continue
			}
			text, ok := makeString(value)
			if !ok || utf8.RuneCount(text) > limits.IDLength {
				return ArgumentError("The annotation '%s' must be a string of at most %d characters.", name, limits.IDLength)
			}
			if string(name) == keyPartitionKey {
				m.PartitionKey = text
			} else {
				m.ViaPartitionKey = text
			}
		case keyDeadLetterSource:
			makeString(value) // a value that is not a text stays as it is: it means nothing here
		}
	}
	return nil
}

// makeString turns an encoded symbol, or a binary that is UTF-8, into a string in place: the three
// differ only in their constructor. One SDK reads strings as binaries and sends a received message
// back with them; others expect strings. The text aliases value; ok is false, and nothing is
// changed, if value is none of the three.
func makeString(value []byte) (text []byte, ok bool) {
	if text, ok = amqp.RawText(value); !ok {
		if text, ok = amqp.RawBinary(value); !ok || !utf8.Valid(text) {
			return nil, false
		}
	}
	const wide = amqp.CodeStr32 - amqp.CodeStr8
	value[0] = amqp.CodeStr8 + value[0]&wide
	return text, true
}

// inspectApplicationProperties checks the type of each property once, and finds the trace.
func inspectApplicationProperties(section []byte, limits *Limits, d *event.Details) *amqp.Error {
	if section == nil {
		return nil
	}
	var parent []byte
	for name, value := range amqp.MapEntries(section) {
		switch {
		case len(name)+len(value) > limits.PropertySize:
			return ArgumentError("The property '%s' is larger than %d bytes.", clip(name), limits.PropertySize)
		case !simpleRaw(value):
			return ArgumentError("The property '%s' is not of a simple type.", clip(name))
		}
		switch string(name) {
		case keyDiagnosticID:
			d.TraceParent = detail(value)
		case keyTraceParent:
			parent = detail(value)
		}
	}
	if len(d.TraceParent) == 0 {
		d.TraceParent = parent
	}
	return nil
}

// clip shortens a peer's text for an error.
func clip(name []byte) []byte { return name[:min(len(name), 64)] }

// simpleRaw reports whether an encoded value may be an application property.
func simpleRaw(value []byte) bool {
	for len(value) > 0 && value[0] == amqp.CodeDescribed {
		rest, err := amqp.SkipValue(value[1:], amqp.DefaultLimits)
		if err != nil {
			return false
		}
		value = rest
	}
	if len(value) == 0 {
		return false
	}
	switch value[0] >> 4 {
	case 0xC, 0xD, 0xE, 0xF:
		return false
	}
	return value[0] != amqp.CodeList0
}

// times holds two encoded fields of the properties section; nil: absent.
type times struct{ expiry, creation []byte }

// timesOf finds the times in a section.
func timesOf(properties []byte) (t times) {
	for i, raw := range amqp.PropertiesFields(properties) {
		switch i {
		case amqp.FieldAbsoluteExpiryTime:
			t.expiry = raw
		case amqp.FieldCreationTime:
			t.creation = raw
			return t
		}
	}
	return t
}

// timeToLive returns the sender's own time to live, 0 for none (semantics.md 2.1, D-16). ttl is the
// header's, in milliseconds. If ttl is the maximum of the field, the difference of the two times is
// the time to live. With any other ttl the times mean nothing to the broker.
func timeToLive(ttl uint32, between *times) (time.Duration, *amqp.Error) {
	end, ok1 := amqp.RawTimestamp(between.expiry)
	start, ok2 := amqp.RawTimestamp(between.creation)
	if ttl != math.MaxUint32 || !ok1 || !ok2 {
		return time.Duration(ttl) * time.Millisecond, nil
	}
	end = min(end, amqp.Timestamp(event.EndOfTime)) // .NET's "never" is one millisecond later (5.4)
	start = max(start, 0)
	if end <= start {
		return 0, ArgumentError("The absolute expiry time is not after the creation time.")
	}
	return lifetime(int64(end - start)), nil
}

// lifetime returns a time to live in milliseconds as a duration. From 292 years on it is 0, none: a
// [time.Duration] holds no more, and .NET sends TimeSpan.MaxValue for "never".
func lifetime(ms int64) time.Duration {
	if ms >= event.Forever.Milliseconds() {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// storedTimeToLive returns the time to live that a stored message was sent with. Its event says
// that it has one. Older versions also used the difference of the times of a message without a ttl,
// and their messages keep it.
func storedTimeToLive(ttl uint32, between *times) time.Duration {
	if ttl == 0 {
		ttl = math.MaxUint32
	}
	life, _ := timeToLive(ttl, between)
	return life
}

// HasID reports whether the sender, or [Sent.Splice], gave the message an id.
func (in *Sent) HasID() bool { return in.hasID }

// Properties fills in the properties that filters read, overwriting into, and the message keeps it.
// Its texts do not alias the message's bytes.
func (in *Sent) Properties(into *filter.Message) {
	readProperties(in.Message.Body, &in.sections, in.Message.TimeToLive, into)
	in.Message.Properties = into
}

// idRoom is the maximum number of bytes by which a message grows when a message-id is spliced in.
const idRoom = 64

// SpliceSize bounds the bytes that [Sent.Splice] writes.
func (in *Sent) SpliceSize() int { return in.spliceAt() + in.sections.Properties.Len() + idRoom }

// spliceAt returns the offset at which the properties begin, or would begin.
func (in *Sent) spliceAt() int {
	s := &in.sections
	if !s.Properties.Empty() {
		return s.Properties.Start
	}
	return max(s.Header.End, s.DeliveryAnnotations.End, s.MessageAnnotations.End)
}

// Splice gives a message a generated message-id, the UUID id as text. It writes the beginning, up
// to the end of the properties, to dst, which is empty and has room for [Sent.SpliceSize] bytes.
// The rest, nearly all of a message, stays in place and is joined to it in the log. Filters read
// the id if they read the message.
func (in *Sent) Splice(dst []byte, id [16]byte) {
	body := in.Message.Body
	at := in.spliceAt()
	rest := at
	var fields []byte // after the null message-id
	count := 0
	if p := in.sections.Properties; !p.Empty() {
		rest = p.End
		fields, count = listFields(p.Of(body))
		if count > 0 {
			fields = fields[1:]
		}
	}
	dst = append(dst, body[:at]...)
	dst = amqp.AppendDescriptor(dst, amqp.SectionProperties)
	dst, mark := amqp.BeginList(dst)
	dst = append(dst, amqp.CodeStr8, 36)
	from := len(dst)
	dst = event.AppendUUID(dst, id[:])
	dst = append(dst, fields...)
	before := len(dst)
	dst = amqp.EndList(dst, mark, max(count, 1))
	moved := before - len(dst) // a narrow list begins earlier
	in.Message.ID = dst[from-moved : from-moved+36 : from-moved+36]
	in.Message.Body, in.Message.Tail = dst[:len(dst):len(dst)], body[rest:]
	in.Message.Header += len(dst) - rest
	in.hasID = true
	if see := in.Message.Properties; see != nil {
		see.System[filter.MessageID] = event.Value{Type: event.String, Text: string(in.Message.ID)}
	}
}

// listFields returns the encoded fields of a section that is a list, and their number.
func listFields(section []byte) ([]byte, int) {
	_, value, ok := amqp.SectionContent(section)
	if !ok || len(value) == 0 {
		return nil, 0
	}
	switch value[0] {
	case amqp.CodeList8:
		return value[3 : 2+int(value[1])], int(value[2])
	case amqp.CodeList32:
		return value[9 : 5+int(binary.BigEndian.Uint32(value[1:]))], int(binary.BigEndian.Uint32(value[5:]))
	}
	return nil, 0
}
