package event

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func textValue(s string) Value { return Value{Type: String, Text: s} }

// The bytes of changes in a log (docs/log-format.md, section 8).
func TestAppendChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		changes RuleChanges
		bytes   string // in hexadecimal; spaces are for the reader
	}{
		{"none", RuleChanges{}, "01 00 00 00"},
		{"a text", RuleChanges{Set: Changes{{"a", textValue("bc")}}}, "01 00 01 0161 06 00 026263 00"},
		{"null", RuleChanges{Set: Changes{{Name: "a"}}}, "01 00 01 0161 00 00 00 00"},
		{"true", RuleChanges{Set: Changes{{"a", Value{Type: Bool, Bits: 1}}}}, "01 00 01 0161 01 01 00 00"},
		{"int", RuleChanges{Set: Changes{{"a", Value{Type: Int, Bits: math.MaxUint64}}}}, "01 00 01 0161 02 ffffffffffffffffff01 00 00"},
		{"long", RuleChanges{Set: Changes{{"a", Value{Type: Long, Bits: 300}}}}, "01 00 01 0161 03 ac02 00 00"},
		{"double", RuleChanges{Set: Changes{{"a", Value{Type: Double, Bits: math.Float64bits(2)}}}}, "01 00 01 0161 04 808080808080808040 00 00"},
		{"decimal", RuleChanges{Set: Changes{{"a", Value{Type: Decimal, Text: "-1.5"}}}}, "01 00 01 0161 05 00 042d312e35 00"},
		{"uuid", RuleChanges{Set: Changes{{"a", Value{Type: UUID, Text: "0123456789abcdef"}}}}, "01 00 01 0161 07 00 10 30313233343536373839616263646566 00"},
		{"instant with a zone", RuleChanges{Set: Changes{{"a", Value{Type: Instant, Bits: 5, Text: "+02:00"}}}}, "01 00 01 0161 08 05 062b30323a3030 00"},
		{"span", RuleChanges{Set: Changes{{"a", Value{Type: Span, Bits: 5}}}}, "01 00 01 0161 09 05 00 00"},
		{"encoded", RuleChanges{Set: Changes{{"a", Value{Type: Encoded, Text: "\x54\x05"}}}}, "01 00 01 0161 fe 00 025405 00"},
		{"of no type that has a form", RuleChanges{Set: Changes{{"a", Value{Type: 255, Bits: 7, Text: "x"}}}}, "01 00 01 0161 00 00 00 00"},
		{"a boolean of two", RuleChanges{Set: Changes{{"a", Value{Type: Bool, Bits: 2}}}}, "01 00 01 0161 01 01 00 00"},
		{"in order", RuleChanges{Set: Changes{{"b", textValue("")}, {"a", textValue("")}}}, "01 00 02 0162 06 00 00 0161 06 00 00 00"},
		{"all of a rule", RuleChanges{Removed: []string{"x", "yz"}, Set: Changes{{"a", textValue("b")}}, System: Changes{{Name: "To"}, {"Label", textValue("l")}}},
			"01 02 0178 02797a 01 0161 06 00 0162 02 02546f 00 00 00 054c6162656c 06 00 016c"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.bytes, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.changes.Append([]byte("before")); string(got) != "before"+string(want) {
			t.Errorf("%s: %x, want %x", c.name, got, want)
		}
		if c.changes.Removed == nil && c.changes.System == nil {
			if got := c.changes.Set.Append(nil); string(got) != string(want) || c.changes.Set.Size() != len(want) {
				t.Errorf("%s: %x in %d bytes, want %x", c.name, got, c.changes.Set.Size(), want)
			}
		}
	}
}

// Size returns the number of appended bytes, wherever a length or a count gets longer.
func TestSizeOfChanges(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 127, 128, 255, 256, 16383, 16384, 1 << 16, 1<<16 + 1} {
		text := strings.Repeat("x", n)
		for _, c := range []Changes{
			{{"a", textValue(text)}}, {{text, textValue("a")}}, {{"a", Value{Type: Encoded, Text: text}}}, {{"a", Value{Type: Long, Bits: uint64(n)}}},
			{{"a", Value{Type: Long, Bits: -uint64(n)}}}, make(Changes, n),
		} {
			if got := len(c.Append(nil)); got != c.Size() {
				t.Errorf("%d bytes, not %d", got, c.Size())
			}
		}
	}
}

