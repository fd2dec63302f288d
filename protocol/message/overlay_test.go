package message

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// ruled encodes the changes of a rule's action in the form of format 1.
func ruled(set, removed, system any) []byte {
	return amqp.AppendValue(nil, amqp.List{set, removed, system})
}

// inOwnForm returns changes of format 1 in the form that followed.
func inOwnForm(t testing.TB, changes [][]byte) (own [][]byte) {
	t.Helper()
	entries := func(v any) (all event.Changes) {
		m, _ := v.(amqp.Map)
		for _, p := range m {
			all = append(all, event.Property{Name: p.Key.(string), Value: carried(p.Value)})
		}
		return all
	}
	for _, b := range changes {
		v, _, err := amqp.DecodeValue(b, amqp.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		list, isRule := v.(amqp.List)
		if !isRule {
			own = append(own, entries(v).Append(nil))
			continue
		}
		c := event.RuleChanges{Set: entries(list[0]), System: entries(list[2])}
		names, _ := list[1].(amqp.List)
		for _, name := range names {
			c.Removed = append(c.Removed, name.(string))
		}
		for i, p := range c.System {
			if p.Value.Type == event.Encoded {
				c.System[i].Value = Value([]byte(p.Value.Text))
			}
		}
		own = append(own, c.Append(nil))
	}
	return own
}

// inFormat1 returns changes in the form of logs of format 1.
func inFormat1(c *event.RuleChanges) []byte {
	entries := func(dst []byte, all event.Changes) []byte {
		dst, mark := amqp.BeginMap(dst)
		for _, p := range all {
			dst = appendValue(amqp.AppendString(dst, p.Name), p.Value)
		}
		return amqp.EndMap(dst, mark, len(all))
	}
	dst, mark := amqp.BeginList(nil)
	dst = entries(dst, c.Set)
	dst, names := amqp.BeginList(dst)
	for _, name := range c.Removed {
		dst = amqp.AppendString(dst, name)
	}
	dst = amqp.EndList(dst, names, len(c.Removed))
	return amqp.EndList(entries(dst, c.System), mark, 3)
}

// rendered returns the delivery of a message with changes of format 1, which equals that with the
// same changes in the newer form.
func rendered(t testing.TB, stored []byte, d *engine.Delivery, v View, changes ...[]byte) shown {
	t.Helper()
	b, err := AppendDelivery(nil, stored, d, changes, v)
	if err != nil {
		t.Fatal(err)
	}
	own := inOwnForm(t, changes)
	now, err := AppendDelivery(nil, stored, d, own, v)
	if err != nil || !bytes.Equal(b, now) {
		t.Errorf("% x, in format 1 % x: %v\ngot  % x\nwant % x", own, changes, err, now, b)
	}
	return decoded(t, b)
}

// 15.5, 5.3: changes of application properties in both stored forms, the oldest first.
func TestOverlayApplication(t *testing.T) {
	t.Parallel()
	stored := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "m"})
	stored = amqp.AppendSection(stored, amqp.SectionApplicationProperties, amqp.Map{{Key: "a", Value: int8(1)}, {Key: "b", Value: "old"}, {Key: "c", Value: true}})
	stored = amqp.AppendData(stored, []byte("body"))
	pair := func(key string, v any) amqp.Map { return amqp.Map{{Key: key, Value: v}} }
	plain := func(m amqp.Map) []byte { return amqp.AppendValue(nil, m) }
	var many amqp.Map
	for i := range 3 * fewProperties {
		many = append(many, amqp.Pair{Key: fmt.Sprint("k", i), Value: int32(i)})
	}
	for _, test := range []struct {
		name    string
		changes [][]byte
		want    string // keys and values in order
	}{
		{"nothing", nil, "a=1 b=old c=true"},
		{"a map replaces and adds", [][]byte{plain(amqp.Map{{Key: "b", Value: "new"}, {Key: "d", Value: nil}})}, "a=1 b=new c=true d=<nil>"},
		{"a list removes, sets and adds", [][]byte{ruled(amqp.Map{{Key: "RuleName", Value: "r"}, {Key: "a", Value: int64(2)}}, amqp.List{"b", "absent"}, nil)}, "a=2 c=true RuleName=r"},
		{"removed before it is set", [][]byte{ruled(pair("b", "again"), amqp.List{"b"}, nil)}, "a=1 b=again c=true"},
		{"a settlement after a rule", [][]byte{ruled(pair("b", "rule"), amqp.List{"a"}, nil), plain(amqp.Map{{Key: "a", Value: "back"}, {Key: "b", Value: "settled"}})}, "a=back b=settled c=true"},
		{"a rule after a settlement", [][]byte{plain(pair("x", "y")), ruled(nil, amqp.List{"x", "c"}, nil)}, "a=1 b=old"},
		{"all gone", [][]byte{ruled(nil, amqp.List{"c", "b", "a"}, nil)}, ""},
		{"names are exact", [][]byte{ruled(pair("B", "other"), amqp.List{"A"}, nil)}, "a=1 b=old c=true B=other"},
		{"empty", [][]byte{ruled(amqp.Map{}, amqp.List{}, amqp.Map{})}, "a=1 b=old c=true"},
		{"many", [][]byte{plain(many), ruled(pair("k40", "x"), amqp.List{"k0"}, nil)}, func() string {
			want := "a=1 b=old c=true"
			for i := 1; i < 3*fewProperties; i++ {
				if v := any(i); i == 40 {
					want += " k40=x"
				} else {
					want += fmt.Sprintf(" k%d=%v", i, v)
				}
			}
			return want
		}()},
	} {
		m := rendered(t, stored, &engine.Delivery{}, View{}, test.changes...)
		var got []string
		for _, p := range m.application {
			got = append(got, fmt.Sprintf("%v=%v", p.Key, p.Value))
		}
		if strings.Join(got, " ") != test.want || m.body != "body" {
			t.Errorf(`%s: %v; want strings.Join(got, " ") == test.want && m.body == "body"`, test.name, got)
		}
	}
	if m := rendered(t, message("m", "x"), &engine.Delivery{}, View{}, ruled(pair("a", "b"), nil, nil)); len(m.application) != 1 {
		t.Errorf("%+v; want len(m.application) == 1", m.application)
	}
}

