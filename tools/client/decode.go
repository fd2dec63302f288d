package client

import (
	"time"

	"github.com/Azure/go-amqp"

	wire "github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// decode decodes a message. The AMQP library does not know decimals and chars, decodes symbols as
// strings, and does not distinguish a null body from no body. Values that it would not keep stay as
// [wire.DecodeValue] returns them. A message without a body has a Sequence without sections.
func decode(encoded []byte) (*amqp.Message, error) {
	m := new(amqp.Message)
	s, err := wire.ScanMessage(encoded, decodeLimits)
	if err != nil {
		return m, m.UnmarshalBinary(encoded)
	}
	if err := m.UnmarshalBinary(append(s.Header.Of(encoded), s.Properties.Of(encoded)...)); err != nil {
		return nil, err
	}
	for _, section := range []struct {
		span wire.Span
		to   *amqp.Annotations
	}{{s.DeliveryAnnotations, &m.DeliveryAnnotations}, {s.MessageAnnotations, &m.Annotations}, {s.Footer, &m.Footer}} {
		if *section.to, err = decodeMap(section.span.Of(encoded)); err != nil {
			return nil, err
		}
	}
	properties, err := decodeMap(s.ApplicationProperties.Of(encoded))
	if err != nil {
		return nil, err
	}
	for key, value := range properties {
		if name, ok := key.(string); ok {
			if m.ApplicationProperties == nil {
				m.ApplicationProperties = make(map[string]any, len(properties))
			}
			m.ApplicationProperties[name] = value
		}
	}
	return m, decodeBody(m, s.Body.Of(encoded), s.BodyKind)
}

// decodeMap decodes a section that is a map. As in the library, symbols as keys become strings.
func decodeMap(section []byte) (amqp.Annotations, error) {
	_, content, ok := wire.SectionContent(section)
	if !ok {
		return nil, nil
	}
	v, _, err := wire.DecodeValue(content, decodeLimits)
	if err != nil {
		return nil, err
	}
	entries, _ := v.(wire.Map)
	m := make(amqp.Annotations, len(entries))
	for _, p := range entries {
		if symbol, ok := p.Key.(wire.Symbol); ok {
			p.Key = string(symbol)
		}
		m[p.Key] = libraryValue(p.Value)
	}
	return m, nil
}

func decodeBody(m *amqp.Message, body []byte, kind wire.BodyKind) error {
	switch kind {
	case wire.BodyNone:
		m.Sequence = [][]any{}
	case wire.BodyData:
		m.Data = [][]byte{}
		for part := range wire.DataSections(body) {
			m.Data = append(m.Data, part)
		}
	case wire.BodySequence:
		for len(body) > 0 {
			n := wire.RawSize(body)
			_, content, _ := wire.SectionContent(body[:n])
			v, _, err := wire.DecodeValue(content, decodeLimits)
			if err != nil {
				return err
			}
			list, _ := v.(wire.List)
			m.Sequence = append(m.Sequence, list)
			body = body[n:]
		}
	case wire.BodyValue:
		_, content, _ := wire.SectionContent(body)
		v, _, err := wire.DecodeValue(content, decodeLimits)
		if err != nil {
			return err
		}
		if m.Value = libraryValue(v); v == nil {
			m.Value = amqp.Null{}
		}
	}
	return nil
}

// libraryValue returns a value as the library represents it, if the library has an equivalent.
func libraryValue(v any) any {
	switch v := v.(type) {
	case wire.UUID:
		return amqp.UUID(v)
	case wire.Timestamp:
		return time.UnixMilli(int64(v)).UTC()
	}
	return v
}
