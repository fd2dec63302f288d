package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// dotNet returns a value of a type of .NET.
func dotNet(name string, v any) amqp.Described {
	return amqp.Described{Descriptor: amqp.Symbol(name), Value: v}
}

// 15.4: a value of each AMQP type as filters read it, and as a rule with it shows it.
func TestValues(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ticks := uint64(event.TimeOf(at).Ticks())
	integer := func(n int64) event.Value { return event.Value{Type: event.Int, Bits: uint64(n)} }
	long := func(n int64) event.Value { return event.Value{Type: event.Long, Bits: uint64(n)} }
	text := func(s string) event.Value { return event.Value{Type: event.String, Text: s} }
	for _, test := range []struct {
		in   any
		want event.Value
		out  any
	}{
		{nil, event.Value{}, nil},
		{true, event.Value{Type: event.Bool, Bits: 1}, true},
		{false, event.Value{Type: event.Bool}, false},
		{uint8(200), integer(200), int32(200)},
		{int8(-2), integer(-2), int32(-2)},
		{uint16(65535), integer(65535), int32(65535)},
		{int16(-300), integer(-300), int32(-300)},
		{uint32(0), integer(0), int32(0)},
		{uint32(math.MaxInt32), integer(math.MaxInt32), int32(math.MaxInt32)},
		{uint32(math.MaxUint32), long(math.MaxUint32), int64(math.MaxUint32)},
		{int32(math.MinInt32), integer(math.MinInt32), int32(math.MinInt32)},
		{int64(7), long(7), int64(7)},
		{int64(math.MinInt64), long(math.MinInt64), int64(math.MinInt64)},
		{uint64(0), long(0), int64(0)},
		{uint64(math.MaxInt64), long(math.MaxInt64), int64(math.MaxInt64)},
		{uint64(math.MaxUint64), event.Value{Type: event.Decimal, Text: "18446744073709551615"}, uint64(math.MaxUint64)},
		{float32(0.5), double(0.5), 0.5},
		{1.25, double(1.25), 1.25},
		{amqp.Char('é'), text("é"), "é"},
		{"", text(""), ""},
		{"größe", text("größe"), "größe"},
		{string(make([]byte, 300)), text(string(make([]byte, 300))), string(make([]byte, 300))},
		{amqp.Symbol("sym"), text("sym"), "sym"},
		{amqp.UUID{1, 2, 255}, event.Value{Type: event.UUID, Text: "\x01\x02\xff" + string(make([]byte, 13))}, amqp.UUID{1, 2, 255}},
		{amqp.Timestamp(at.UnixMilli()), event.Value{Type: event.Instant, Bits: ticks}, amqp.Timestamp(at.UnixMilli())},
		{amqp.Timestamp(math.MinInt64), event.Value{Type: event.Instant}, amqp.Timestamp(-62_135_596_800_000)},
		{amqp.Timestamp(253402300800000), event.Value{Type: event.Instant, Bits: uint64(event.EndOfTime.Ticks())}, amqp.Timestamp(event.EndOfTime)},
		{dotNet(describedSpan, int64(-5)), event.Value{Type: event.Span, Bits: math.MaxUint64 - 4}, dotNet(describedSpan, int64(-5))},
		{dotNet(describedOffset, int64(ticks)), event.Value{Type: event.Instant, Bits: ticks}, amqp.Timestamp(at.UnixMilli())},
		{dotNet(describedOffset, int64(math.MaxInt64)), event.Value{Type: event.Instant, Bits: event.MaxTicks}, amqp.Timestamp(event.EndOfTime)},
		{dotNet(describedURI, "http://a/b"), text("http://a/b"), "http://a/b"},
		{dotNet(describedURI, int32(1)), opaque, nil},
		{dotNet(describedSpan, "x"), opaque, nil},
		{dotNet("else", "x"), opaque, nil},
		{amqp.Described{Descriptor: uint64(9), Value: "x"}, opaque, nil},
		{[]byte("x"), opaque, nil},
		{amqp.List{"x"}, opaque, nil},
		{amqp.Map{{Key: "x", Value: "y"}}, opaque, nil},
		{amqp.Array{Elem: amqp.CodeInt, Values: []any{int32(1)}}, opaque, nil},
	} {
		seenAs(t, test.in, test.want, test.out)
	}
}

