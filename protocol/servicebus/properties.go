package servicebus

import (
	"reflect"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Properties fills in what filters see of an encoded message (semantics.md 15.4): the system properties a sender sets and
// the application properties. Memory of into is used again; its texts do not alias message. What only the broker knows
// stays null. The header is how many bytes stand beside body and footer. An error says that the bytes are no message.
func Properties(message []byte, into *filter.Message) (header int, err error) {
	s, err := amqp.ScanMessage(message, amqp.DefaultLimits)
	if err == nil && !s.Regular() {
		message = amqp.AppendNormalized(make([]byte, 0, len(message)), message, &s)
		s, err = amqp.ScanMessage(message, amqp.DefaultLimits)
	}
	if err != nil {
		return 0, err
	}
	ttl, e := timeToLive(s.TTL, s.Properties.Of(message))
	if e != nil {
		return 0, e
	}
	readProperties(message, &s, ttl, into)
	return len(message) - s.Body.Len() - s.Footer.Len(), nil
}

// readProperties is Properties of a regular message, of which the sections are known.
func readProperties(b []byte, s *amqp.Sections, ttl time.Duration, into *filter.Message) {
	into.Reset()
	if ttl > 0 {
		into.System[filter.TimeToLive] = span(ttl.Milliseconds())
	}
	var start, end int
	for _, p := range [...]amqp.Span{s.MessageAnnotations, s.Properties, s.ApplicationProperties} { // they stand in this order
		if !p.Empty() {
			if end == 0 {
				start = p.Start
			}
			end = p.End
		}
	}
	all := encodedOf(b[start:end])
	section := func(p amqp.Span) encoded {
		if p.Empty() {
			return encoded{}
		}
		return all.cut(p.Start-start, p.End-start).items()
	}
	readAnnotations(section(s.MessageAnnotations), into)
	readFields(section(s.Properties), into)
	readApplicationProperties(section(s.ApplicationProperties), into)
}

func readAnnotations(entries encoded, into *filter.Message) {
	for {
		key, ok1 := entries.next()
		v, ok2 := entries.next()
		if !ok1 || !ok2 {
			return
		}
		name, _ := key.string()
		place, want := filter.SystemCount, event.String
		switch name {
		case keyPartitionKey:
			place = filter.PartitionKey
		case keyViaPartitionKey:
			place = filter.ViaPartitionKey
		case keyDeadLetterSource:
			place = filter.DeadLetterSource
		case keyScheduled:
			place, want = filter.ScheduledEnqueueTimeUtc, event.Instant
		default:
			continue
		}
		if v := v.value(); v.Type == want {
			into.System[place] = v
		}
	}
}

// systemFields says as what filters see the fields of the properties section; those with SystemCount they do not see.
var systemFields = [...]filter.SystemProperty{
	amqp.FieldMessageID:          filter.MessageID,
	amqp.FieldUserID:             filter.SystemCount,
	amqp.FieldTo:                 filter.To,
	amqp.FieldSubject:            filter.Label,
	amqp.FieldReplyTo:            filter.ReplyTo,
	amqp.FieldCorrelationID:      filter.CorrelationID,
	amqp.FieldContentType:        filter.ContentType,
	amqp.FieldContentEncoding:    filter.SystemCount,
	amqp.FieldAbsoluteExpiryTime: filter.SystemCount,
	amqp.FieldCreationTime:       filter.SystemCount,
	amqp.FieldGroupID:            filter.SessionID,
	amqp.FieldGroupSequence:      filter.SystemCount,
	amqp.FieldReplyToGroupID:     filter.ReplyToSessionID,
}

// readFields reads the properties section. Ids of other types than text are seen as text, as SDKs show them.
func readFields(fields encoded, into *filter.Message) {
	for _, place := range systemFields {
		v, ok := fields.next()
		switch {
		case !ok:
			return
		case place == filter.SystemCount || amqp.RawIsNull(v.raw):
			continue
		}
		text, ok := v.string()
		if !ok {
			id, _ := idText(v.raw)
			text = string(id)
		}
		into.System[place] = event.Value{Type: event.String, Text: text}
	}
}

func readApplicationProperties(entries encoded, into *filter.Message) {
	for {
		key, ok1 := entries.next()
		v, ok2 := entries.next()
		if !ok1 || !ok2 {
			return
		}
		if name, ok := key.string(); ok {
			into.User = append(into.User, event.Property{Name: name, Value: v.value()})
		}
	}
}

// published is what filters see of the messages of one send to a topic. It is the send's buffer too: the engine lets go of
// both at once, and the memory is used again.
type published struct {
	chunk    *chunk // that holds the bodies; nil: they are nobody's
	messages []filter.Message
	user     int // properties in all messages
}

var publishedPool = sync.Pool{New: func() any { return new(published) }}

// seenBy is room for what the filters of an entity see of count messages. It is nil when the entity has none.
func seenBy(e *engine.Entity, count int) *published {
	if e.Kind != event.Topic {
		return nil
	}
	p := publishedPool.Get().(*published)
	if cap(p.messages) < count {
		p.messages = make([]filter.Message, 0, count)
	}
	return p
}

// with is the buffer of a send of which buf, which may be nil, holds the bodies.
func (p *published) with(buf *chunk) engine.Buffer {
	if buf != nil {
		buf.retain()
	}
	switch {
	case p != nil:
		p.chunk = buf
		return p
	case buf != nil:
		return buf
	}
	return nil
}

// drop gives the room back when nothing is sent.
func (p *published) drop() {
	if p != nil {
		p.Release()
	}
}

// read adds a message that was inspected.
func (p *published) read(in *inspected) *filter.Message {
	p.messages = p.messages[:len(p.messages)+1] // never beyond the room: who has a message keeps its address
	m := &p.messages[len(p.messages)-1]
	readProperties(in.message.Body, &in.sections, in.message.TimeToLive, m)
	p.user += len(m.User)
	return m
}

var (
	messageSize  = int(reflect.TypeFor[filter.Message]().Size())
	propertySize = int(reflect.TypeFor[event.Property]().Size())
)

// size is the memory in use, in bytes: it may be many times that of the messages themselves (reliability.md S15).
func (p *published) size() int {
	if p == nil {
		return 0
	}
	return len(p.messages)*messageSize + p.user*propertySize
}

// What is larger does not wait in the pool for the next send.
const (
	pooledMessages   = 64
	pooledProperties = 128 // of one message
)

// Release implements engine.Buffer.
func (p *published) Release() {
	if p.chunk != nil {
		p.chunk.Release()
	}
	if cap(p.messages) > pooledMessages {
		return
	}
	for i := range p.messages {
		if m := &p.messages[i]; cap(m.User) > pooledProperties {
			*m = filter.Message{}
		} else {
			m.Reset()
		}
	}
	p.chunk, p.messages, p.user = nil, p.messages[:0], 0
	publishedPool.Put(p)
}
