package message

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// The bytes of each type, as AMQP 1.0 part 1.6 has them.
func TestAppendValue(t *testing.T) {
	t.Parallel()
	text := func(s string) event.Value { return event.Value{Type: event.String, Text: s} }
	decimal := func(s string) event.Value { return event.Value{Type: event.Decimal, Text: s} }
	for _, c := range []struct {
		name  string
		value event.Value
		bytes string
	}{
		{"null", event.Value{}, "40"},
		{"of no known type", event.Value{Type: 255}, "40"},
		{"encoded", event.Value{Type: event.Encoded, Text: "\x54\x05"}, "5405"},
		{"true", event.Value{Type: event.Bool, Bits: 1}, "41"},
		{"false", event.Value{Type: event.Bool}, "42"},
		{"int", event.Value{Type: event.Int, Bits: math.MaxUint64 - 1}, "71fffffffe"},
		{"int of 33 bits", event.Value{Type: event.Int, Bits: 1 << 31}, "810000000080000000"},
		{"long", event.Value{Type: event.Long, Bits: 5}, "810000000000000005"},
		{"double", event.Value{Type: event.Double, Bits: math.Float64bits(1.5)}, "823ff8000000000000"},
		{"string", text("ü"), "a102c3bc"},
		{"string of 255", text(strings.Repeat("a", 255)), "a1ff" + strings.Repeat("61", 255)},
		{"string of 256", text(strings.Repeat("a", 256)), "b100000100" + strings.Repeat("61", 256)},
		{"uuid", event.Value{Type: event.UUID, Text: "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"}, "9800112233445566778899aabbccddeeff"},
		{"timestamp", event.InstantOf(event.TimeOf(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))), "830000018cc251f400"},
		{"timestamp before 1970, cut down", event.Value{Type: event.Instant, Bits: uint64(event.Time(0).Ticks() - 1)}, "83ffffffffffffffff"},
		{"span", event.Value{Type: event.Span, Bits: 100_000_000}, "00a316" + hex.EncodeToString([]byte(describedSpan)) + "810000000005f5e100"},
		{"decimal", decimal("-19.99"), "94b03c00000000000000000000000007cf"},
		{"decimal of 34 digits", decimal(strings.Repeat("9", 34)), "943041ed09bead87c0378d8e63ffffffff"},
		{"decimal that a long holds", decimal("5"), "9430400000000000000000000000000005"},
		{"decimal that is none", decimal("x"), "9430400000000000000000000000000000"},
		{"ulong", decimal("18446744073709551615"), "80ffffffffffffffff"},
	} {
		got := appendValue(nil, c.value)
		if hex.EncodeToString(got) != c.bytes {
			t.Errorf("%s is %x, want %s", c.name, got, c.bytes)
		}
		if _, rest, err := amqp.DecodeValue(got, amqp.DefaultLimits); err != nil || len(rest) != 0 {
			t.Errorf("%s: %v, %d bytes left", c.name, err, len(rest))
		}
	}
}
