package message

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// 4.6, 5.3: the outcome of each delivery state, and the refusal of states without one.
func TestSettlementOf(t *testing.T) {
	t.Parallel()
	list := amqp.Map{{Key: "k", Value: amqp.List{}}}
	for _, c := range []struct {
		name    string
		state   amqp.DeliveryState
		want    engine.SettleOutcome
		refused amqp.Symbol
	}{
		{"none", nil, 0, ""},
		{"received", amqp.Received{}, 0, ""},
		{"accepted", amqp.Accepted{}, engine.Complete, ""},
		{"released", amqp.Released{}, engine.Release, ""},
		{"modified", amqp.Modified{}, engine.Abandon, ""},
		{"undeliverable here", amqp.Modified{UndeliverableHere: true}, engine.Defer, ""},
		{"rejected", amqp.Rejected{}, engine.MoveToDeadLetter, ""},
		// the code for transactions asks for the outcome in it
		{"transactional", amqp.TransactionalState{}, 0, amqp.CondNotImplemented},
		{"a key that is no string", amqp.Modified{MessageAnnotations: amqp.Map{{Key: int32(1), Value: "v"}}}, engine.Abandon, amqp.CondArgumentError},
		{"a list", amqp.Modified{MessageAnnotations: list}, engine.Abandon, amqp.CondArgumentError},
		{"a name as a string and as a symbol", amqp.Modified{MessageAnnotations: amqp.Map{{Key: amqp.Symbol("k"), Value: "a"}, {Key: "k", Value: "b"}}}, engine.Abandon, amqp.CondArgumentError},
		{"a described list", amqp.Rejected{Error: &amqp.Error{Info: amqp.Map{{Key: "k", Value: amqp.Described{Descriptor: uint64(1), Value: amqp.List{}}}}}}, engine.MoveToDeadLetter, amqp.CondArgumentError},
	} {
		w, e := SettlementOf(c.state)
		if w.Outcome != c.want || (e != nil) != (c.refused != "") || e != nil && e.Condition != c.refused {
			t.Errorf(`%s: %+v, %v; want w.Outcome == c.want && (e != nil) == (c.refused != "") && (e == nil || e.Condition == c.refused)`, c.name, w, e)
		}
		if c.refused != "" && w.Changes != nil {
			t.Errorf("%s: refused, and %+v", c.name, w.Changes)
		}
	}
}

// 6.3: update-disposition says the same in words. Its own reason and description count, not those
// among the properties.
func TestDispositionOf(t *testing.T) {
	t.Parallel()
	properties := amqp.Map{{Key: "n", Value: int32(5)}, {Key: "DeadLetterReason", Value: "theirs"}}
	number := event.Property{Name: "n", Value: event.Value{Type: event.Encoded, Text: "\x54\x05"}}
	text := func(name, s string) event.Property {
		return event.Property{Name: name, Value: event.Value{Type: event.String, Text: s}}
	}
	for _, c := range []struct {
		status string
		more   amqp.Map
		want   Settlement
	}{
		{"completed", nil, Settlement{Outcome: engine.Complete}},
		{"abandoned", nil, Settlement{Outcome: engine.Abandon, Changes: event.Changes{number, text("DeadLetterReason", "theirs")}}},
		{"deferred", nil, Settlement{Outcome: engine.Defer, Changes: event.Changes{number, text("DeadLetterReason", "theirs")}}},
		{"defered", nil, Settlement{Outcome: engine.Defer, Changes: event.Changes{number, text("DeadLetterReason", "theirs")}}},
		{"suspended", nil, Settlement{Outcome: engine.MoveToDeadLetter, Reason: "theirs", Changes: event.Changes{number, text("DeadLetterReason", "theirs")}}},
		{"suspended", amqp.Map{{Key: "deadletter-reason", Value: "why"}, {Key: "deadletter-description", Value: "because"}},
			Settlement{Outcome: engine.MoveToDeadLetter, Reason: "why", Description: "because",
				Changes: event.Changes{number, text("DeadLetterReason", "why"), text("DeadLetterErrorDescription", "because")}}},
	} {
		got, e := DispositionOf(append(amqp.Map{{Key: "disposition-status", Value: c.status}, {Key: "properties-to-modify", Value: properties}}, c.more...))
		if e != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v (-want +got):\n%s", c.status, got, e, c.want, cmp.Diff(c.want, got))
		}
	}
	if _, e := DispositionOf(amqp.Map{{Key: "disposition-status", Value: "unheard"}}); e == nil || e.Description != "The disposition status 'unheard' is not known." {
		t.Errorf(`%+v; want e != nil && e.Description == "The disposition status 'unheard' is not known."`, e)
	}
}

// FuzzChanges: for any properties that a client changes, a receiver gets them as package amqp
// encodes them, and as it got them from a log of format 1, which has the map in that encoding.
func FuzzChanges(f *testing.F) {
	f.Add(amqp.AppendValue(nil, amqp.Map{{Key: "a", Value: "b"}, {Key: amqp.Symbol("c"), Value: int64(1)}, {Key: "d", Value: amqp.UUID{1}}}))
	f.Add(amqp.AppendValue(nil, amqp.Map{{Key: "a", Value: string(make([]byte, 300))}, {Key: "b", Value: dotNet(describedSpan, int64(5))}, {Key: "c"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, _, err := amqp.DecodeValue(b, amqp.DefaultLimits)
		m, ok := v.(amqp.Map)
		if err != nil || !ok {
			return
		}
		w, e := SettlementOf(amqp.Modified{MessageAnnotations: m})
		if e != nil {
			return
		}
		var want amqp.Map
		for _, p := range m {
			name, _ := Text(p.Key)
			if p.Value != nil || name != deadLetterReason && name != deadLetterDescription {
				want = append(want, amqp.Pair{Key: name, Value: p.Value})
			}
		}
		stored, deliver := w.Changes.Append(nil), func(changes []byte) []byte {
			out, err := AppendDelivery(nil, message("a", "b"), &engine.Delivery{}, [][]byte{changes}, View{})
			if err != nil {
				t.Fatalf("% x: %v", changes, err)
			}
			return out
		}
		got := deliver(stored)
		if old := deliver(amqp.AppendValue(nil, want)); !bytes.Equal(got, old) {
			t.Errorf("% x:\ngot  % x\nwant % x", b, got, old)
		}
		s, err := amqp.ScanMessage(got, amqp.DefaultLimits)
		if section := amqp.AppendSection(nil, amqp.SectionApplicationProperties, want); err != nil || len(want) > 0 && !bytes.Equal(s.ApplicationProperties.Of(got), section) {
			t.Errorf("% x: %v\ngot  % x\nwant % x", b, err, s.ApplicationProperties.Of(got), section)
		}
		if read, err := event.ReadChanges(stored); err != nil || !slices.Equal(read.Set, w.Changes) || len(stored) != w.Changes.Size() {
			t.Errorf("%+v is stored in %d bytes as % x, %v", w.Changes, w.Changes.Size(), stored, err)
		}
	})
}
