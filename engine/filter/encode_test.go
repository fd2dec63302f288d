package filter

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// The bytes of each type, as AMQP 1.0 part 1.6 has them.
func TestEncodedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		value event.Value
		bytes string
	}{
		{"null", event.Value{}, "40"},
		{"opaque", event.Value{Type: Opaque}, "40"},
		{"true", truthValue(yes), "41"},
		{"false", truthValue(no), "42"},
		{"int", whole(-2), "71fffffffe"},
		{"int of 33 bits", whole(1 << 31), "810000000080000000"},
		{"long", longValue(5), "810000000000000005"},
		{"double", doubleValue(1.5), "823ff8000000000000"},
		{"string", text("ü"), "a102c3bc"},
		{"string of 255", text(strings.Repeat("a", 255)), "a1ff" + strings.Repeat("61", 255)},
		{"string of 256", text(strings.Repeat("a", 256)), "b100000100" + strings.Repeat("61", 256)},
		{"uuid", sampleID, "9800112233445566778899aabbccddeeff"},
		{"timestamp", newYear, "830000018cc251f400"},
		{"timestamp before 1970, cut down", instant(event.Time(0).Ticks() - 1), "83ffffffffffffffff"},
		{"span", tenSeconds, "00a316" + hex.EncodeToString([]byte("com.microsoft:timespan")) + "810000000005f5e100"},
		{"decimal", decimals("-19.99"), "94b03c00000000000000000000000007cf"},
		{"decimal of 34 digits", decimals(strings.Repeat("9", 34)), "943041ed09bead87c0378d8e63ffffffff"},
		{"decimal that a long holds", decimals("5"), "9430400000000000000000000000000005"},
		{"ulong", decimals("18446744073709551615"), "80ffffffffffffffff"},
	} {
		got := appendValue(nil, c.value)
		if hex.EncodeToString(got) != c.bytes {
			t.Errorf("%s is %x, want %s", c.name, got, c.bytes)
		}
		if _, rest, err := amqp.DecodeValue(got, lax); err != nil || len(rest) != 0 {
			t.Errorf("%s: %v, %d bytes left", c.name, err, len(rest))
		}
	}
}

var lax = amqp.Limits{Depth: 8, Described: 8, Elements: 1000, ZeroWidth: 1000}

// The encoded changes are a list of what to set, what to remove, and system properties; what the broker adds itself goes
// before what an action set.
func TestEncodedChanges(t *testing.T) {
	t.Parallel()
	r := compiledAction(t, "SET Color = 'red' SET n = 5 SET RuleName = 'mine' REMOVE x REMOVE id SET sys.Label = 'l' REMOVE sys.SessionId REMOVE absent", nil)
	var c Changes
	if err := r.Run(message(t, "color='blue' X=1"), ids(), &c); err != nil {
		t.Fatal(err)
	}
	got := c.Append([]byte("before"), event.Property{Name: "RuleName", Value: text("r")}, event.Property{Name: "id", Value: whole(1)})
	if !bytes.HasPrefix(got, []byte("before")) {
		t.Fatalf("%x", got)
	}
	v, rest, err := amqp.DecodeValue(got[len("before"):], lax)
	if err != nil || len(rest) != 0 {
		t.Fatal(err, len(rest))
	}
	want := amqp.List{
		amqp.Map{{Key: "RuleName", Value: "r"}, {Key: "id", Value: int32(1)}, {Key: "color", Value: "red"}, {Key: "n", Value: int64(5)}},
		amqp.List{"X"},
		amqp.Map{{Key: "Label", Value: "l"}, {Key: "SessionId", Value: nil}},
	}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("%#v\nwant %#v", v, want)
	}
	var none Changes
	if v, _, err := amqp.DecodeValue(none.Append(nil), lax); err != nil || !reflect.DeepEqual(v, amqp.List{amqp.Map{}, amqp.List{}, amqp.Map{}}) {
		t.Errorf("%#v, %v", v, err)
	}
}
