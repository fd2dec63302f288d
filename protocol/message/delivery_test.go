package message

import (
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// message makes an encoded message with an id and a body.
func message(id any, body string) []byte {
	m := amqp.AppendProperties(nil, &amqp.Properties{MessageID: id})
	return amqp.AppendData(m, []byte(body))
}

// shown is a decoded delivery.
type shown struct {
	header      amqp.Header
	properties  amqp.Properties
	annotations amqp.Map
	application amqp.Map
	body        string
}

// decoded decodes a delivery.
func decoded(t testing.TB, b []byte) (m shown) {
	t.Helper()
	s, err := amqp.ScanMessage(b, amqp.DefaultLimits)
	if err != nil {
		t.Fatalf("%v in % x", err, b)
	}
	if s.Header.Empty() || s.Properties.Empty() {
		t.Fatal("no header or no properties")
	}
	m.header, _ = amqp.DecodeHeader(s.Header.Of(b))
	m.properties, _ = amqp.DecodeProperties(s.Properties.Of(b))
	delivery := mapOf(s.DeliveryAnnotations.Of(b))
	m.annotations = mapOf(s.MessageAnnotations.Of(b))
	m.application = mapOf(s.ApplicationProperties.Of(b))
	for d := range amqp.DataSections(s.Body.Of(b)) {
		m.body += string(d)
	}
	for _, p := range slices.Concat(delivery, m.annotations) { // WP-211
		if _, text := p.Key.(string); text {
			t.Errorf("annotation %q has a string for a key", p.Key)
		}
	}
	return m
}

// mapOf returns the entries of a map section.
func mapOf(section []byte) amqp.Map {
	_, value, _ := amqp.SectionContent(section)
	v, _, _ := amqp.DecodeValue(value, amqp.DefaultLimits)
	m, _ := v.(amqp.Map)
	return m
}

// A delivery costs only the memory of its bytes.
func TestDeliveryAllocations(t *testing.T) {
	d := &engine.Delivery{Sequence: 1, EnqueuedAt: 1, LockedUntil: 2, Token: event.LockToken{1}, WasScheduled: true}
	for _, stored := range [][]byte{message("a", "x"), fullMessage()} {
		for _, v := range []View{{LockToken: true}, {Taken: true}} {
			out := make([]byte, 0, 4096)
			if n := testing.AllocsPerRun(100, func() {
				if _, err := AppendDelivery(out, stored, d, nil, v); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%+v: %v allocations", v, n)
			}
		}
	}
}

// SM-268: a message that was forwarded out of a dead-letter queue names the entity it was in,
// whatever its sender set for that. For other messages the sender's value is passed on.
func TestDeadLetterSource(t *testing.T) {
	t.Parallel()
	sent := amqp.AppendSection(nil, amqp.SectionMessageAnnotations, amqp.Map{{Key: amqp.Symbol(keyDeadLetterSource), Value: "sender"}, {Key: amqp.Symbol("user"), Value: "u"}})
	for stored, says := range map[string]bool{string(message("a", "x")): false, string(append(sent, message("a", "x")...)): true} {
		for source, want := range map[string]any{"Orders": "Orders", "events/Subscriptions/audit": "events/Subscriptions/audit", "": "sender"} {
			for _, v := range []View{{LockToken: true}, {Peek: true}, {Taken: true}} {
				b, err := AppendDelivery(nil, []byte(stored), &engine.Delivery{Sequence: 3, EnqueuedSequence: 9, DeadLetterSource: source}, nil, v)
				if err != nil {
					t.Fatal(err)
				}
				m := decoded(t, b).annotations
				got, there := m.Get(keyDeadLetterSource)
				if there != (source != "" || says) || there && got != want {
					t.Errorf("forwarded from %q: %v", source, got)
				}
				if n, _ := m.Get(keyEnqueueSequence); n != int64(9) {
					t.Errorf("number at first submission: %v", n)
				}
			}
		}
	}
}

// Semantics 9.3: a message that was sent through an entity and could not be moved on shows the time
// to live that it was sent with, which has not begun.
func TestTimeToLiveAsSent(t *testing.T) {
	t.Parallel()
	stored := append(amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(uint32(90_000))}), message("a", "x")...)
	for ttl, want := range map[time.Duration]amqp.Opt[uint32]{-1: amqp.Some(uint32(90_000)), 0: {}, time.Second: amqp.Some(uint32(1000))} {
		b, err := AppendDelivery(nil, stored, &engine.Delivery{Sequence: 3, TimeToLive: ttl}, nil, View{Peek: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := splitSections(b)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := amqp.DecodeHeader(s.header); err != nil || h.TTL != want {
			t.Errorf("with a time to live of %v: %v, %v; want %v", ttl, h.TTL, err, want)
		}
	}
}