// 15.5, SM-283: system properties that an action changed, in sections that the sender wrote or did
// not.
func TestOverlaySystem(t *testing.T) {
	t.Parallel()
	texts := map[string]func(shown) any{
		"Label":            func(m shown) any { return m.properties.Subject },
		"SessionId":        func(m shown) any { return m.properties.GroupID },
		"MessageId":        func(m shown) any { return m.properties.MessageID },
		"CorrelationId":    func(m shown) any { return m.properties.CorrelationID },
		"To":               func(m shown) any { return m.properties.To },
		"ReplyTo":          func(m shown) any { return m.properties.ReplyTo },
		"ReplyToSessionId": func(m shown) any { return m.properties.ReplyToGroupID },
		"ContentType":      func(m shown) any { return m.properties.ContentType },
		"PartitionKey":     func(m shown) any { v, _ := m.annotations.Get(keyPartitionKey); return v },
	}
	for _, stored := range [][]byte{fullMessage(), message("m", "x")} {
		var set, gone amqp.Map
		for name := range texts {
			set, gone = append(set, amqp.Pair{Key: name, Value: "new"}), append(gone, amqp.Pair{Key: name, Value: nil})
		}
		set = append(set, amqp.Pair{Key: "ScheduledEnqueueTimeUtc", Value: amqp.Timestamp(5)}, amqp.Pair{Key: "TimeToLive", Value: dotNet(describedSpan, int64(75*event.TicksPerMillisecond))})
		gone = append(gone, amqp.Pair{Key: "ScheduledEnqueueTimeUtc", Value: nil}, amqp.Pair{Key: "TimeToLive", Value: nil})
		d := &engine.Delivery{TimeToLive: time.Minute, EnqueuedAt: 100, ExpiresAt: 60_100, Sequence: 7, EnqueuedSequence: 3}
		m := rendered(t, stored, d, View{}, ruled(nil, nil, gone), ruled(nil, nil, set))
		for name, of := range texts {
			if got := of(m); got != any("new") && got != any(amqp.Some("new")) && got != any(amqp.Some(amqp.Symbol("new"))) {
				t.Errorf("%s is %v", name, got)
			}
		}
		at, _ := m.annotations.Get(keyScheduled)
		from, _ := m.annotations.Get(keyEnqueueSequence)
		if at != amqp.Timestamp(5) || from != int64(3) || m.header.TTL != amqp.Some(uint32(75)) || m.properties.AbsoluteExpiryTime != amqp.Some(amqp.Timestamp(60_100)) {
			t.Errorf("%+v; want at == amqp.Timestamp(5) && from == int64(3) && m.header.TTL == amqp.Some(uint32(75)) && m.properties.AbsoluteExpiryTime == amqp.Some(amqp.Timestamp(60_100))", m)
		}
		// what SDKs take for the time to live is the difference
		if m.properties.CreationTime != amqp.Some(amqp.Timestamp(60_100-75)) {
			t.Errorf("created %+v", m.properties.CreationTime)
		}
		m = rendered(t, stored, d, View{Peek: true}, ruled(nil, nil, set), ruled(nil, nil, gone))
		for name, of := range texts {
			if got := of(m); got != nil && reflect.ValueOf(got).Kind() == reflect.Struct && reflect.ValueOf(got).FieldByName("Set").Bool() {
				t.Errorf("%s is %v", name, got)
			}
		}
		if _, there := m.annotations.Get(keyScheduled); there || m.header.TTL.Set {
			t.Errorf("%+v; want !there && !m.header.TTL.Set", m)
		}
	}
	m := rendered(t, fullMessage(), &engine.Delivery{}, View{}, ruled(nil, nil, amqp.Map{{Key: "ContentType", Value: "größe"}}))
	// a symbol cannot hold that
	if m.properties.ContentType.Set || m.properties.Subject != amqp.Some("label") || !cmp.Equal(m.properties.UserID, []byte("me")) {
		t.Errorf("%+v (-want +got):\n%s", m.properties, cmp.Diff([]byte("me"), m.properties.UserID))
	}
	if _, there := m.annotations.Get(keyEnqueueSequence); there {
		t.Errorf("%+v; want !there", m.annotations)
	}
}

