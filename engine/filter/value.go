package filter

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Within an evaluation null also represents unknown: every operator treats them alike (semantics.md
// 15.4), except EXISTS, which looks at the message itself.

// truth is a value of three-valued logic.
type truth uint8

const (
	unknown truth = iota
	no
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (t truth) not() truth {
	switch t {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

func truthValue(t truth) event.Value {
	switch t {
	case yes:
		return event.Value{Type: event.Bool, Bits: 1}
	case no:
		return event.Value{Type: event.Bool}
	}
	return event.Value{}
}

func longValue(n int64) event.Value { return event.Value{Type: event.Long, Bits: uint64(n)} }
func doubleValue(f float64) event.Value {
	return event.Value{Type: event.Double, Bits: math.Float64bits(f)}
}
func isNumber(t event.ValueType) bool  { return t >= event.Int && t <= event.Decimal }
func isInteger(t event.ValueType) bool { return t == event.Int || t == event.Long }

// known returns a value of a message or rule in a form that evaluation can rely on: null if filters
// cannot see it or it is malformed, a double for a decimal that cannot be kept exactly, an instant
// for any time, whatever its zone.
func known(v event.Value) event.Value {
	switch v.Type {
	case event.Bool, event.Int, event.Long, event.Double, event.String, event.Span:
		return v
	case event.Instant:
		return event.Value{Type: event.Instant, Bits: v.Bits}
	case event.Decimal:
		if _, ok := parseDecimal(v.Text); ok {
			return v
		}
		if f, err := strconv.ParseFloat(v.Text, 64); err == nil {
			return doubleValue(f)
		}
	case event.UUID:
		if len(v.Text) == 16 {
			return v
		}
	}
	return event.Value{}
}

// double returns a number as a double; for decimals and large integers, the nearest one.
func double(v event.Value) float64 {
	switch v.Type {
	case event.Double:
		return math.Float64frombits(v.Bits)
	case event.Decimal:
		f, _ := strconv.ParseFloat(v.Text, 64)
		return f
	}
	return float64(int64(v.Bits))
}

// unordered is the result of comparing with NaN.
const unordered = 2

// compareNumbers compares by value: an integer and a double are equal if they are the same number.
func compareNumbers(a, b event.Value) int {
	switch {
	case isInteger(a.Type) && isInteger(b.Type):
		return cmp.Compare(int64(a.Bits), int64(b.Bits))
	case isInteger(a.Type) && b.Type == event.Double:
		return compareMixed(int64(a.Bits), double(b))
	case a.Type == event.Double && isInteger(b.Type):
		if c := compareMixed(int64(b.Bits), double(a)); c != unordered {
			return -c
		}
		return unordered
	case a.Type == event.Double || b.Type == event.Double:
		x, y := double(a), double(b)
		if math.IsNaN(x) || math.IsNaN(y) {
			return unordered
		}
		return cmp.Compare(x, y)
	}
	return decimalOf(a).compare(decimalOf(b))
}

func compareMixed(n int64, f float64) int {
	switch {
	case math.IsNaN(f):
		return unordered
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(n, int64(whole)); c != 0 {
		return c
	}
	return cmp.Compare(whole, f)
}

// equal reports whether two values that are not null are = each other. Values of different families
// are not equal.
func equal(a, b event.Value) bool {
	if isNumber(a.Type) && isNumber(b.Type) {
		return compareNumbers(a, b) == 0
	}
	return a.Type == b.Type && a.Bits == b.Bits && a.Text == b.Text
}

// order compares two values that are not null; false: they cannot be ordered.
func order(a, b event.Value) (int, bool) {
	switch {
	case isNumber(a.Type) && isNumber(b.Type):
		return compareNumbers(a, b), true
	case a.Type != b.Type:
		return 0, false
	case a.Type == event.String:
		return cmp.Compare(a.Text, b.Text), true
	case a.Type == event.Instant, a.Type == event.Span:
		return cmp.Compare(int64(a.Bits), int64(b.Bits)), true
	}
	return 0, false
}

// typeName returns the name of a type's family in error texts.
func typeName(t event.ValueType) string {
	switch {
	case t == event.Bool:
		return "a boolean"
	case isNumber(t):
		return "a number"
	case t == event.String:
		return "a string"
	case t == event.UUID:
		return "a uuid"
	case t == event.Instant:
		return "a timestamp"
	case t == event.Span:
		return "a time span"
	}
	return "null"
}

// appendText appends a value as text, in the form that it has when it is concatenated with a
// string: numbers and booleans as C# prints them, timestamps as ISO 8601, time spans as
// [-][d.]hh:mm:ss[.fffffff].
func appendText(dst []byte, v event.Value) []byte {
	switch v.Type {
	case event.Bool:
		if v.Bits == 0 {
			return append(dst, "False"...)
		}
		return append(dst, "True"...)
	case event.Int, event.Long:
		return strconv.AppendInt(dst, int64(v.Bits), 10)
	case event.Double:
		return appendDouble(dst, double(v))
	case event.Decimal:
		return append(dst, decimalOf(v).String()...)
	case event.String:
		return append(dst, v.Text...)
	case event.UUID:
		return event.AppendUUID(dst, v.Text)
	case event.Instant:
		return event.StdFromTicks(int64(v.Bits)).AppendFormat(dst, "2006-01-02T15:04:05.0000000Z")
	case event.Span:
		return appendSpan(dst, int64(v.Bits))
	}
	return dst
}

func appendDouble(dst []byte, f float64) []byte {
	switch abs := math.Abs(f); {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case abs != 0 && (abs < 1e-4 || abs >= 1e15):
		return strconv.AppendFloat(dst, f, 'E', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

func appendSpan(dst []byte, ticks int64) []byte {
	rest := uint64(ticks)
	if ticks < 0 {
		dst = append(dst, '-')
		rest = -rest
	}
	seconds, fraction := rest/event.TicksPerSecond, rest%event.TicksPerSecond
	if days := seconds / 86400; days > 0 {
		dst = append(strconv.AppendUint(dst, days, 10), '.')
	}
	dst = fmt.Appendf(dst, "%02d:%02d:%02d", seconds/3600%24, seconds/60%60, seconds%60)
	if fraction > 0 {
		dst = fmt.Appendf(dst, ".%07d", fraction)
	}
	return dst
}
