package message

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// TestStoredReader: bodies of every kind, and properties with the changes that came later.
func TestStoredReader(t *testing.T) {
	t.Parallel()
	b := amqp.AppendDescriptor(nil, amqp.SectionApplicationProperties)
	b, mark := amqp.BeginMap(b)
	header := amqp.EndMap(amqp.AppendString(amqp.AppendString(b, "tenant"), "t-1"), mark, 1)
	with := func(body []byte) []byte { return append(header[:len(header):len(header)], body...) }
	section := func(code byte, value ...byte) []byte { return append(amqp.AppendDescriptor(nil, code), value...) }
	data := amqp.AppendData(nil, []byte("a"))
	changes := event.RuleChanges{Removed: []string{"tenant"}}
	changes.Set = append(changes.Set, event.Property{Name: "DeadLetterReason", Value: event.Value{Type: event.String, Text: "BadTotal"}})
	var r StoredReader
	for _, c := range []struct {
		name, text, kind string
		stored           []byte
		isDamaged        bool
	}{
		{"data", "a", "", with(data), false},
		{"empty data", "", "", with(amqp.AppendData(nil, nil)), false},
		{"several", "aaa", "", with(append(append(append([]byte{}, data...), data...), data...)), false},
		{"text", "x", "value", with(section(amqp.SectionValue, amqp.CodeStr8, 1, 'x')), false},
		{"null", "", "value", with(section(amqp.SectionValue, amqp.CodeNull)), false},
		{"sequence", "", "sequence", with(section(amqp.SectionSequence, amqp.CodeList0)), false},
		{"none", "", "none", with(nil), false},
		{"cut", "", "", with(data)[:len(header)+2], true},
		{"no message", "", "", []byte("hello"), true},
	} {
		text, kind, err := r.Body(c.stored)
		if string(text) != c.text || kind != c.kind || (err != nil) != c.isDamaged {
			t.Errorf("%s: %q, %q, %v", c.name, text, kind, err)
		}
		var m filter.Message
		for _, change := range [][][]byte{nil, {changes.Append(nil)}} {
			want := "tenant"
			if change != nil {
				want = "DeadLetterReason"
			}
			if err := r.Properties(c.stored, change, &m); (err != nil) != c.isDamaged || err == nil && (len(m.User) != 1 || m.User[0].Name != want) {
				t.Errorf("%s: %+v, %v; want %s", c.name, m.User, err, want)
			}
		}
	}
	if err := r.Properties(with(data), [][]byte{[]byte("damaged")}, new(filter.Message)); err == nil {
		t.Error("damaged changes are read")
	}
}