// A rule action as encoded by the engine is read here.
func TestOverlayOfRule(t *testing.T) {
	t.Parallel()
	stored := fullMessage()
	var seen filter.Message
	if _, err := Properties(stored, &seen); err != nil {
		t.Fatal(err)
	}
	set := filter.NewSet()
	rule := event.Rule{Name: "r", Filter: event.Filter{Kind: event.TrueFilter}, Action: event.Action{Text: "SET Color = 'red'; SET big = 9223372036854775807; SET half = 0.5; " +
		"REMOVE N; SET sys.Label = 'other'; SET sys.SessionId = 12; REMOVE sys.To; SET sys.TimeToLive = sys.TimeToLive; SET sys.ScheduledEnqueueTimeUtc = sys.ScheduledEnqueueTimeUtc"}}
	if err := set.Put(1, rule); err != nil {
		t.Fatal(err)
	}
	newID := func() [16]byte { return [16]byte{} }
	matches := set.Match(&seen, newID)
	if len(matches) != 1 || len(matches[0].Actions) != 1 {
		t.Fatalf("%+v; want len(matches) == 1 && len(matches[0].Actions) == 1", matches)
	}
	var c filter.Changes
	if err := matches[0].Actions[0].Run(&seen, newID, &c); err != nil {
		t.Fatal(err)
	}
	var values event.RuleChanges
	c.Values(&values, event.Property{Name: "RuleName", Value: event.Value{Type: event.String, Text: "r"}})
	b, err := AppendDelivery(nil, stored, &engine.Delivery{}, [][]byte{values.Append(nil)}, View{})
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, b)
	at, _ := m.annotations.Get(keyScheduled)
	if m.properties.Subject.Value != "other" || m.properties.GroupID.Value != "12" || m.properties.To.Set || m.header.TTL.Value != 90_000 || at != amqp.Timestamp(1000) {
		t.Errorf(`%+v; want m.properties.Subject.Value == "other" && m.properties.GroupID.Value == "12" && !m.properties.To.Set && m.header.TTL.Value == 90_000 && at == amqp.Timestamp(1000)`, m)
	}
	for key, want := range map[string]any{"color": "red", "big": int64(9223372036854775807), "half": 0.5, "RuleName": "r", "bytes": []byte("z")} {
		if got, _ := m.application.Get(key); !cmp.Equal(got, want) {
			t.Errorf("%s is %#v (-want +got):\n%s", key, got, cmp.Diff(want, got))
		}
	}
	if _, there := m.application.Get("n"); there {
		t.Errorf("%+v; want !there", m.application)
	}
}

