package servicebus

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
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

func argumentError(format string, args ...any) *amqp.Error {
	return &amqp.Error{Condition: amqp.CondArgumentError, Description: fmt.Sprintf(format, args...)}
}

// inspected is what the checks of one message found.
type inspected struct {
	message  engine.Message
	sections amqp.Sections
	hasID    bool
}

// ingestOne makes cmd store one message of which buf holds the bytes. On refusal cmd holds no buffer.
func (c *conn) ingestOne(cmd *engine.Send, body []byte, buf *chunk) *amqp.Error {
	in, e := c.inspect(body)
	if e != nil {
		return e
	}
	seen := seenBy(cmd.Entity, 1)
	c.complete(&in, buf, seen)
	cmd.Messages[0], cmd.Buffer = in.message, seen.with(buf)
	return nil
}

// complete gives a message an id if it has none and lets filters see it, if there are any. The id stands in buf, or in
// memory of its own where there is none.
func (c *conn) complete(in *inspected, buf *chunk, seen *published) {
	var filtered *filter.Message
	if seen != nil {
		filtered = seen.read(in)
	}
	if !in.hasID {
		size := splicedSize(in)
		if buf != nil {
			c.splice(buf.carve(size), in)
		} else {
			c.splice(make([]byte, 0, size), in)
		}
		if filtered != nil {
			filtered.System[filter.MessageID] = event.Value{Type: event.String, Text: string(in.message.ID)}
		}
	}
	in.message.Properties = filtered
}

// ingestBatch makes cmd store the messages of a batch: all of them or none (3.4). The envelope says nothing we need.
func (c *conn) ingestBatch(cmd *engine.Send, body []byte, buf *chunk) *amqp.Error {
	envelope, err := amqp.ScanMessage(body, c.decoder.Limits)
	if err != nil {
		return decodeError(err)
	}
	if envelope.BodyKind != amqp.BodyData && envelope.BodyKind != amqp.BodyNone {
		return argumentError("A batch must consist of data sections.")
	}
	cmd.Messages = make([]engine.Message, 0, envelope.BodyCount)
	seen := seenBy(cmd.Entity, envelope.BodyCount)
	for message := range amqp.DataSections(envelope.Body.Of(body)) {
		in, e := c.inspect(message)
		if e != nil {
			seen.drop()
			return e
		}
		c.complete(&in, buf, seen)
		cmd.Messages = append(cmd.Messages, in.message)
	}
	cmd.Buffer = seen.with(buf)
	return nil
}

func decodeError(err error) *amqp.Error {
	return &amqp.Error{Condition: amqp.CondDecodeError, Description: "The message cannot be decoded: " + err.Error() + "."}
}

// inspect checks a message and finds the fields the rules need (semantics.md 2.1, 16.3). Its slices alias b, in which annotations
// that are texts become strings.
func (c *conn) inspect(b []byte) (in inspected, e *amqp.Error) {
	s, err := amqp.ScanMessage(b, c.decoder.Limits)
	if err != nil {
		return in, decodeError(err)
	}
	if !s.Regular() { // some consumers read the small form only (5.1); the copy lives as long as its bytes are used
		b = amqp.AppendNormalized(make([]byte, 0, len(b)), b, &s)
		if s, err = amqp.ScanMessage(b, c.decoder.Limits); err != nil {
			return in, decodeError(err)
		}
	}
	in.sections, in.message.Body = s, b
	if in.message.Header = len(b) - s.Body.Len() - s.Footer.Len(); in.message.Header > c.limits.HeaderSize {
		return in, argumentError("The size quota for this stream (%d) has been exceeded.", c.limits.HeaderSize)
	}
	if e = c.inspectProperties(s.Properties.Of(b), &in); e != nil {
		return in, e
	}
	if e = c.inspectAnnotations(s.MessageAnnotations.Of(b), &in.message); e != nil {
		return in, e
	}
	if e = c.inspectApplicationProperties(s.ApplicationProperties.Of(b)); e != nil {
		return in, e
	}
	m := &in.message
	if len(m.SessionID) > 0 && len(m.PartitionKey) > 0 && !bytes.Equal(m.SessionID, m.PartitionKey) {
		return in, &amqp.Error{Condition: amqp.CondNotAllowed, Description: "The partition key must equal the session id when both are set."}
	}
	m.TimeToLive, e = timeToLive(s.TTL, s.Properties.Of(b))
	return in, e
}

func (c *conn) inspectProperties(section []byte, in *inspected) *amqp.Error {
	if section == nil {
		return nil
	}
	m := &in.message
	if len(section) > c.limits.PropertySize {
		for i := amqp.FieldMessageID; i <= amqp.FieldReplyToGroupID; i++ {
			if raw, ok := amqp.PropertiesField(section, i); ok && len(raw) > c.limits.PropertySize+5 {
				return argumentError("A property is larger than %d bytes.", c.limits.PropertySize)
			}
		}
	}
	if raw, ok := amqp.PropertiesField(section, amqp.FieldMessageID); ok {
		in.hasID = true
		m.ID, m.IDType = idText(raw)
		if utf8.RuneCount(m.ID) > c.limits.IDLength {
			return argumentError("The message id is longer than %d characters.", c.limits.IDLength)
		}
	}
	if raw, ok := amqp.PropertiesField(section, amqp.FieldGroupID); ok {
		m.SessionID, m.HasSession = amqp.RawText(raw)
		if utf8.RuneCount(m.SessionID) > c.limits.IDLength {
			return argumentError("The session id is longer than %d characters.", c.limits.IDLength)
		}
	}
	if raw, ok := amqp.PropertiesField(section, amqp.FieldReplyToGroupID); ok {
		if text, _ := amqp.RawText(raw); utf8.RuneCount(text) > c.limits.IDLength {
			return argumentError("The reply-to session id is longer than %d characters.", c.limits.IDLength)
		}
	}
	return nil
}

