package message

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Settlement is the outcome that a peer requests for a delivery.
type Settlement struct {
	Outcome     engine.SettleOutcome // 0: none
	Changes     event.Changes        // of application properties; empty: none
	Reason      string               // of a dead-lettering; Changes include it
	Description string               // the same
}

// SettlementOf reads a delivery state as a settlement (4.6, semantics.md 5.3). An error has the
// text for the peer.
func SettlementOf(state amqp.DeliveryState) (Settlement, *amqp.Error) {
	switch st := state.(type) {
	case nil, amqp.Received:
		return Settlement{}, nil
	case amqp.Accepted:
		return Settlement{Outcome: engine.Complete}, nil
	case amqp.Released:
		return Settlement{Outcome: engine.Release}, nil
	case amqp.Modified:
		w := Settlement{Outcome: engine.Abandon}
		if st.UndeliverableHere {
			w.Outcome = engine.Defer
		}
		var e *amqp.Error
		w.Changes, e = changesOf(st.MessageAnnotations)
		return w, e
	case amqp.Rejected:
		if st.Error == nil {
			return deadLetter(nil)
		}
		return deadLetter(st.Error.Info)
	}
	return Settlement{}, &amqp.Error{Condition: amqp.CondNotImplemented, Description: "The delivery state is not implemented."}
}

// DispositionOf reads the fields of an update-disposition request (6.3). An error has the text for
// the peer.
func DispositionOf(body amqp.Map) (Settlement, *amqp.Error) {
	modify, _ := body.Get("properties-to-modify")
	properties, _ := modify.(amqp.Map)
	w := Settlement{}
	switch status := TextOf(body, "disposition-status"); status {
	case "completed":
		return Settlement{Outcome: engine.Complete}, nil
	case "abandoned":
		w.Outcome = engine.Abandon
	case "defered", "deferred":
		w.Outcome = engine.Defer
	case "suspended":
		for _, p := range [...][2]string{{"deadletter-reason", deadLetterReason}, {"deadletter-description", deadLetterDescription}} {
			if v, ok := body.Get(p[0]); ok && v != nil {
				properties = append(without(properties, p[1]), amqp.Pair{Key: p[1], Value: v})
			}
		}
		return deadLetter(properties)
	default:
		return w, ArgumentError("The disposition status '%s' is not known.", clip([]byte(status)))
	}
	var e *amqp.Error
	w.Changes, e = changesOf(properties)
	return w, e
}

const (
	deadLetterReason      = "DeadLetterReason"
	deadLetterDescription = "DeadLetterErrorDescription"
)

// deadLetter makes a dead-lettering from an info map: reason and description are ordinary
// properties (5.3).
func deadLetter(info amqp.Map) (Settlement, *amqp.Error) {
	w := Settlement{Outcome: engine.MoveToDeadLetter, Reason: TextOf(info, deadLetterReason), Description: TextOf(info, deadLetterDescription)}
	var e *amqp.Error
	w.Changes, e = changesOf(info)
	return w, e
}

// changesOf reads a map of application properties to add or replace: string keys, simple values. It
// leaves out a null reason or description, on which one SDK panics (5.3). The rules read texts.
// Every other value is kept as it is encoded here, so that a receiver gets the sent type.
func changesOf(m amqp.Map) (event.Changes, *amqp.Error) {
	if len(m) == 0 {
		return nil, nil
	}
	if name, found := twice(m); found {
		return nil, ArgumentError("The property '%s' is there twice, as a string and as a symbol.", clip([]byte(name)))
	}
	changes := make(event.Changes, 0, len(m))
	for _, p := range m {
		key, ok := Text(p.Key)
		if !ok {
			return nil, ArgumentError("The key of a property to modify must be a string.")
		}
		if p.Value == nil && (key == deadLetterReason || key == deadLetterDescription) {
			continue
		}
		if !simple(p.Value) {
			return nil, ArgumentError("The property '%s' is not of a simple type.", key)
		}
		changes = append(changes, event.Property{Name: key, Value: carried(p.Value)})
	}
	return changes, nil
}

// twice finds a name that a map has as a string and as a symbol. In AMQP these are two keys, but in
// a message they would be one property, and a stored map that has a key twice cannot be read back.
func twice(m amqp.Map) (name string, found bool) {
	symbols := map[string]bool{}
	for _, p := range m {
		if s, ok := p.Key.(amqp.Symbol); ok {
			symbols[string(s)] = true
		}
	}
	for _, p := range m {
		if s, ok := p.Key.(string); ok && symbols[s] {
			return s, true
		}
	}
	return "", false
}

// carried returns a property's value as the rules read it; see changesOf.
func carried(v any) event.Value {
	if text, ok := v.(string); ok {
		return event.Value{Type: event.String, Text: text}
	}
	return event.Value{Type: event.Encoded, Text: string(amqp.AppendValue(nil, v))}
}

// simple reports whether a value may be an application property; described simple values are .NET's
// own types (5.3).
func simple(v any) bool {
	switch v := v.(type) {
	case amqp.Map, amqp.List, amqp.Array, amqp.Composite:
		return false
	case amqp.Described:
		return simple(v.Value)
	}
	return true
}

// without returns m without the entries of a key.
func without(m amqp.Map, key string) amqp.Map {
	var kept amqp.Map
	for _, p := range m {
		if k := fmt.Sprint(p.Key); k != key {
			kept = append(kept, p)
		}
	}
	return kept
}