// Invalid stored changes are damage: nothing of the message is shown.
func TestOverlayDamaged(t *testing.T) {
	t.Parallel()
	value := func(v any) []byte { return amqp.AppendValue(nil, v) }
	for name, b := range map[string][]byte{
		"empty":             {},
		"text":              value("x"),
		"null":              value(nil),
		"a rest":            append(value(amqp.Map{{Key: "a", Value: "b"}}), amqp.CodeNull),
		"cut":               value(amqp.Map{{Key: "a", Value: "b"}})[:5],
		"two parts":         value(amqp.List{nil, nil}),
		"four parts":        value(amqp.List{nil, nil, nil, nil}),
		"no map":            ruled("x", nil, nil),
		"no list":           ruled(nil, "x", nil),
		"no second map":     ruled(nil, nil, amqp.List{}),
		"a key":             value(amqp.Map{{Key: int32(1), Value: "b"}}),
		"a name":            ruled(nil, amqp.List{int32(1)}, nil),
		"a system key":      ruled(nil, nil, amqp.Map{{Key: int32(1), Value: "b"}}),
		"an unknown one":    ruled(nil, nil, amqp.Map{{Key: "Size", Value: int64(1)}}),
		"a label":           ruled(nil, nil, amqp.Map{{Key: "Label", Value: int64(1)}}),
		"a time":            ruled(nil, nil, amqp.Map{{Key: "ScheduledEnqueueTimeUtc", Value: "now"}}),
		"a time to live":    ruled(nil, nil, amqp.Map{{Key: "TimeToLive", Value: int64(1)}}),
		"another timespan":  ruled(nil, nil, amqp.Map{{Key: "TimeToLive", Value: dotNet(describedURI, "x")}}),
		"sizes beyond":      {amqp.CodeMap32, 255, 255, 255, 255, 0, 0, 0, 2},
		"a list that lies":  {amqp.CodeList8, 1, 3},
		"described in list": ruled(amqp.Described{Descriptor: uint64(1), Value: amqp.Map{}}, nil, nil),
	} {
		if out, err := AppendDelivery(nil, message("m", "x"), &engine.Delivery{}, [][]byte{b}, View{}); err == nil {
			t.Errorf("%s: % x; want err != nil", name, out)
		}
	}
}

// The same for the newer form.
func TestOwnChangesDamaged(t *testing.T) {
	t.Parallel()
	set := func(name string, v event.Value) event.RuleChanges {
		return event.RuleChanges{Set: event.Changes{{Name: name, Value: v}}}
	}
	system := func(name string, v event.Value) event.RuleChanges {
		return event.RuleChanges{System: event.Changes{{Name: name, Value: v}}}
	}
	value := func(of event.ValueType, text string) event.Value { return event.Value{Type: of, Text: text} }
	encoded := func(v any) event.Value { return value(event.Encoded, string(amqp.AppendValue(nil, v))) }
	for name, c := range map[string]event.RuleChanges{
		"a name twice":        {Set: event.Changes{{Name: "a"}, {Name: "b"}, {Name: "a"}}},
		"a name, no UTF-8":    set("\xff", event.Value{}),
		"a removed name":      {Removed: []string{"a\xc3"}},
		"a text":              set("a", value(event.String, "\xff")),
		"a uuid":              set("a", value(event.UUID, "short")),
		"nothing encoded":     set("a", value(event.Encoded, "")),
		"half encoded":        set("a", value(event.Encoded, "\xa1\x02x")),
		"two encoded":         set("a", value(event.Encoded, "\x41\x41")),
		"encoded, no UTF-8":   set("a", value(event.Encoded, "\xa1\x01\xff")),
		"an encoded list":     set("a", encoded(amqp.List{"a"})),
		"an encoded map":      set("a", encoded(amqp.Map{})),
		"a described list":    set("a", encoded(dotNet("x", amqp.List{}))),
		"an unknown one":      system("Size", value(event.String, "x")),
		"without a name":      system("", value(event.String, "x")),
		"another case":        system("label", value(event.String, "x")),
		"a label":             system("Label", event.Value{Type: event.Long}),
		"an encoded label":    system("Label", encoded("x")),
		"a label, no UTF-8":   system("Label", value(event.String, "\xff")),
		"a time":              system("ScheduledEnqueueTimeUtc", value(event.String, "now")),
		"a time to live":      system("TimeToLive", event.Value{Type: event.Long, Bits: 1}),
		"a system name twice": {System: event.Changes{{Name: "To"}, {Name: "To"}}},
	} {
		if out, err := AppendDelivery(nil, message("m", "x"), &engine.Delivery{}, [][]byte{c.Append(nil)}, View{}); err == nil {
			t.Errorf("%s: % x; want err != nil", name, out)
		}
	}
	whole := set("a", value(event.String, "b"))
	b := whole.Append(nil)
	for n := range b { // an end within it
		if out, err := AppendDelivery(nil, message("m", "x"), &engine.Delivery{}, [][]byte{b[:n]}, View{}); err == nil {
			t.Errorf("%d bytes: % x", n, out)
		}
	}
	if out, err := AppendDelivery(nil, message("m", "x"), &engine.Delivery{}, [][]byte{b, append(b, 0)}, View{}); err == nil {
		t.Errorf("a byte too many: % x", out)
	}
	again := event.RuleChanges{Removed: []string{"a", "a", "b"}, Set: event.Changes{{Name: "a"}}}
	// each change may change a name again
	if _, err := AppendDelivery(nil, message("m", "x"), &engine.Delivery{}, [][]byte{b, again.Append(nil), b}, View{}); err != nil {
		t.Error(err)
	}
}

