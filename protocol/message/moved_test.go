package message

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// described returns the fields of a message that the rules read, without the usual values.
func described(m *engine.Message) string {
	s := fmt.Sprintf("id %s %s", m.IDType, m.ID)
	if m.HasSession {
		s += fmt.Sprintf(", session %q", m.SessionID)
	}
	if len(m.PartitionKey) > 0 {
		s += fmt.Sprintf(", key %q", m.PartitionKey)
	}
	if m.TimeToLive != 0 {
		s += fmt.Sprintf(", ttl %s", m.TimeToLive)
	}
	if m.ScheduledFor != 0 {
		s += fmt.Sprintf(", for %d", m.ScheduledFor)
	}
	for _, d := range []struct {
		name string
		text []byte
	}{{"subject", m.Details.Subject}, {"correlation", m.Details.CorrelationID}, {"type", m.Details.ContentType}, {"trace", m.Details.TraceParent}} {
		if len(d.text) > 0 {
			s += fmt.Sprintf(", %s %q", d.name, d.text)
		}
	}
	return s
}

// SM-261: a moved message keeps its sent fields, and the changes of its system properties by an
// action take effect at the destination. The second change is a settlement's, or that of another
// rule.
func TestReread(t *testing.T) {
	t.Parallel()
	text := func(name, s string) event.Property {
		return event.Property{Name: name, Value: event.Value{Type: event.String, Text: s}}
	}
	system := func(p ...event.Property) [][]byte {
		return [][]byte{(&event.RuleChanges{System: p}).Append(nil)}
	}
	of := func(p amqp.Properties) []byte {
		return amqp.AppendData(amqp.AppendProperties(nil, &p), []byte("body"))
	}
	plain, full := message("m", "body"), fullMessage()
	for _, test := range []struct {
		name    string
		stored  []byte
		ttl     time.Duration
		changes [][]byte
		want    string
	}{
		{"nothing more than an id", plain, 0, nil, `id string m`},
		{"all", full, -1, nil, `id uuid 01000000-0000-0000-0000-000000000000, session "pk", key "pk", ttl 1m30s, for 1000, subject "label", correlation "12", type "text/plain"`},
		{"the time to live was cut", full, time.Minute, nil, `id uuid 01000000-0000-0000-0000-000000000000, session "pk", key "pk", ttl 1m0s, for 1000, subject "label", correlation "12", type "text/plain"`},
		{"no time to live", message(uint64(7), ""), 0, nil, `id ulong 7`},
		{"times alone", of(amqp.Properties{MessageID: "m", CreationTime: amqp.Some(amqp.Timestamp(1000)), AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(61_000))}), 0, nil, `id string m`},
		{"times that an older version took for a time to live",
			of(amqp.Properties{MessageID: "m", CreationTime: amqp.Some(amqp.Timestamp(1000)), AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(61_000))}), -1, nil, `id string m, ttl 1m0s`},
		{"never", append(amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(uint32(math.MaxUint32))}),
			of(amqp.Properties{MessageID: "m", CreationTime: amqp.Some(amqp.Timestamp(1000)), AbsoluteExpiryTime: amqp.Some(amqp.Timestamp(253402207200000))})...), -1, nil, `id string m`},
		{"never, by an action", plain, time.Hour, system(event.Property{Name: "TimeToLive", Value: event.Value{Type: event.Span, Bits: math.MaxInt64}}), `id string m`},
		{"another id", message(uint64(7), ""), 0, system(text("MessageId", "n")), `id string n`},
		{"an id that was taken away", message(uint64(7), ""), 0, system(event.Property{Name: "MessageId"}), `id ulong 7`},
		{"a session", plain, 0, system(text("SessionId", "s")), `id string m, session "s"`},
		{"no session", of(amqp.Properties{MessageID: "m", GroupID: amqp.Some("s")}), 0, system(event.Property{Name: "SessionId"}), `id string m`},
		{"the empty session", plain, 0, system(text("SessionId", "")), `id string m, session ""`},
		{"times", plain, time.Hour, system(event.Property{Name: "ScheduledEnqueueTimeUtc", Value: event.InstantOf(77)}, event.Property{Name: "TimeToLive", Value: span(5000)}),
			`id string m, ttl 5s, for 77`},
		{"times taken away", full, time.Minute, append(system(event.Property{Name: "ScheduledEnqueueTimeUtc"}, event.Property{Name: "TimeToLive"}, text("SessionId", "x")),
			system(text("PartitionKey", "x"), event.Property{Name: "Label"}, event.Property{Name: "ContentType"})...),
			`id uuid 01000000-0000-0000-0000-000000000000, session "x", key "x", correlation "12"`},
		{"a key", plain, 0, system(text("PartitionKey", "k")), `id string m, key "k"`},
		{"details", plain, 0, system(text("Label", "l"), text("CorrelationId", "c"), text("ContentType", "t")), `id string m, subject "l", correlation "c", type "t"`},
		{"a trace", plain, 0, [][]byte{event.Changes{text(keyTraceParent, "00-1")}.Append(nil), event.Changes{text(keyDiagnosticID, "00-2")}.Append(nil)}, `id string m, trace "00-2"`},
		{"changes of format 1", plain, 0, [][]byte{ruled(amqp.Map{{Key: "a", Value: "b"}}, nil, amqp.Map{{Key: "SessionId", Value: "s"}})}, `id string m, session "s"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stored := slices.Clone(test.stored)
			m, merged, err := Reread(stored, test.changes, test.ttl, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := described(&m); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			s, _ := amqp.ScanMessage(stored, amqp.DefaultLimits)
			if m.Header != len(stored)-s.Body.Len()-s.Footer.Len()+len(merged) || int(m.Details.BodySize) != s.Body.Len() || &m.Body[0] != &stored[0] {
				t.Errorf("header of %d bytes, body of %d, in %d bytes with %d of changes", m.Header, m.Details.BodySize, len(stored), len(merged))
			}
		})
	}
}

// An action can give a message a session of another partition, where no receiver would get it.
func TestRereadOtherKey(t *testing.T) {
	t.Parallel()
	c := event.RuleChanges{System: event.Changes{{Name: "SessionId", Value: event.Value{Type: event.String, Text: "other"}}}}
	_, _, err := Reread(fullMessage(), [][]byte{c.Append(nil)}, 0, nil)
	if e, ok := errors.AsType[*engine.Error](err); !ok || e.Code != engine.NotAllowed {
		t.Errorf("%v is no refusal", err)
	}
}

// FuzzReread: for any content of a log, a message that can be delivered can be moved, looks the
// same afterwards, and can be moved on.
func FuzzReread(f *testing.F) {
	set := event.RuleChanges{Removed: []string{"n"}, Set: event.Changes{{Name: "a", Value: event.Value{Type: event.Int, Bits: 5}}},
		System: event.Changes{{Name: "MessageId"}, {Name: "Label", Value: event.Value{Type: event.String, Text: "l"}}, {Name: "TimeToLive", Value: span(9)}}}
	f.Add(fullMessage(), set.Append(nil), set.Set.Append(nil))
	f.Add(message("m", "x"), ruled(amqp.Map{{Key: "a", Value: "b"}}, amqp.List{"c"}, amqp.Map{{Key: "To", Value: nil}}), set.Append(nil))
	f.Add(detailed(), []byte{1, 0, 0, 0}, amqp.AppendValue(nil, amqp.Map{{Key: "Diagnostic-Id", Value: "x"}}))
	f.Fuzz(func(t *testing.T, stored, first, second []byte) {
		if in, e := Inspect(slices.Clone(stored), &testLimits); e != nil || !in.HasID() || !in.sections.Regular() || string(in.Message.Body) != string(stored) {
			return // no broker has stored it
		}
		changes := [][]byte{first, second}
		d := engine.Delivery{TimeToLive: time.Second, Sequence: 1}
		where, err := AppendDelivery(nil, stored, &d, changes, View{})
		if err != nil {
			return
		}
		var see filter.Message
		m, merged, err := Reread(stored, changes, time.Second, &see)
		if _, refused := errors.AsType[*engine.Error](err); err != nil && !refused {
			t.Fatalf("delivered as % x, and cannot be moved: %v", where, err)
		}
		var again [][]byte
		if merged != nil {
			again = append(again, merged)
		}
		o, err := readOverlay(changes)
		if err != nil {
			t.Fatal(err)
		}
		if _, changed := o.changed(filter.TimeToLive); !changed {
			there, err := AppendDelivery(nil, stored, &d, again, View{})
			if err != nil || string(there) != string(where) {
				t.Fatalf("%v\nwas  % x\nnow  % x", err, where, there)
			}
		}
		next, twice, err := Reread(stored, again, m.TimeToLive, nil)
		if _, refused := errors.AsType[*engine.Error](err); err != nil && !refused {
			t.Fatalf("cannot be moved on: %v", err)
		}
		if string(twice) != string(merged) || described(&next) != described(&m) {
			t.Errorf("moved as  %s, % x\nmoved on as %s, % x", described(&m), merged, described(&next), twice)
		}
	})
}
