package amqp

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// unhex turns hexadecimal digits, with spaces where they help, into bytes.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var sampleUUID = UUID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}

// symbolArray returns an array of symbols with the wide constructor, as the real service writes
// them (wire-protocol 1.5).
func symbolArray(symbols ...Symbol) Array {
	a := Array{Elem: CodeSym32, Values: make([]any, len(symbols))}
	for i, s := range symbols {
		a.Values[i] = s
	}
	return a
}

// sampleValues holds every type with the bytes it must be written as.
var sampleValues = []struct {
	name  string
	value any
	bytes string
}{
	{"null", nil, "40"},
	{"true", true, "41"},
	{"false", false, "42"},
	{"ubyte", uint8(200), "50c8"},
	{"ushort", uint16(0x1234), "601234"},
	{"uint0", uint32(0), "43"},
	{"smalluint", uint32(255), "52ff"},
	{"uint", uint32(256), "7000000100"},
	{"ulong0", uint64(0), "44"},
	{"smallulong", uint64(255), "53ff"},
	{"ulong", uint64(0x000000137000000c), "80000000137000000c"},
	{"byte", int8(-2), "51fe"},
	{"short", int16(-2), "61fffe"},
	{"smallint", int32(-128), "5480"},
	{"int", int32(128), "7100000080"},
	{"int negative", int32(-129), "71ffffff7f"},
	{"smalllong", int64(127), "557f"},
	{"long", int64(638400000000000000), "8108dc0d6ae89c0000"},
	{"float", float32(1.5), "723fc00000"},
	{"double", -2.5, "82c004000000000000"},
	{"char", Char('€'), "73000020ac"},
	{"timestamp", Timestamp(-1), "83ffffffffffffffff"},
	{"timestamp of .NET never", Timestamp(253402300800000), "830000e677d21fdc00"}, // WP-214
	{"uuid", sampleUUID, "9800112233445566778899aabbccddeeff"},
	{"binary", []byte{1, 2}, "a0020102"},
	{"binary empty", []byte{}, "a000"},
	{"string", "Größe", "a107 4772c3b6c39f65"},
	{"string empty", "", "a100"},
	{"symbol", Symbol("amqp:x"), "a306 616d71703a78"},
	{"list empty", List{}, "c00100"},
	{"list", List{uint32(1), nil, "a"}, "c0070352 014 0a10161"},
	{"map empty", Map{}, "c10100"},
	{"map", Map{{Symbol("k"), int32(1)}}, "c10602a3016b5401"},
	{"described", Described{uint64(0x137000000c), nil}, "0080000000137000000c40"},
	{"described by symbol", Described{Symbol("com.microsoft:timespan"), int64(1)},
		"00a316636f6d2e6d6963726f736f66743a74696d657370616e5501"},
	{"decimal32", Opaque{CodeDecimal32, []byte{1, 2, 3, 4}}, "7401020304"},
	{"decimal64", Opaque{CodeDecimal64, []byte{1, 2, 3, 4, 5, 6, 7, 8}}, "840102030405060708"},
	{"decimal128", Opaque{CodeDecimal128, bytes.Repeat([]byte{7}, 16)}, "9407070707070707070707070707070707"},
	{"array of symbols", symbolArray("a", "bc"), "e00d02b30000000161000000026263"},
	{"array of smalllongs", Array{Elem: CodeSmallLong, Values: []any{int64(1), int64(-1)}}, "e0040255 01ff"},
	{"array of longs", Array{Elem: CodeLong, Values: []any{int64(1)}}, "e00a01810000000000000001"},
	{"array of uuids", Array{Elem: CodeUUID, Values: []any{sampleUUID}}, "e0120198 00112233445566778899aabbccddeeff"},
	{"array of timestamps", Array{Elem: CodeTimestamp, Values: []any{Timestamp(5)}}, "e00a0183 0000000000000005"},
	{"array of strings", Array{Elem: CodeStr8, Values: []any{"a", ""}}, "e00502a1 016100"},
	{"array of nulls", Array{Elem: CodeNull, Values: []any{nil, nil}}, "e0020240"},
	{"array of booleans", Array{Elem: CodeBool, Values: []any{true, false}}, "e0040256 0100"},
	{"array of nothing", Array{Elem: CodeUint, Values: []any{}}, "e0020070"},
	{"array of lists", Array{Elem: CodeList8, Values: []any{List{true}, List{}}}, "e00702c0 020141 0100"},
	{"array of wide lists", Array{Elem: CodeList32, Values: []any{List{true}}}, "e00b01d0 000000050000000141"},
	{"array of list0s", Array{Elem: CodeList0, Values: []any{List{}, List{}}}, "e0020245"},
	{"array of maps", Array{Elem: CodeMap8, Values: []any{Map{{"a", true}}}}, "e00801c1 0502a1016141"},
	{"array of arrays", Array{Elem: CodeArray8, Values: []any{Array{Elem: CodeUbyte, Values: []any{uint8(9)}}}},
		"e00601e0 03015009"},
	{"array of described", Array{Elem: CodeSmallUint, Descriptors: []any{uint64(5), Symbol("s")},
		Values: []any{uint32(1), uint32(2)}}, "e00b02 005305 00a30173 52 0102"},
}