// Written changes can be read. Bytes that are never written are refused, and the error says why,
// and where.
func TestReadChanges(t *testing.T) {
	t.Parallel()
	whole := RuleChanges{Removed: []string{"x", ""}, Set: Changes{{"a", textValue("b")}, {"n", Value{Type: Encoded, Text: "\x40"}}, {Name: "none"}},
		System: Changes{{"TimeToLive", Value{Type: Span, Bits: 1 << 40}}}}
	b := whole.Append(nil)
	if got, err := ReadChanges(b); err != nil || !cmp.Equal(got, whole) {
		t.Errorf("%+v, %v (-want +got):\n%s", got, err, cmp.Diff(whole, got))
	}
	for n := range b {
		if c, err := ReadChanges(b[:n]); err == nil {
			t.Errorf("%d bytes of %d: %+v", n, len(b), c)
		}
	}
	for _, c := range []struct{ bytes, want string }{
		{"", "at byte 0: needs 1 bytes, 0 left"},
		{"\x02\x00\x00\x00", "at byte 1: 0x2 is not a form of property changes"},
		{"\xc1\x01\x00", "at byte 1: 0xc1 is not a form of property changes"},
		{"\x01\x00\x00\x00\x00", "at byte 4: 1 bytes too many"},
		{"\x01\x05\x00", "at byte 2: list of 5 entries is out of bounds"},
		{"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "at byte 11: list of 18446744073709551615 entries is out of bounds"},
		{"\x01\x00\x02\x01a\x06\x00", "at byte 3: list of 2 entries is out of bounds"},
		{"\x01\x00\x01\x01a\x0a\x00\x00\x00", "at byte 6: 10 is not a type of value"},
		{"\x01\x00\x01\x01a\xff\x00\x00\x00", "at byte 6: 255 is not a type of value"},
		{"\x01\x00\x01\x01a\x01\x02\x00\x00", "at byte 8: number 2 of a value of type 1"},
		{"\x01\x00\x01\x01a\xfe\x02\x01\x40\x00", "at byte 9: number 2 of a value of type 254"},
		{"\x01\x00\x01\x06a\x06\x00\x00\x00", "at byte 4: needs 6 bytes, 5 left"},
		{"\x01\x00\x01\x01a\x06\x80", "at byte 6: bad number"},
	} {
		_, err := ReadChanges([]byte(c.bytes))
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%x: %v, want %s", c.bytes, err, c.want)
		}
	}
}

// Reading costs no more allocations for many properties than for few: their texts are parts of one.
func TestReadChangesAllocations(t *testing.T) {
	b := (&RuleChanges{Removed: make([]string, 50), Set: make(Changes, 100), System: make(Changes, 5)}).Append(nil)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := ReadChanges(b); err != nil {
			t.Error(err)
		}
	}); n > 4 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReadChanges: any bytes are read or refused. Changes that were read are written and read again
// unchanged.
func FuzzReadChanges(f *testing.F) {
	f.Add([]byte("\x01\x01\x01x\x02\x01a\x06\x00\x01b\x01n\xfe\x00\x02T\x05\x01\x02To\x00\x00\x00"))
	f.Add([]byte("\x01\x00\x01\x01a\x04\x80\x80\x80\x80\x80\x80\x80\x80\x40\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadChanges(b)
		if err != nil {
			return
		}
		again := c.Append(nil)
		if got, err := ReadChanges(again); err != nil || !cmp.Equal(got, c) {
			t.Errorf("%x: %+v became %+v, %v (-want +got):\n%s", b, c, got, err, cmp.Diff(c, got))
		}
		if len(again) > len(b) {
			t.Errorf("%d bytes became %d", len(b), len(again))
		}
		if n := len(c.Set.Append(nil)); n != c.Set.Size() {
			t.Errorf("%d bytes, not %d", n, c.Set.Size())
		}
	})
}
