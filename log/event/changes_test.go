package event

import (
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// The bytes of each type, as AMQP 1.0 part 1.6 has them.
func TestEncodedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		value Value
		bytes string
	}{
		{"null", Value{}, "40"},
		{"of no known type", Value{Type: 255}, "40"},
		{"encoded", Value{Type: Encoded, Text: "\x54\x05"}, "5405"},
		{"true", Value{Type: Bool, Bits: 1}, "41"},
		{"false", Value{Type: Bool}, "42"},
		{"int", Value{Type: Int, Bits: math.MaxUint64 - 1}, "71fffffffe"},
		{"int of 33 bits", Value{Type: Int, Bits: 1 << 31}, "810000000080000000"},
		{"long", Value{Type: Long, Bits: 5}, "810000000000000005"},
		{"double", Value{Type: Double, Bits: math.Float64bits(1.5)}, "823ff8000000000000"},
		{"string", textValue("ü"), "a102c3bc"},
		{"string of 255", textValue(strings.Repeat("a", 255)), "a1ff" + strings.Repeat("61", 255)},
		{"string of 256", textValue(strings.Repeat("a", 256)), "b100000100" + strings.Repeat("61", 256)},
		{"uuid", Value{Type: UUID, Text: "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"}, "9800112233445566778899aabbccddeeff"},
		{"timestamp", InstantOf(TimeOf(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))), "830000018cc251f400"},
		{"timestamp before 1970, cut down", Value{Type: Instant, Bits: uint64(Time(0).Ticks() - 1)}, "83ffffffffffffffff"},
		{"span", Value{Type: Span, Bits: 100_000_000}, "00a316" + hex.EncodeToString([]byte("com.microsoft:timespan")) + "810000000005f5e100"},
		{"decimal", decimalValue("-19.99"), "94b03c00000000000000000000000007cf"},
		{"decimal of 34 digits", decimalValue(strings.Repeat("9", 34)), "943041ed09bead87c0378d8e63ffffffff"},
		{"decimal that a long holds", decimalValue("5"), "9430400000000000000000000000000005"},
		{"ulong", decimalValue("18446744073709551615"), "80ffffffffffffffff"},
	} {
		got := appendValue(nil, c.value)
		if hex.EncodeToString(got) != c.bytes {
			t.Errorf("%s is %x, want %s", c.name, got, c.bytes)
		}
		if n := (&Property{Value: c.value}).size(); n != 2+len(got) {
			t.Errorf("%s has a size of %d, not %d", c.name, n, 2+len(got))
		}
		if _, rest, err := amqp.DecodeValue(got, lax); err != nil || len(rest) != 0 {
			t.Errorf("%s: %v, %d bytes left", c.name, err, len(rest))
		}
	}
}

var lax = amqp.Limits{Depth: 8, Described: 8, Elements: 1000, ZeroWidth: 1000}

func textValue(s string) Value { return Value{Type: String, Text: s} }

func decimalValue(s string) Value { return Value{Type: Decimal, Text: s} }

// Changes are a map, with a short header where that will do for those of a client; what a rule has changed is a list of what to set, what
// to remove, and system properties.
func TestAppendChanges(t *testing.T) {
	t.Parallel()
	for n := range 300 {
		set := Changes{{Name: "text", Value: textValue(strings.Repeat("x", n))}, {Name: "n", Value: Value{Type: Encoded, Text: "\x54\x05"}}, {Name: "none"}}
		values := amqp.Map{{Key: "text", Value: strings.Repeat("x", n)}, {Key: "n", Value: int32(5)}, {Key: "none", Value: nil}}
		long, short := set.Append([]byte("before")), set.AppendShort([]byte("before"))
		if len(long) != len("before")+set.Size() {
			t.Errorf("%d bytes, not %d", len(long), set.Size())
		}
		want := set.Size()
		if want <= 9+254 { // what a short map has room for
			want -= 6
		}
		if n := len(short) - len("before"); n != want {
			t.Errorf("%d bytes, and %d short, not %d", set.Size(), n, want)
		}
		for _, b := range [][]byte{long, short} {
			if v, rest, err := amqp.DecodeValue(b[len("before"):], lax); err != nil || len(rest) != 0 || !reflect.DeepEqual(v, values) {
				t.Errorf("%#v, %v, want %#v", v, err, values)
			}
		}
	}
	many := make(Changes, 128) // more keys and values than the count of a short map holds
	if b := many.AppendShort(nil); b[0] != codeMap32 {
		t.Errorf("% x", b)
	}
	rule := RuleChanges{Set: Changes{{Name: "a", Value: textValue("b")}}, Removed: []string{"X"}, System: Changes{{Name: "Label"}}}
	v, rest, err := amqp.DecodeValue(rule.Append(nil), lax)
	if want := (amqp.List{amqp.Map{{Key: "a", Value: "b"}}, amqp.List{"X"}, amqp.Map{{Key: "Label", Value: nil}}}); err != nil || len(rest) != 0 || !reflect.DeepEqual(v, want) {
		t.Errorf("%#v, %v, want %#v", v, err, want)
	}
}