func TestValueBytes(t *testing.T) {
	for _, c := range sampleValues {
		t.Run(c.name, func(t *testing.T) {
			want := unhex(t, c.bytes)
			got := AppendValue([]byte("before"), c.value)
			if !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Fatalf("encoded %x, want %x", got[6:], want)
			}
			v, rest, err := DecodeValue(append(want, 0xEE), DefaultLimits)
			if err != nil || !bytes.Equal(rest, []byte{0xEE}) {
				t.Fatalf("decode: rest %x, err %v", rest, err)
			}
			if !cmp.Equal(v, c.value) {
				t.Fatalf("decoded %#v, want %#v (-want +got):\n%s", v, c.value, cmp.Diff(c.value, v))
			}
			rest, err = SkipValue(append(want, 0xEE), DefaultLimits)
			if err != nil || !bytes.Equal(rest, []byte{0xEE}) {
				t.Fatalf("skip: rest %x, err %v", rest, err)
			}
			if n := RawSize(append(want, 0xEE)); n != len(want) {
				t.Fatalf("RawSize %d, want %d", n, len(want))
			}
			for i := range want {
				if _, _, err := DecodeValue(want[:i], DefaultLimits); err == nil {
					t.Fatalf("cut to %d bytes: no error", i)
				}
				if n := RawSize(want[:i]); n >= 0 {
					t.Fatalf("cut to %d bytes: RawSize %d", i, n)
				}
			}
		})
	}
}

// Encodings that are never written but must be read.
func TestOtherEncodings(t *testing.T) {
	for _, c := range []struct {
		bytes string
		want  any
	}{
		{"5601", true},
		{"5600", false},
		{"7000000000", uint32(0)},
		{"800000000000000001", uint64(1)},
		{"7100000001", int32(1)},
		{"81ffffffffffffffff", int64(-1)},
		{"b000000001 07", []byte{7}},
		{"b100000001 61", "a"},
		{"b300000001 61", Symbol("a")},
		{"45", List{}},
		{"d0000000050000000141", List{true}},
		{"d10000000800000002a1016141", Map{{"a", true}}},
		{"f00000000700000002 52 0102", Array{Elem: CodeSmallUint, Values: []any{uint32(1), uint32(2)}}},
		{"0080000000000000001040", Described{uint64(16), nil}},
		// one half of a surrogate pair: clients with 16-bit chars send it
		{"730000d800", Char(0xD800)},
	} {
		got, rest, err := DecodeValue(unhex(t, c.bytes), DefaultLimits)
		if err != nil || len(rest) > 0 || !cmp.Equal(got, c.want) {
			t.Errorf("%s: %#v, rest %x, err %v; want %#v (-want +got):\n%s", c.bytes, got, rest, err, c.want, cmp.Diff(c.want, got))
		}
	}
}

