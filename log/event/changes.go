package event

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Changes are application properties that are added to a message or replaced, in order. No name
// occurs twice.
type Changes []Property

// RuleChanges are the changes that the action of a rule makes to a copy of a message. They are
// applied in the order of the fields, the removals first; names are exact.
type RuleChanges struct {
	Removed []string // application properties
	Set     Changes  // including those that the broker adds
	System  Changes  // by their names in SQL filters; null: removed
}

// Encoded is the type of a value that the protocol has encoded, in Text. Rules carry it and do not
// interpret it. It occurs only in [Changes], not in rules or in messages that filters see.
const Encoded ValueType = 254

// changesForm is the first byte of property changes in a log (docs/log-format.md, section 8). Those
// of format 1 were AMQP, and begin with the constructor of a map or list instead.
const changesForm = 1

// Size returns how many bytes [Changes.Append] appends.
func (c Changes) Size() int {
	// the form, and two counts of 0: for removed properties and for changed system properties
	n := 3 + uvarintSize(uint64(len(c)))
	for i := range c {
		n += c[i].size()
	}
	return n
}

// Append appends changes in their form in a log.
func (c Changes) Append(dst []byte) []byte {
	rule := RuleChanges{Set: c}
	return rule.Append(dst)
}

// Append appends rule changes in their form in a log: that of [Changes.Append], with more in it.
func (c *RuleChanges) Append(dst []byte) []byte {
	dst = append(dst, changesForm)
	dst = binary.AppendUvarint(dst, uint64(len(c.Removed)))
	for _, name := range c.Removed {
		dst = appendText(dst, name)
	}
	return appendProperties(appendProperties(dst, c.Set), c.System)
}

// appendProperties encodes properties as in a rule, but with texts of any length. Changes are
// encoded before they are found to be too large to be stored.
func appendProperties(dst []byte, ps Changes) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ps)))
	for i := range ps {
		v := ps[i].Value.storable()
		dst = append(appendText(dst, ps[i].Name), byte(v.Type))
		dst = appendText(binary.AppendUvarint(dst, v.Bits), v.Text)
	}
	return dst
}

func (p *Property) size() int {
	v := p.Value.storable()
	return textSize(p.Name) + 1 + uvarintSize(v.Bits) + textSize(v.Text)
}

// storable returns a value in the form that changes store. A value that has no form in a message,
// which filters only see as existing, becomes null.
func (v Value) storable() Value {
	switch {
	case v.Type == Bool:
		v.Bits = min(v.Bits, 1)
	case v.Type == Encoded:
		v.Bits = 0
	case v.Type > Span:
		return Value{}
	}
	return v
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func textSize(s string) int { return uvarintSize(uint64(len(s))) + len(s) }

func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// ReadChanges reads all of stored, as [Changes.Append] or [RuleChanges.Append] wrote it. The texts
// do not alias it. It does not check the values: neither texts nor values that the protocol has
// encoded.
func ReadChanges(stored []byte) (c RuleChanges, err error) {
	d := changesDecoder{decoder{src: stored}, string(stored)}
	if form := d.byte(); d.err == nil && form != changesForm {
		d.fail("%#x is not a form of property changes", form)
	}
	if n := d.count(1); n > 0 {
		c.Removed = make([]string, 0, n)
		for range n {
			c.Removed = append(c.Removed, d.text())
		}
	}
	c.Set, c.System = d.properties(), d.properties()
	if len(d.src) > 0 {
		d.fail("%d bytes too many", len(d.src))
	}
	if d.err != nil {
		return RuleChanges{}, fmt.Errorf("event: property changes, at byte %d: %w", len(stored)-len(d.src), d.err)
	}
	return c, nil
}

// changesDecoder is a decoder whose texts are all parts of one string.
type changesDecoder struct {
	decoder
	all string // its text at the start
}

func (d *changesDecoder) text() string {
	n := len(d.bytes())
	at := len(d.all) - len(d.src)
	return d.all[at-n : at]
}

func (d *changesDecoder) properties() Changes {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	ps := make(Changes, 0, n)
	for i := uint64(0); i < n && d.err == nil; i++ {
		p := Property{Name: d.text()}
		if p.Value.Type = ValueType(d.byte()); p.Value.Type > Span && p.Value.Type != Encoded {
			d.fail("%d is not a type of value", p.Value.Type)
		}
		p.Value.Bits, p.Value.Text = d.uvarint(), d.text()
		if p.Value != p.Value.storable() {
			d.fail("number %d of a value of type %d", p.Value.Bits, p.Value.Type)
		}
		ps = append(ps, p)
	}
	return ps
}
