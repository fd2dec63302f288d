package message

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// storedLimits refuse no message that was ever accepted, whatever the settings were then.
var storedLimits = Limits{Decode: amqp.DefaultLimits, IDLength: math.MaxInt, PropertySize: math.MaxInt, HeaderSize: math.MaxInt}

// Reread turns a stored message into the message that another entity stores when it is moved there:
// as it was sent, with the later changes of settlements and rule actions, the oldest change first.
// A system property that an action changed takes effect in the new entity (15.5), unlike in the old
// one: the session id, the partition key, the message-id, the times. If an action removed the
// message-id, duplicates are still detected by the removed one.
//
// The time to live is the one that an action set, or else ttl: the message's own in the old entity,
// 0 for none, negative for the one that it was sent with.
//
// The body of m is stored unchanged; m's other slices may alias it. merged is all changes as one,
// in the form of package event; it is nil if there are none, and m.Header counts it. The time to
// live is not in merged: the new entity keeps and shows it. If see is not nil, it is filled with
// the properties that filters read, except those that only the broker knows, and m keeps it.
//
// An error of type [*engine.Error] is a refusal, with the text that any entity would use; other
// errors mean that stored bytes are damaged.
func Reread(stored []byte, changes [][]byte, ttl time.Duration, see *filter.Message) (m engine.Message, merged []byte, err error) {
	var in Sent
	if e := in.inspect(stored, &storedLimits); e != nil {
		return m, nil, fmt.Errorf("%w: %s", errStored, e.Description)
	}
	if ttl < 0 {
		between := timesOf(in.sections.Properties.Of(in.Message.Body))
		ttl = storedTimeToLive(in.sections.TTL, &between)
	}
	if len(changes) > 0 {
		o, err := readOverlay(changes)
		if err != nil {
			return m, nil, err
		}
		if c, ok := o.changed(filter.TimeToLive); ok {
			ttl = lifetime(c.time)
		}
		if merged, err = o.merged(); err != nil {
			return m, nil, err
		}
		if err := in.change(o); err != nil {
			return m, nil, err
		}
		in.Message.Header += len(merged)
	}
	in.Message.TimeToLive = ttl
	if see != nil {
		in.Properties(see)
	}
	m = in.Message
	m.Body = stored
	if keysDiffer(&m) {
		return m, merged, engine.Refuse(engine.NotAllowed, otherKey)
	}
	return m, merged, nil
}

// change applies the changes to the fields found in a stored message, as a receiver would set them
// that sends the message on. It does not touch the body.
func (in *Sent) change(o *overlay) error {
	sent, s := in.Message.Body, &in.sections
	now := appendMapSection(nil, amqp.SectionMessageAnnotations, s.MessageAnnotations.Of(sent), o.replaces, o.appendAnnotations)
	now = appendProperties(now, s.Properties.Of(sent), &limit{}, o)
	now = o.appendApplication(now, s.ApplicationProperties.Of(sent))
	was := *in
	*in = Sent{}
	if e := in.inspect(now, &storedLimits); e != nil {
		return fmt.Errorf("%w: changed: %s", errStored, e.Description)
	}
	if !in.hasID {
		in.hasID, in.Message.ID, in.Message.IDType = was.hasID, was.Message.ID, was.Message.IDType
	}
	in.Message.Header, in.Message.Details.BodySize = was.Message.Header, was.Message.Details.BodySize
	return nil
}

// merged returns all changes as one, in the form of package event, without the time to live. It is
// nil if there are none.
func (o *overlay) merged() ([]byte, error) {
	var c event.RuleChanges
	for i := range o.application {
		p := &o.application[i]
		switch {
		case p.removed:
			c.Removed = append(c.Removed, p.key)
			continue
		case p.entry != nil:
			raw := p.entry[amqp.RawSize(p.entry):]
			c.Set = append(c.Set, event.Property{Name: p.key, Value: event.Value{Type: event.Encoded, Text: string(raw)}})
		default:
			c.Set = append(c.Set, event.Property{Name: p.key, Value: p.value})
		}
		if !utf8.ValidString(p.key) {
			return nil, errChanges
		}
	}
	for _, at := range changeable {
		if change, ok := o.changed(at); ok && at != filter.TimeToLive {
			c.System = append(c.System, event.Property{Name: at.String(), Value: change.value(at)})
		}
	}
	if len(c.Removed)+len(c.Set)+len(c.System) == 0 {
		return nil, nil
	}
	return c.Append(nil), nil
}

// value returns the new value of a system property other than the time to live.
func (c *systemChange) value(of filter.SystemProperty) event.Value {
	switch {
	case c.null:
		return event.Value{}
	case of == filter.ScheduledEnqueueTimeUtc:
		return event.InstantOf(event.Time(c.time))
	}
	return event.Value{Type: event.String, Text: c.text}
}