func TestFloatBitsSurvive(t *testing.T) {
	for _, want := range []string{"727fc00001", "72ff800000", "827ff8000000000001", "828000000000000000"} {
		v, _, err := DecodeValue(unhex(t, want), DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(AppendValue(nil, v)); got != want {
			t.Errorf("%s became %s", want, got)
		}
	}
	if v, _, _ := DecodeValue(appendDouble(nil, math.Inf(1)), DefaultLimits); v != math.Inf(1) {
		t.Error("infinity lost")
	}
}

// Arrays of every type that has a constructor, in each of its widths.
func TestArraysOfEveryType(t *testing.T) {
	for code, v := range map[byte]any{
		CodeNull: nil, CodeTrue: true, CodeFalse: false, CodeBool: true, CodeUint0: uint32(0), CodeUlong0: uint64(0),
		CodeUbyte: uint8(1), CodeByte: int8(-1), CodeSmallUint: uint32(1), CodeSmallUlong: uint64(1), CodeSmallInt: int32(-1),
		CodeSmallLong: int64(-1), CodeUshort: uint16(1), CodeShort: int16(-1), CodeUint: uint32(1), CodeInt: int32(-1),
		CodeFloat: float32(1.5), CodeChar: Char('x'), CodeUlong: uint64(1), CodeLong: int64(-1), CodeDouble: 1.5,
		CodeTimestamp: Timestamp(-1), CodeUUID: sampleUUID, CodeBin8: []byte("x"), CodeBin32: []byte("x"), CodeStr8: "x",
		CodeStr32: "x", CodeSym8: Symbol("x"), CodeSym32: Symbol("x"), CodeList0: List{}, CodeList8: List{nil},
		CodeList32: List{nil}, CodeMap8: Map{{"k", nil}}, CodeMap32: Map{{"k", nil}},
		CodeArray8:     Array{Elem: CodeUbyte, Values: []any{uint8(1)}},
		CodeArray32:    Array{Elem: CodeUbyte, Values: []any{uint8(1)}},
		CodeDecimal32:  Opaque{CodeDecimal32, []byte("1234")},
		CodeDecimal64:  Opaque{CodeDecimal64, []byte("12345678")},
		CodeDecimal128: Opaque{CodeDecimal128, []byte("1234567812345678")},
	} {
		want := Array{Elem: code, Values: []any{v, v}}
		got, rest, err := DecodeValue(AppendValue(nil, want), DefaultLimits)
		if err != nil || len(rest) > 0 || !cmp.Equal(got, want) {
			t.Errorf("%#02x: %#v, rest %x, err %v (-want +got):\n%s", code, got, rest, err, cmp.Diff(want, got))
		}
	}
}

// A narrow constructor is widened when a value does not fit.
func TestArrayWidens(t *testing.T) {
	long, wide := strings.Repeat("x", 256), make(List, 300)
	for _, c := range []struct {
		array Array
		elem  byte
	}{
		{Array{Elem: CodeTrue, Values: []any{true, false}}, CodeBool},
		{Array{Elem: CodeUint0, Values: []any{uint32(1)}}, CodeSmallUint},
		{Array{Elem: CodeUint0, Values: []any{uint32(1), uint32(256)}}, CodeUint},
		{Array{Elem: CodeUlong0, Values: []any{uint64(256)}}, CodeUlong},
		{Array{Elem: CodeSmallInt, Values: []any{int32(128)}}, CodeInt},
		{Array{Elem: CodeSmallLong, Values: []any{int64(128)}}, CodeLong},
		{Array{Elem: CodeStr8, Values: []any{"a", long}}, CodeStr32},
		{Array{Elem: CodeSym8, Values: []any{Symbol(long)}}, CodeSym32},
		{Array{Elem: CodeBin8, Values: []any{[]byte(long)}}, CodeBin32},
		{Array{Elem: CodeList0, Values: []any{List{}, List{true}}}, CodeList8},
		{Array{Elem: CodeList8, Values: []any{List{}, wide}}, CodeList32},
		{Array{Elem: CodeMap8, Values: []any{Map{{"k", long}}}}, CodeMap32},
	} {
		v, _, err := DecodeValue(AppendValue(nil, c.array), DefaultLimits)
		if err != nil {
			t.Errorf("%#02x: %v", c.array.Elem, err)
			continue
		}
		got := v.(Array)
		if got.Elem != c.elem || !cmp.Equal(got.Values, c.array.Values) {
			t.Errorf("%#02x became %#02x, want %#02x (-want +got):\n%s", c.array.Elem, got.Elem, c.elem, cmp.Diff(c.array.Values, got.Values))
		}
	}
}

// The time to encode nested arrays must not multiply with each level: a client chooses the nesting
// and gets it echoed.
func TestNestedArrayCost(t *testing.T) {
	v := Array{Elem: CodeStr8, Values: []any{strings.Repeat("x", 255)}}
	for range 31 {
		v = Array{Elem: CodeArray8, Values: []any{v}}
	}
	b := AppendValue(nil, v) // would not end if it were exponential
	if _, err := SkipValue(b, DefaultLimits); err != nil {
		t.Fatal(err)
	}
}

func TestAppendValuePanics(t *testing.T) {
	for _, v := range []any{
		1, uint(1), time.Second, struct{}{}, []any{},
		Array{Elem: CodeUint, Values: []any{"text"}},
		Array{Elem: CodeList8, Values: []any{Map{}}},
		Array{Elem: 0x99, Values: []any{true}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T: no panic", v)
				}
			}()
			AppendValue(nil, v)
		}()
	}
}