// idText is a message-id as text, as it is or in the usual form of its type, and its type.
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

func (c *conn) inspectAnnotations(section []byte, m *engine.Message) *amqp.Error {
	if section == nil {
		return nil
	}
	for name, value := range amqp.MapEntries(section) {
		if len(name)+len(value) > c.limits.PropertySize {
			return argumentError("The annotation '%s' is larger than %d bytes.", clip(name), c.limits.PropertySize)
		}
		switch string(name) {
		case keyScheduled:
			at, ok := amqp.RawTimestamp(value)
			if !ok {
				return argumentError("The annotation '%s' must be a timestamp.", keyScheduled)
			}
			m.ScheduledFor = min(event.Time(at), event.EndOfTime)
		case keyState, keyEnqueueSequence:
			if amqp.RawIsNull(value) {
				return argumentError("The annotation '%s' must not be null.", name)
			}
		case keyPartitionKey, keyViaPartitionKey:
			if amqp.RawIsNull(value) {
				continue
			}
			text, ok := makeString(value)
			if !ok || utf8.RuneCount(text) > c.limits.IDLength {
				return argumentError("The annotation '%s' must be a string of at most %d characters.", name, c.limits.IDLength)
			}
			if string(name) == keyPartitionKey {
				m.PartitionKey = text
			}
		case keyDeadLetterSource:
			makeString(value) // where it is no text it stays what it is: it means nothing here
		}
	}
	return nil
}

// makeString turns an encoded symbol, or a binary that is UTF-8, into a string where it stands: the three differ in their
// constructor alone. One SDK reads strings as binaries and sends a received message back with them; others expect strings. The text
// aliases value; ok is false, and nothing is changed, when value is none of the three.
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

func (c *conn) inspectApplicationProperties(section []byte) *amqp.Error {
	if section == nil {
		return nil
	}
	for name, value := range amqp.MapEntries(section) {
		switch {
		case len(name)+len(value) > c.limits.PropertySize:
			return argumentError("The property '%s' is larger than %d bytes.", clip(name), c.limits.PropertySize)
		case !simpleRaw(value):
			return argumentError("The property '%s' is not of a simple type.", clip(name))
		}
	}
	return nil
}

// clip keeps a peer's text in an error short.
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

// timeToLive is the sender's own time to live, 0 for none (semantics.md 2.1, D-16). ttl is the header's, milliseconds.
func timeToLive(ttl uint32, properties []byte) (time.Duration, *amqp.Error) {
	if ttl != 0 && ttl != math.MaxUint32 || properties == nil {
		return time.Duration(ttl) * time.Millisecond, nil
	}
	// Longer than 32 bits hold: the difference of the two times says it.
	expiry, ok1 := amqp.PropertiesField(properties, amqp.FieldAbsoluteExpiryTime)
	created, ok2 := amqp.PropertiesField(properties, amqp.FieldCreationTime)
	if !ok1 || !ok2 {
		return time.Duration(ttl) * time.Millisecond, nil
	}
	end, ok1 := amqp.RawTimestamp(expiry)
	start, ok2 := amqp.RawTimestamp(created)
	if !ok1 || !ok2 {
		return time.Duration(ttl) * time.Millisecond, nil
	}
	end = min(end, amqp.Timestamp(event.EndOfTime)) // .NET's "never" is one millisecond later (5.4)
	start = max(start, 0)
	if end <= start {
		return 0, argumentError("The absolute expiry time is not after the creation time.")
	}
	ms := int64(end - start)
	if ms > int64(event.Forever/time.Millisecond) {
		return event.Forever, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// idRoom is how much longer a message gets by a message-id that is spliced in.
const idRoom = 64

// splicedSize bounds what splice writes for a message.
func splicedSize(in *inspected) int { return in.spliceAt() + in.sections.Properties.Len() + idRoom }

// spliceAt is where the properties begin, or would.
func (in *inspected) spliceAt() int {
	s := &in.sections
	if !s.Properties.Empty() {
		return s.Properties.Start
	}
	return max(s.Header.End, s.DeliveryAnnotations.End, s.MessageAnnotations.End)
}

// splice gives a message a generated message-id. It writes the beginning, to the end of the properties, to dst, which has
// room for it; what follows, nearly all of a message, stays where it is and is joined to it in the log.
func (c *conn) splice(dst []byte, in *inspected) {
	id := c.newUUID()
	body := in.message.Body
	at := in.spliceAt()
	rest := at
	var fields []byte // behind the null message-id
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
	in.message.ID = dst[from-moved : from-moved+36 : from-moved+36]
	in.message.Body, in.message.Tail = dst[:len(dst):len(dst)], body[rest:]
	in.message.Header += len(dst) - rest
	in.hasID = true
}

// newUUID is a random UUID of version 4, for ids that are unique and no secret.
func newUUID() (u [16]byte) {
	binary.LittleEndian.PutUint64(u[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(u[8:], rand.Uint64())
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// listFields is the encoded fields of a section that is a list, and how many there are.
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
