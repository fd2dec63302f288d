package index

import (
	"bytes"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

const (
	hour = event.Retention(3_600_000)
	week = 7 * 24 * hour
)

// TestHistoryPolicy: the most specific pattern wins for the fields that it sets. Unset fields come
// from the next one, and last from the namespace.
func TestHistoryPolicy(t *testing.T) {
	t.Parallel()
	x := New()
	c := &x.Catalogue
	all := event.HistoryPolicy{Events: week, Bodies: 24 * hour, Undo: 24 * hour}
	if p := c.HistoryPolicy("any"); p != all || c.History().Whole().Share != 20 || c.History() != nil {
		t.Errorf("at first %+v", p)
	}
	set := func(at event.Time, pattern string, p event.HistoryPolicy) {
		x.Apply(at, &event.HistoryPolicySet{Pattern: pattern, Policy: p})
	}
	set(1000, "Orders/*", event.HistoryPolicy{Events: 30 * week})
	set(2000, "", event.HistoryPolicy{Events: week, Bodies: 24 * hour})
	set(3000, "*", event.HistoryPolicy{Undo: 2 * hour})
	set(4000, "orders/EU", event.HistoryPolicy{Events: event.KeepNone, Bodies: event.KeepNone})
	set(5000, "news", event.HistoryPolicy{Bodies: hour})
	set(5000, "news/Subscriptions/audit", event.HistoryPolicy{Bodies: week})
	set(6000, "ORDERS/*", event.HistoryPolicy{Events: 2 * week}) // in the place of the first
	for path, want := range map[string]event.HistoryPolicy{
		"billing":                  {Events: week, Bodies: 24 * hour, Undo: 2 * hour},
		"orders/us":                {Events: 2 * week, Bodies: 24 * hour, Undo: 2 * hour},
		"Orders/eu":                {Events: event.KeepNone, Bodies: event.KeepNone, Undo: 2 * hour},
		"orders/eu/x":              {Events: 2 * week, Bodies: 24 * hour, Undo: 2 * hour},
		"news":                     {Events: week, Bodies: hour, Undo: 2 * hour},
		"news/Subscriptions/other": {Events: week, Bodies: hour, Undo: 2 * hour}, // as its topic
		"News/subscriptions/Audit": {Events: week, Bodies: week, Undo: 2 * hour},
	} {
		if p := c.HistoryPolicy(path); p != want {
			t.Errorf("%s: %+v, not %+v", path, p, want)
		}
	}
	if h := c.History(); h.Since != 1000 || len(h.Patterns) != 5 {
		t.Errorf("%+v; want h.Since == 1000 && len(h.Patterns) == 5", h)
	}
	x.Apply(7000, &event.HistoryPolicySet{Pattern: "orders/eu", Removed: true})
	x.Apply(7000, &event.HistoryPolicySet{Pattern: "*", Removed: true})
	x.Apply(7000, &event.HistoryPolicySet{Pattern: "never", Removed: true})
	x.Apply(7000, &event.HistoryPolicySet{Removed: true})
	if p := c.HistoryPolicy("orders/eu"); p != (event.HistoryPolicy{Events: 2 * week, Bodies: 24 * hour, Undo: 24 * hour}) {
		t.Errorf("after removals %+v", p)
	}
}

// History policies are in the state: they survive an encoding, a snapshot has those of its time,
// and a clock that is set moves their start.
func TestHistoryInTheState(t *testing.T) {
	t.Parallel()
	x := New()
	x.Apply(1000, &event.HistoryPolicySet{Pattern: "b", Policy: event.HistoryPolicy{Undo: hour}})
	old := x.Snapshot()
	defer old.Close()
	x.Apply(2000, &event.HistoryPolicySet{Pattern: "A*", Policy: event.HistoryPolicy{Bodies: event.KeepNone}})
	x.Apply(3000, &event.HistoryPolicySet{Policy: event.HistoryPolicy{Events: event.KeepForever}, Share: 30, BeforeSends: true})
	x.Apply(5000, &event.ClockSet{Number: 1, From: 5000, To: 4000}) // no instant gets below 1
	for _, moved := range []bool{false, true} {
		if moved {
			x.Apply(6000, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 3}}, Sequence: 1, MessageID: []byte("a"),
				Arrival: &event.Arrival{Source: event.Slice{Entity: 9}, Number: 4, Floor: 2, Hops: 1, First: 1}})
		}
		a := x.Encode(nil)
		y, err := Decode(a)
		if err != nil {
			t.Fatal(err)
		}
		if b := y.Encode(nil); !bytes.Equal(a, b) {
			t.Errorf("encoded again: %x, not %x", b, a)
		}
		h := y.Catalogue.History()
		if whole := h.Whole(); h.Since != 1 || whole.Share != 30 || !whole.BeforeSends || len(h.Patterns) != 2 || h.Patterns[1].Pattern != "A*" {
			t.Errorf(`%+v; want h.Since == 1 && whole.Share == 30 && whole.BeforeSends && len(h.Patterns) == 2 && h.Patterns[1].Pattern == "A*"`, h)
		}
	}
	var b bytes.Buffer
	if _, err := old.Encode(&b); err != nil {
		t.Fatal(err)
	}
	y, err := Decode(b.Bytes())
	if err != nil || len(y.Catalogue.History().Patterns) != 1 || y.Catalogue.History().Namespace != nil {
		t.Errorf("the snapshot: %+v, %v", y.Catalogue.History(), err)
	}
}