// seenAs checks how filters read a value, and how a rule with it is shown.
func seenAs(t *testing.T, in any, want event.Value, out any) {
	t.Helper()
	got := newEncodedValue(amqp.AppendValue(nil, in)).value()
	if got != want {
		t.Errorf("%#v is seen as %+v", in, got)
	}
	if shown := OnWire(got); !cmp.Equal(shown, out) {
		t.Errorf("%#v comes back as %#v (-want +got):\n%s", in, shown, cmp.Diff(out, shown))
	}
}

// WP-239: decimals are read exactly, and shown as decimals if .NET can read them.
func TestDecimalValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   any
		want event.Value
		out  any
	}{
		{decimal32(0xb18004d2), event.Value{Type: event.Decimal, Text: "-12.34"}, decimal128("b03c00000000000000000000000004d2")},
		{decimal32(0), event.Value{Type: event.Decimal, Text: "0E-101"}, 0.0},
		{decimal32(0x78000000), double(math.Inf(1)), math.Inf(1)},
		{amqp.Opaque{Code: amqp.CodeDecimal64, Bytes: []byte{0x5f, 0xe0, 0, 0, 0, 0, 0, 1}}, double(math.Inf(1)), math.Inf(1)},
		// 1E-6176
		{amqp.Opaque{Code: amqp.CodeDecimal128, Bytes: append(make([]byte, 15), 1)}, double(0), 0.0},
		{decimal128("0c3c00000000000000000000000004d2"), event.Value{Type: event.Decimal, Text: "12.34"}, decimal128("303c00000000000000000000000004d2")},
		{decimal128("0c400000000000000000000000000001"), event.Value{Type: event.Decimal, Text: "1"}, decimal128("30400000000000000000000000000001")},
		{decimal128("8c3e0000000000000000000000000000"), event.Value{Type: event.Decimal, Text: "-0.0"}, decimal128("b03e0000000000000000000000000000")},
		{decimal128("8c400000ffffffffffffffffffffffff"), event.Value{Type: event.Decimal, Text: "-79228162514264337593543950335"}, decimal128("b0400000ffffffffffffffffffffffff")},
		{decimal128("30400001000000000000000000000000"), event.Value{Type: event.Decimal, Text: "79228162514264337593543950336"}, 79228162514264337593543950336.0},
		{decimal128("30420000000000000000000000000007"), event.Value{Type: event.Decimal, Text: "7E1"}, 70.0},
		{decimal128("30060000000000000000000000000001"), event.Value{Type: event.Decimal, Text: "0.00000000000000000000000000001"}, 1e-29},
	} {
		seenAs(t, test.in, test.want, test.out)
	}
}

func decimal32(bits uint32) amqp.Opaque {
	return amqp.Opaque{Code: amqp.CodeDecimal32, Bytes: binary.BigEndian.AppendUint32(nil, bits)}
}

// decimal128 has the bytes of those hexadecimal digits.
func decimal128(digits string) amqp.Opaque {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return amqp.Opaque{Code: amqp.CodeDecimal128, Bytes: b}
}

// NaN is not a number, and differs from a value that filters cannot read.
func TestDecimalNaN(t *testing.T) {
	t.Parallel()
	if v := Value(amqp.AppendValue(nil, decimal32(0x7c000000))); v.Type != event.Double || !math.IsNaN(math.Float64frombits(v.Bits)) {
		t.Errorf("%+v; want a double that is no number", v)
	}
}

