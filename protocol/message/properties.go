package message

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Properties fills in the properties of an encoded message that filters read (semantics.md 15.4):
// the system properties that a sender sets and the application properties. It reuses the memory of
// into, whose texts do not alias message. Properties that only the broker knows stay null. header
// is the number of bytes that are not body or footer. An error means that the bytes are not a
// message.
func Properties(message []byte, into *filter.Message) (header int, err error) {
	s, err := amqp.ScanMessage(message, amqp.DefaultLimits)
	if err == nil && !s.Regular() {
		message = amqp.AppendNormalized(make([]byte, 0, len(message)), message, &s)
		s, err = amqp.ScanMessage(message, amqp.DefaultLimits)
	}
	if err != nil {
		return 0, err
	}
	between := timesOf(s.Properties.Of(message))
	ttl, e := timeToLive(s.TTL, &between)
	if e != nil {
		return 0, e
	}
	readProperties(message, &s, ttl, into)
	return len(message) - s.Body.Len() - s.Footer.Len(), nil
}

// readProperties is Properties for a regular message whose sections are known.
func readProperties(b []byte, s *amqp.Sections, ttl time.Duration, into *filter.Message) {
	into.Reset()
	if ttl > 0 {
		into.System[filter.TimeToLive] = span(ttl.Milliseconds())
	}
	var start, end int
	// the sections are in this order
	for _, p := range [...]amqp.Span{s.MessageAnnotations, s.Properties, s.ApplicationProperties} {
		if !p.Empty() {
			if end == 0 {
				start = p.Start
			}
			end = p.End
		}
	}
	all := newEncodedValue(b[start:end])
	section := func(p amqp.Span) encodedValue {
		if p.Empty() {
			return encodedValue{}
		}
		return all.cut(p.Start-start, p.End-start).items()
	}
	readAnnotations(section(s.MessageAnnotations), into)
	readFields(section(s.Properties), into)
	readApplicationProperties(section(s.ApplicationProperties), into)
}

func readAnnotations(entries encodedValue, into *filter.Message) {
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

// systemFields maps each field of the properties section to its system property for filters;
// SystemCount marks fields that filters do not read.
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

// readFields reads the properties section. Ids of types other than text are converted to text, as
// SDKs show them.
func readFields(fields encodedValue, into *filter.Message) {
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

func readApplicationProperties(entries encodedValue, into *filter.Message) {
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