// FuzzOverlay: for any bytes stored as changes, the result is a valid message or nothing.
func FuzzOverlay(f *testing.F) {
	first, second := amqp.AppendValue(nil, amqp.Map{{Key: "a", Value: "b"}}), ruled(amqp.Map{{Key: "color", Value: "c"}}, amqp.List{"n"},
		amqp.Map{{Key: "Label", Value: nil}, {Key: "PartitionKey", Value: "p"}, {Key: "TimeToLive", Value: dotNet(describedSpan, int64(5))}})
	own := inOwnForm(f, [][]byte{first, second})
	f.Add(fullMessage(), first, second)
	f.Add(fullMessage(), own[0], own[1])
	f.Add(fullMessage(), first, own[1])
	f.Add(message("a", "b"), ruled(nil, nil, nil), []byte{amqp.CodeList0})
	f.Fuzz(func(t *testing.T, stored, first, second []byte) {
		s, err := amqp.ScanMessage(stored, amqp.DefaultLimits)
		if err != nil || !s.Regular() {
			return
		}
		d := &engine.Delivery{TimeToLive: time.Second, EnqueuedSequence: 1}
		b, err := AppendDelivery(nil, stored, d, [][]byte{first, second}, View{})
		if err != nil {
			return
		}
		if _, err := amqp.ScanMessage(b, amqp.DefaultLimits); err != nil {
			t.Errorf("%v in % x", err, b)
		}
	})
}

// FuzzOwnChanges: any changes in a log are delivered like the same changes in a log of format 1, or
// are damage where those are.
func FuzzOwnChanges(f *testing.F) {
	changes := event.RuleChanges{Removed: []string{"n", "absent"}, Set: event.Changes{{Name: "color", Value: event.Value{Type: event.String, Text: "red"}},
		{Name: "e", Value: event.Value{Type: event.Encoded, Text: "\x54\x05"}}, {Name: "u", Value: event.Value{Type: event.UUID, Text: "0123456789abcdef"}},
		{Name: "d", Value: event.Value{Type: event.Decimal, Text: "-1.50"}}, {Name: "i", Value: event.Value{Type: event.Int, Bits: 1 << 40}}, {Name: "t", Value: event.InstantOf(5)}},
		System: event.Changes{{Name: "Label", Value: event.Value{Type: event.String, Text: "l"}}, {Name: "To"}, {Name: "TimeToLive", Value: span(5)},
			{Name: "ScheduledEnqueueTimeUtc", Value: event.InstantOf(1000)}}}
	f.Add(changes.Append(nil), changes.Set[:2].Append(nil))
	f.Add([]byte{1, 0, 0, 0}, []byte{1, 1, 1, 'b', 1, 1, 'b', 1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var old [][]byte
		comparable := true
		for _, b := range [][]byte{first, second} {
			c, err := event.ReadChanges(b)
			if err != nil {
				return
			}
			for _, p := range c.System { // of another type in format 1, where no broker has put it
				comparable = comparable && p.Value.Type != event.Encoded
			}
			// a value that is invalid, or not alone, shifts the entries after it
			for _, p := range c.Set {
				comparable = comparable && (p.Value.Type != event.Encoded && p.Value.Type != event.UUID || isCarriable(p.Value))
			}
			old = append(old, inFormat1(&c))
		}
		d := engine.Delivery{TimeToLive: time.Second, EnqueuedSequence: 1, ExpiresAt: 5000}
		for _, stored := range [][]byte{fullMessage(), message("a", "b")} {
			x, y := d, d
			got, err := AppendDelivery(nil, stored, &x, [][]byte{first, second}, View{})
			want, oldErr := AppendDelivery(nil, stored, &y, old, View{})
			switch {
			case !comparable:
				if err != nil {
					continue
				}
				t.Errorf("% x and % x: delivered as % x", first, second, got)
			case (err == nil) != (oldErr == nil):
				t.Errorf("% x and % x: %v, in format 1 %v", first, second, err, oldErr)
			case err == nil && !bytes.Equal(got, want):
				t.Errorf("% x and % x:\ngot  % x\nwant % x", first, second, got, want)
			}
		}
	})
}