// A decimal that was read is written as the same number, with its trailing zeros.
func TestDecimalReadAsWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0", "0.00", "-0.0", "1", "-1.50", "12.34", "0.0005", "7E20", "-7E-40", strings.Repeat("9", 34), "-0." + strings.Repeat("9", 34), "1E128", "9E-128"} {
		if got := Value(appendValue(nil, event.Value{Type: event.Decimal, Text: text})); got != (event.Value{Type: event.Decimal, Text: text}) {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

// fullMessage has every property that filters read.
func fullMessage() []byte {
	b := amqp.AppendHeader(nil, &amqp.Header{TTL: amqp.Some(uint32(90_000))})
	b = amqp.AppendSection(b, amqp.SectionDeliveryAnnotations, amqp.Map{{Key: amqp.Symbol("x"), Value: "y"}})
	b = amqp.AppendSection(b, amqp.SectionMessageAnnotations, amqp.Map{
		{Key: amqp.Symbol("x-opt-mine"), Value: amqp.List{"a"}},
		{Key: amqp.Symbol(keyPartitionKey), Value: "pk"}, {Key: amqp.Symbol(keyViaPartitionKey), Value: "via"},
		{Key: amqp.Symbol(keyScheduled), Value: amqp.Timestamp(1000)}, {Key: amqp.Symbol(keyDeadLetterSource), Value: nil},
	})
	b = amqp.AppendProperties(b, &amqp.Properties{
		MessageID: amqp.UUID{1}, UserID: []byte("me"), To: amqp.Some("to"), Subject: amqp.Some("label"), ReplyTo: amqp.Some("reply"),
		CorrelationID: uint64(12), ContentType: amqp.Some(amqp.Symbol("text/plain")), ContentEncoding: amqp.Some(amqp.Symbol("x")),
		GroupID: amqp.Some("pk"), GroupSequence: amqp.Some(uint32(3)), ReplyToGroupID: amqp.Some("rs"),
	})
	b = amqp.AppendSection(b, amqp.SectionApplicationProperties, amqp.Map{
		{Key: "color", Value: "blue"}, {Key: "n", Value: int32(1)}, {Key: "bytes", Value: []byte("z")}, {Key: "", Value: nil},
	})
	return amqp.AppendData(b, []byte("body"))
}

// 15.4, SM-348: the system properties of a message, and its application properties in order;
// missing ones are null.
func TestProperties(t *testing.T) {
	t.Parallel()
	var m filter.Message
	b := fullMessage()
	if _, err := Properties(b, &m); err != nil {
		t.Fatal(err)
	}
	clear(b) // the texts do not alias it
	want := map[filter.SystemProperty]event.Value{
		filter.ScheduledEnqueueTimeUtc: event.InstantOf(1000), filter.TimeToLive: span(90_000),
	}
	for p, text := range map[filter.SystemProperty]string{
		filter.MessageID: "01000000-0000-0000-0000-000000000000", filter.To: "to", filter.Label: "label", filter.ReplyTo: "reply",
		filter.CorrelationID: "12", filter.ContentType: "text/plain", filter.SessionID: "pk", filter.ReplyToSessionID: "rs",
		filter.PartitionKey: "pk", filter.ViaPartitionKey: "via",
	} {
		want[p] = event.Value{Type: event.String, Text: text}
	}
	for p, v := range m.System {
		if v != want[filter.SystemProperty(p)] {
			t.Errorf("%v: %+v, want %+v", filter.SystemProperty(p), v, want[filter.SystemProperty(p)])
		}
	}
	user := []event.Property{{Name: "color", Value: event.Value{Type: event.String, Text: "blue"}},
		{Name: "n", Value: event.Value{Type: event.Int, Bits: 1}}, {Name: "bytes", Value: opaque}, {Name: ""}}
	if !cmp.Equal(m.User, user) {
		t.Errorf("%+v (-want +got):\n%s", m.User, cmp.Diff(user, m.User))
	}
	// nothing of the previous message stays
	for _, bare := range [][]byte{nil, amqp.AppendData(nil, []byte("x")), amqp.AppendSection(nil, amqp.SectionValue, "x")} {
		if _, err := Properties(bare, &m); err != nil || m.System != [filter.SystemCount]event.Value{} || len(m.User) > 0 {
			t.Errorf("%v %+v; want m.System == [filter.SystemCount]event.Value{} && len(m.User) <= 0", err, m)
		}
	}
	if _, err := Properties([]byte("no message"), &m); err == nil {
		t.Error("bytes that are no message were read")
	}
}

// 5.1: descriptors in their long form and sections out of order, as some senders write them.
func TestPropertiesIrregular(t *testing.T) {
	t.Parallel()
	properties := amqp.AppendSection(nil, amqp.SectionApplicationProperties, amqp.Map{{Key: "a", Value: "b"}})
	long := append([]byte{amqp.CodeDescribed, amqp.CodeUlong, 0, 0, 0, 0, 0, 0, 0}, properties[2:]...)
	ids := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "id"})
	for _, b := range [][]byte{append(long, ids...), append(properties, ids...)} {
		var m filter.Message
		if _, err := Properties(b, &m); err != nil || m.System[filter.MessageID].Text != "id" || len(m.User) != 1 || m.User[0].Value.Text != "b" {
			t.Errorf(`%v %+v; want m.System[filter.MessageID].Text == "id" && len(m.User) == 1 && m.User[0].Value.Text == "b"`, err, m)
		}
	}
}

