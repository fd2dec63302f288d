package message

import (
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// StoredReader reads stored messages for answers about the present. It reuses its memory, so it has
// one owner at a time.
type StoredReader struct{ changed, joined []byte }

// Properties fills in the properties that filters read, as [Properties] does, with the later
// changes, the oldest first. stored may be cut anywhere in the body.
func (r *StoredReader) Properties(stored []byte, changes [][]byte, into *filter.Message) error {
	s, err := splitSections(stored)
	if err != nil {
		return err
	}
	stored = stored[:len(stored)-len(s.tail)]
	if len(changes) == 0 {
		_, err = Properties(stored, into)
		return err
	}
	o, err := readOverlay(changes)
	if err != nil {
		return err
	}
	now := append(r.changed[:0], s.header...)
	now = appendMapSection(now, amqp.SectionMessageAnnotations, s.messageAnnotations, o.replaces, o.appendAnnotations)
	now = appendProperties(now, s.properties, &limit{}, o)
	now = o.appendApplication(now, s.applicationProperties)
	r.changed = now
	if _, err = Properties(now, into); err != nil {
		return err
	}
	if c, ok := o.changed(filter.TimeToLive); ok {
		if into.System[filter.TimeToLive] = (event.Value{}); !c.null {
			into.System[filter.TimeToLive] = span(c.time)
		}
	}
	return nil
}

// Body returns the body of a stored message: the contents of its data sections as one, or the text
// of a value. text is nil if the body is another value, a sequence or none; kind is value, sequence
// or none, and "" for data. The text may alias stored, and is valid until the next call.
func (r *StoredReader) Body(stored []byte) (text []byte, kind string, err error) {
	s, err := splitSections(stored)
	if err != nil {
		return nil, "", err
	}
	if len(s.tail) == 0 || s.tail[2] == amqp.SectionFooter {
		return nil, "none", nil
	}
	switch s.tail[2] {
	case amqp.SectionSequence:
		return nil, "sequence", nil
	case amqp.SectionValue:
		n := amqp.RawSize(s.tail[3:])
		if n < 0 {
			return nil, "", errStored
		}
		text, _ = amqp.RawText(s.tail[3 : 3+n])
		return text, "value", nil
	}
	parts := 0
	for data := range amqp.DataSections(s.tail) {
		switch parts++; parts {
		case 1:
			text = data
		case 2:
			text = append(r.joined[:0], text...)
			fallthrough
		default:
			text = append(text, data...)
			r.joined = text
		}
	}
	if parts == 0 {
		return nil, "", errStored
	}
	return text, "", nil
}
