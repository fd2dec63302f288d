package amqp

import (
	"encoding/hex"
	"strings"
	"testing"
)

// WP-239: decimals in the standard form, BID of IEEE 754-2008, and in .NET's.
func TestRawDecimal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"74 32800001": "1", "74 b2800001": "-1", "74 32800000": "0", "74 b2800000": "-0", "74 328003e7": "999",
		"74 318004d2": "12.34", "74 30800005": "0.0005", "74 33000007": "7E1", "74 00000001": "1E-101",
		// one more than seven digits hold
		"74 77f8967f": "9999999E90", "74 6cb8967f": "9999999", "74 6cb89680": "0",
		// quiet and signalling
		"74 78000000": "Infinity", "74 f8000000": "-Infinity", "74 7c000000": "NaN", "74 fe000001": "NaN",

		"84 31c0000000000001": "1", "84 31c00000000004d2": "1234", "84 31800000000004d2": "12.34", "84 b1a000000000000a": "-1.0",
		"84 77fb86f26fc0ffff": "9999999999999999E369", "84 6c7386f26fc10000": "0", "84 7800000000000000": "Infinity", "84 fc00000000000000": "NaN",

		"94 30400000000000000000000000000001": "1", "94 303c00000000000000000000000004d2": "12.34", "94 b03c00000000000000000000000003e7": "-9.99",
		"94 303e000000000000000000000000000a": "1.0", "94 b03e0000000000000000000000000000": "-0.0", "94 00000000000000000000000000000001": "1E-6176",
		"94 3041ed09bead87c0378d8e63ffffffff": strings.Repeat("9", 34), "94 3041ed09bead87c0378d8e6400000000": "0",
		"94 5fffed09bead87c0378d8e63ffffffff": strings.Repeat("9", 34) + "E6111", "94 6c100000000000000000000000000001": "0",
		"94 78000000000000000000000000000000": "Infinity", "94 7c000000000000000000000000000000": "NaN",

		// .NET's own, as recorded
		"94 0c400000000000000000000000000000": "0", "94 0c400000000000000000000000000001": "1", "94 0c3e000000000000000000000000000a": "1.0",
		"94 0c3c00000000000000000000000004d2": "12.34", "94 8c3c00000000000000000000000003e7": "-9.99", "94 8c3e0000000000000000000000000000": "-0.0",
		"94 0c400000ffffffffffffffffffffffff": "79228162514264337593543950335", "94 8c400000ffffffffffffffffffffffff": "-79228162514264337593543950335",
		"94 0c080000000000000000000000000001": "0." + strings.Repeat("0", 27) + "1",
		// nearly: a scale of 29, an odd byte, bits beyond the 96
		"94 0c060000000000000000000000000001": "1E-4637", "94 0c410000000000000000000000000001": "5192296858534827628530496329220097E-4608",
		"94 0c400001000000000000000000000001": "79228162514264337593543950337E-4608", "94 0c420000000000000000000000000001": "1E-4607",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(in, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := RawDecimal(b); got != want || !ok {
			t.Errorf("%s is %q, %t; want %q", in, got, ok, want)
		}
		if got, ok := RawDecimal(append(b, 1)); got != want || !ok { // what follows does not matter
			t.Errorf("%s with more behind it is %q, %t; want %q", in, got, ok, want)
		}
		if got, ok := RawDecimal(b[:len(b)-1]); ok {
			t.Errorf("%s cut is %q", in, got)
		}
	}
	for _, b := range [][]byte{nil, {}, {CodeNull}, {CodeInt, 0, 0, 0, 1}, {CodeDescribed, CodeNull, CodeDecimal32, 0, 0, 0, 1}} {
		if got, ok := RawDecimal(b); ok {
			t.Errorf("% x is %q", b, got)
		}
	}
}