// For any input of a peer, reading its properties ends, agrees with the decoder, and keeps none of
// its bytes.
func FuzzProperties(f *testing.F) {
	f.Add(fullMessage())
	f.Add(message("a", "x"))
	f.Add([]byte{0, 0x53, 0x74, 0xc1, 3, 2, 0xa1, 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m filter.Message
		if _, err := Properties(b, &m); err != nil {
			return
		}
		seen := fmt.Sprintf("%+v", m)
		s, err := amqp.ScanMessage(b, amqp.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if s.Regular() {
			for key, raw := range amqp.MapEntries(s.ApplicationProperties.Of(b)) {
				if p := m.User[n]; p.Name != string(key) || p.Value != newEncodedValue(raw).value() {
					t.Errorf("%q is %+v", key, p)
				}
				n++
			}
			if n != len(m.User) {
				t.Errorf("%d properties, not %d", len(m.User), n)
			}
		}
		clear(b)
		if fmt.Sprintf("%+v", m) != seen {
			t.Error("a text aliases the message")
		}
	})
}

// The properties of a message cost one allocation, whatever their number.
func TestPropertiesAllocations(t *testing.T) {
	m := benchmarkMessage()
	s, err := amqp.ScanMessage(m, amqp.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	var into filter.Message
	readProperties(m, &s, 0, &into)
	if n := testing.AllocsPerRun(100, func() { readProperties(m, &s, 0, &into) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func benchmarkMessage() []byte {
	var m amqp.Map
	for i := range 10 {
		m = append(m, amqp.Pair{Key: fmt.Sprintf("property-%d", i), Value: fmt.Sprintf("value of property %d", i)})
	}
	b := amqp.AppendProperties(nil, &amqp.Properties{MessageID: "2f1b7a90-4e86-4a35-9d0e-0c2c3c3d1a11", Subject: amqp.Some("orders"), CorrelationID: "c"})
	b = amqp.AppendSection(b, amqp.SectionApplicationProperties, m)
	return amqp.AppendData(b, make([]byte, 1024))
}

// BenchmarkProperties measures the cost of a message with ten properties before a filter reads it.
func BenchmarkProperties(b *testing.B) {
	m := benchmarkMessage()
	s, err := amqp.ScanMessage(m, amqp.DefaultLimits)
	if err != nil {
		b.Fatal(err)
	}
	var into filter.Message
	b.ReportAllocs()
	for b.Loop() {
		readProperties(m, &s, 0, &into)
	}
}