func TestLargeCompounds(t *testing.T) {
	list, m := make(List, 300), make(Map, 200)
	for i := range list {
		list[i] = uint32(i)
	}
	for i := range m {
		m[i] = Pair{int32(i), "v"}
	}
	for _, v := range []any{list, m, Array{Elem: CodeUint, Values: []any(list)}, strings.Repeat("ö", 200)} {
		b := AppendValue(nil, v)
		got, rest, err := DecodeValue(b, DefaultLimits)
		if err != nil || len(rest) > 0 || !cmp.Equal(got, v) {
			t.Errorf("%T: rest %d bytes, err %v (-want +got):\n%s", v, len(rest), err, cmp.Diff(v, got))
		}
	}
	// 255 nulls are 255 bytes: one more than a list8 can hold, whose size includes its count.
	for n, code := range map[int]byte{254: CodeList8, 255: CodeList32} {
		if b := AppendValue(nil, make(List, n)); b[0] != code {
			t.Errorf("list of %d nulls has constructor %#02x, want %#02x", n, b[0], code)
		}
	}
}

func TestBuilders(t *testing.T) {
	b, outer := BeginMap(nil)
	b = AppendSymbol(b, "a")
	b, inner := BeginList(b)
	b = appendUint(b, 7)
	b = AppendNull(b)
	b = EndList(b, inner, 2)
	b = AppendInt(AppendString(b, "b"), -1)
	b = EndMap(b, outer, 2)
	want := Map{{Symbol("a"), List{uint32(7), nil}}, {"b", int32(-1)}}
	if got, _, err := DecodeValue(b, DefaultLimits); err != nil || !cmp.Equal(got, want) {
		t.Fatalf("%#v, %v (-want +got):\n%s", got, err, cmp.Diff(want, got))
	}
}

func TestMapGet(t *testing.T) {
	m := Map{{int32(1), "n"}, {Symbol("a"), 1}, {"b", nil}, {"a", 2}}
	if v, ok := m.Get("a"); !ok || v != 1 {
		t.Errorf("a: %v %v", v, ok)
	}
	if v, ok := m.Get("b"); !ok || v != nil {
		t.Errorf("b: %v %v", v, ok)
	}
	if _, ok := m.Get("c"); ok {
		t.Error("c found")
	}
	if _, ok := Map(nil).Get("a"); ok {
		t.Error("found in nil")
	}
}

func TestSmallTypes(t *testing.T) {
	if got, want := sampleUUID.String(), "00112233-4455-6677-8899-aabbccddeeff"; got != want {
		t.Errorf("uuid %s, want %s", got, want)
	}
	if Some(3).Or(4) != 3 || (Opt[int]{}).Or(4) != 4 {
		t.Error("Or")
	}
}

// The results of DecodeValue do not alias the input.
func TestDecodeValueCopies(t *testing.T) {
	b := AppendValue(nil, List{[]byte("abc"), "def", Symbol("ghi"), Opaque{CodeDecimal32, []byte("jklm")}})
	v, _, err := DecodeValue(b, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	want := List{[]byte("abc"), "def", Symbol("ghi"), Opaque{CodeDecimal32, []byte("jklm")}}
	if !cmp.Equal(v, want) {
		t.Fatalf("%#v (-want +got):\n%s", v, cmp.Diff(want, v))
	}
}
