package message

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// detailed is a message with a property of each kind that history keeps, and others.
func detailed() []byte {
	b := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "0123456789abcdef0123456789abcdef", To: amqp.Some("to"), Subject: amqp.Some("order"),
		ReplyTo: amqp.Some("reply"), CorrelationID: "order-17", ContentType: amqp.Some(amqp.Symbol("application/json")), GroupID: amqp.Some("group")})
	b = amqp.AppendSection(b, amqp.SectionApplicationProperties, amqp.Map{{Key: "kind", Value: "order"}, {Key: "n", Value: int64(5)},
		{Key: "Diagnostic-Id", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	return amqp.AppendData(b, make([]byte, 1024))
}

// Details that history keeps of a sent message.
func TestDetails(t *testing.T) {
	t.Parallel()
	of := func(p amqp.Properties) []byte { return amqp.AppendProperties(nil, &p) }
	having := func(pairs ...any) []byte {
		var m amqp.Map
		for i := 0; i < len(pairs); i += 2 {
			m = append(m, amqp.Pair{Key: pairs[i], Value: pairs[i+1]})
		}
		return amqp.AppendSection(nil, amqp.SectionApplicationProperties, m)
	}
	unordered := func() []byte { // the footer first, and a long descriptor
		b := amqp.AppendSection(nil, amqp.SectionFooter, amqp.Map{{Key: amqp.Symbol("f"), Value: "x"}})
		b = append(b, 0, amqp.CodeUlong, 0, 0, 0, 0, 0, 0, 0, amqp.SectionData, amqp.CodeBin8, 2, 'h', 'i')
		return append(b, of(amqp.Properties{Subject: amqp.Some("late")})...)
	}()
	const parent, other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-ffffffffffffffffffffffffffffffff-0000000000000001-00"
	long := strings.Repeat("x", 300)
	binary := []byte(strings.Repeat("\xab", 300))
	for _, test := range []struct {
		name    string
		message []byte
		want    string // size of the body, then the details that are not empty
	}{
		{"nothing", nil, "0"},
		{"a body alone", amqp.AppendData(nil, []byte("body")), "9"},
		{"several data sections", amqp.AppendData(amqp.AppendData(nil, []byte("a")), []byte("bc")), "13"},
		{"a value", amqp.AppendSection(nil, amqp.SectionValue, "text"), "9"},
		{"a sequence", amqp.AppendSection(nil, amqp.SectionSequence, amqp.List{"a", "b"}), "12"},
		{"all", detailed(), "1032 subject=order correlation=order-17 type=application/json trace=" + parent},
		{"in another order, as it was sent", unordered, "14 subject=late"},
		{"empty texts", of(amqp.Properties{Subject: amqp.Some(""), CorrelationID: "", ContentType: amqp.Some(amqp.Symbol(""))}), "0"},
		{"without a message-id", of(amqp.Properties{Subject: amqp.Some("s")}), "0 subject=s"},
		{"256 bytes", of(amqp.Properties{Subject: amqp.Some(long[:256])}), "0 subject=" + long[:256]},
		{"one more", of(amqp.Properties{Subject: amqp.Some(long[:257])}), "0 subject=" + long[:256]},
		{"cut at a character", of(amqp.Properties{Subject: amqp.Some(long[:255] + "ü")}), "0 subject=" + long[:255]},
		{"cut at a character of four", of(amqp.Properties{Subject: amqp.Some(long[:253] + "🚌")}), "0 subject=" + long[:253]},
		{"each is cut", of(amqp.Properties{CorrelationID: long, ContentType: amqp.Some(amqp.Symbol(long))}), "0 correlation=" + long[:256] + " type=" + long[:256]},
		{"correlation id: ulong", of(amqp.Properties{CorrelationID: uint64(18446744073709551615)}), "0 correlation=18446744073709551615"},
		{"correlation id: small ulong", of(amqp.Properties{CorrelationID: uint64(7)}), "0 correlation=7"},
		{"correlation id: 0", of(amqp.Properties{CorrelationID: uint64(0)}), "0 correlation=0"},
		{"correlation id: uuid", of(amqp.Properties{CorrelationID: amqp.UUID{1, 2, 255}}), "0 correlation=0102ff00-0000-0000-0000-000000000000"},
		{"correlation id: binary", of(amqp.Properties{CorrelationID: []byte{1, 0xab}}), "0 correlation=01ab"},
		{"correlation id: long binary", of(amqp.Properties{CorrelationID: binary}), "0 correlation=" + strings.Repeat("ab", 128)},
		{"correlation id: long text", of(amqp.Properties{CorrelationID: strings.Repeat("ü", 200)}), "0 correlation=" + strings.Repeat("ü", 128)},
		{"Diagnostic-Id", having("Diagnostic-Id", parent), "0 trace=" + parent},
		{"traceparent", having("traceparent", parent), "0 trace=" + parent},
		{"both", having("Diagnostic-Id", parent, "traceparent", other), "0 trace=" + parent},
		{"both, the other way round", having("traceparent", other, "Diagnostic-Id", parent), "0 trace=" + parent},
		{"the first is no text", having("Diagnostic-Id", int32(5), "traceparent", other), "0 trace=" + other},
		{"the first is empty", having("Diagnostic-Id", "", "traceparent", other), "0 trace=" + other},
		{"a symbol", having("Diagnostic-Id", amqp.Symbol(parent)), "0 trace=" + parent},
		{"a key that is a symbol", having(amqp.Symbol("traceparent"), parent), "0 trace=" + parent},
		{"neither is text", having("Diagnostic-Id", []byte(parent), "traceparent", nil), "0"},
		{"other names", having("diagnostic-id", parent, "Traceparent", parent), "0"},
		{"a long one", having("traceparent", long), "0 trace=" + long[:256]},
	} {
		in, e := Inspect(test.message, &testLimits)
		if e != nil {
			t.Fatalf("%s: %v", test.name, e)
		}
		if got := showDetails(&in.Message.Details); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
	}
}

func showDetails(d *event.Details) string {
	out := fmt.Sprint(d.BodySize)
	for _, f := range []struct {
		name string
		text []byte
	}{{"subject", d.Subject}, {"correlation", d.CorrelationID}, {"type", d.ContentType}, {"trace", d.TraceParent}} {
		if len(f.text) > 0 {
			out += " " + f.name + "=" + string(f.text)
		}
	}
	return out
}

// A text that is not UTF-8 is left out; no valid message has one (amqp.ScanMessage checks).
func TestDetailOfNoText(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{
		"nothing": nil, "null": {amqp.CodeNull}, "no whole text": {amqp.CodeStr8, 5, 'a'}, "no UTF-8": {amqp.CodeStr8, 2, 'a', 0xff}, "binary": {amqp.CodeBin8, 1, 'a'},
		"long, no UTF-8": append([]byte{amqp.CodeStr32, 0, 0, 2, 0}, strings.Repeat("\x80", 512)...),
	} {
		if got := detail(raw); len(got) > 0 {
			t.Errorf("%s: %q; want len(got) <= 0", name, got)
		}
	}
	if got := idDetail([]byte{amqp.CodeStr8, 1, 0xff}); got != nil {
		t.Errorf("%q, want nil", got)
	}
}

// The details of a message need no allocation, unless its correlation id is not a text.
func TestInspectAllocations(t *testing.T) {
	m := detailed()
	if n := testing.AllocsPerRun(100, func() {
		if _, e := Inspect(m, &testLimits); e != nil {
			t.Error(e)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// checkDetails checks the details of any message.
func checkDetails(t *testing.T, sent []byte, d *event.Details) {
	t.Helper()
	for _, text := range [][]byte{d.Subject, d.CorrelationID, d.ContentType, d.TraceParent} {
		if len(text) > event.MaxDetail || !utf8.Valid(text) {
			t.Errorf("%q in % x", text, sent)
		}
	}
	if s, err := amqp.ScanMessage(sent, amqp.DefaultLimits); err != nil || int(d.BodySize) != s.Body.Len() {
		t.Errorf("a body of %d bytes, not %d: %v", d.BodySize, s.Body.Len(), err)
	}
	if d.Source != (event.Source{}) {
		t.Errorf("%+v; want d.Source == (event.Source{})", d.Source)
	}
}
