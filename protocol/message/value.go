package message

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Types of .NET that have no AMQP type of their own: described values, by their descriptors (5.3).
const (
	describedURI    = "com.microsoft:uri"             // a string
	describedOffset = "com.microsoft:datetime-offset" // a long: ticks in UTC
	describedSpan   = "com.microsoft:timespan"        // a long: ticks
)

// encodedValue is an encoded value, or several in a row, and the same bytes as a string. Texts are
// slices of the string, so all of them need only one allocation.
type encodedValue struct {
	raw  []byte
	text string
}

func newEncodedValue(raw []byte) encodedValue { return encodedValue{raw, string(raw)} }

func (e encodedValue) from(n int) encodedValue { return encodedValue{e.raw[n:], e.text[n:]} }

func (e encodedValue) cut(from, to int) encodedValue {
	return encodedValue{e.raw[from:to:to], e.text[from:to]}
}

// next removes and returns the first value. ok is false at the end and if there is no whole value.
func (e *encodedValue) next() (v encodedValue, ok bool) {
	n := amqp.RawSize(e.raw)
	if n < 0 {
		return v, false
	}
	v, *e = e.cut(0, n), e.from(n)
	return v, true
}

// items returns the items of a list or map, which may follow the small descriptor of a section.
func (e encodedValue) items() encodedValue {
	if len(e.raw) > 3 && e.raw[0] == amqp.CodeDescribed {
		e = e.from(3)
	}
	elements := amqp.RawElements(e.raw)
	if len(elements) == 0 {
		return encodedValue{}
	}
	n := amqp.RawSize(e.raw)
	return e.cut(n-len(elements), n)
}

func (e encodedValue) isCode(code byte) bool { return len(e.raw) > 0 && e.raw[0] == code }

// string returns the text of a string or symbol.
func (e encodedValue) string() (string, bool) {
	text, ok := amqp.RawText(e.raw)
	if !ok {
		return "", false
	}
	return e.text[len(e.text)-len(text):], true
}

// Value returns an encoded AMQP value in the form for filters (semantics.md 15.4). Values that
// filters cannot use, and bytes that are not a value, are of type [filter.Opaque]. Its text does
// not alias raw.
func Value(raw []byte) event.Value { return newEncodedValue(raw).value() }

// value is [Value] for a single value.
func (e encodedValue) value() event.Value {
	if len(e.raw) == 0 {
		return opaque
	}
	if e.raw[0] == amqp.CodeDescribed {
		return e.describedValue()
	}
	if text, ok := e.string(); ok {
		return event.Value{Type: event.String, Text: text}
	}
	if n, ok := amqp.RawInt(e.raw); ok {
		return event.Value{Type: integerType(e.raw[0], n), Bits: uint64(n)}
	}
	if b, ok := amqp.RawBool(e.raw); ok {
		return event.Value{Type: event.Bool, Bits: bit(b)}
	}
	switch e.raw[0] {
	case amqp.CodeNull:
		return event.Value{}
	case amqp.CodeUlong: // above the largest long
		return event.Value{Type: event.Decimal, Text: strconv.FormatUint(binary.BigEndian.Uint64(e.raw[1:]), 10)}
	case amqp.CodeFloat:
		return double(float64(math.Float32frombits(binary.BigEndian.Uint32(e.raw[1:]))))
	case amqp.CodeDouble:
		return event.Value{Type: event.Double, Bits: binary.BigEndian.Uint64(e.raw[1:])}
	case amqp.CodeChar:
		return event.Value{Type: event.String, Text: string(rune(binary.BigEndian.Uint32(e.raw[1:])))}
	case amqp.CodeTimestamp:
		return event.InstantOf(event.Time(binary.BigEndian.Uint64(e.raw[1:])))
	case amqp.CodeUUID:
		return event.Value{Type: event.UUID, Text: e.text[1:17]}
	case amqp.CodeDecimal32, amqp.CodeDecimal64, amqp.CodeDecimal128:
		if text, ok := amqp.RawDecimal(e.raw); ok {
			return decimalValue(text)
		}
	}
	return opaque
}

// decimalValue returns a decimal, or a double if the exponent is too large or the value is not a
// number.
func decimalValue(text string) event.Value {
	v := event.Value{Type: event.Decimal, Text: text}
	if _, _, ok := v.Decimal(); ok {
		return v
	}
	f, _ := strconv.ParseFloat(text, 64) // infinite if it is too large
	return double(f)
}

// describedValue converts the described types of .NET; all others are opaque.
func (e encodedValue) describedValue() event.Value {
	rest := e.from(1)
	descriptor, ok1 := rest.next()
	inner, ok2 := rest.next()
	if name, ok := descriptor.string(); ok && ok1 && ok2 {
		ticks, isLong := amqp.RawInt(inner.raw)
		switch {
		case name == describedURI:
			if text, ok := inner.string(); ok {
				return event.Value{Type: event.String, Text: text}
			}
		case name == describedSpan && isLong:
			return event.Value{Type: event.Span, Bits: uint64(ticks)}
		case name == describedOffset && isLong:
			return event.Value{Type: event.Instant, Bits: uint64(min(max(ticks, 0), event.MaxTicks))}
		}
	}
	return opaque
}

// opaque is a value that filters cannot use: binary, a list, a map, an array, an unknown type.
var opaque = event.Value{Type: filter.Opaque}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func double(f float64) event.Value { return event.Value{Type: event.Double, Bits: math.Float64bits(f)} }

// integerType returns int for the types that .NET widens to its int, and for a uint that fits; long
// for all others.
func integerType(code byte, n int64) event.ValueType {
	switch code {
	case amqp.CodeLong, amqp.CodeSmallLong, amqp.CodeUlong, amqp.CodeSmallUlong, amqp.CodeUlong0:
		return event.Long
	}
	if n > math.MaxInt32 {
		return event.Long
	}
	return event.Int
}

// span returns a duration in ticks.
func span(ms int64) event.Value {
	return event.Value{Type: event.Span, Bits: uint64(ms * event.TicksPerMillisecond)}
}

// appendValue appends a value that settlements and rules have given a property, in the form for
// messages: an Int as int, or as long if it has more than 32 bits; an Instant as timestamp, cut to
// the millisecond; a Span as .NET writes it; a Decimal as ulong if it is an integer that only a
// ulong can hold, as messages have it, and as decimal128 otherwise. A value without such a form
// becomes null.
func appendValue(dst []byte, v event.Value) []byte {
	switch v.Type {
	case event.Encoded:
		return append(dst, v.Text...)
	case event.Bool:
		if v.Bits == 0 {
			return append(dst, amqp.CodeFalse)
		}
		return append(dst, amqp.CodeTrue)
	case event.Int:
		if n := int64(v.Bits); n == int64(int32(n)) {
			return binary.BigEndian.AppendUint32(append(dst, amqp.CodeInt), uint32(n))
		}
		return appendLong(dst, int64(v.Bits))
	case event.Long:
		return appendLong(dst, int64(v.Bits))
	case event.Double:
		return binary.BigEndian.AppendUint64(append(dst, amqp.CodeDouble), v.Bits)
	case event.Decimal:
		return appendDecimal(dst, v)
	case event.String:
		return amqp.AppendString(dst, v.Text)
	case event.UUID:
		return append(append(dst, amqp.CodeUUID), v.Text...)
	case event.Instant:
		return amqp.AppendTimestamp(dst, amqp.Timestamp(event.FromTicks(int64(v.Bits))))
	case event.Span:
		return appendLong(amqp.AppendSymbol(append(dst, amqp.CodeDescribed), describedSpan), int64(v.Bits))
	}
	return amqp.AppendNull(dst)
}

// appendDecimal appends an IEEE 754 decimal128 with a binary coefficient: a sign, 14 bits of
// exponent, 113 of coefficient.
func appendDecimal(dst []byte, v event.Value) []byte {
	const bias, exponentAt = 6176, 49 // of the upper 64 bits
	if n, err := strconv.ParseUint(v.Text, 10, 64); err == nil && n > math.MaxInt64 {
		return binary.BigEndian.AppendUint64(append(dst, amqp.CodeUlong), n)
	}
	coef, exp, ok := v.Decimal()
	if !ok {
		coef, exp = big.NewInt(int64(v.Bits)), 0
	}
	digits := new(big.Int).Abs(coef).FillBytes(make([]byte, 16))
	upper := binary.BigEndian.Uint64(digits) | uint64(exp+bias)<<exponentAt
	if coef.Sign() < 0 || strings.HasPrefix(v.Text, "-") { // zero has a sign as well
		upper |= 1 << 63
	}
	return append(binary.BigEndian.AppendUint64(append(dst, amqp.CodeDecimal128), upper), digits[8:]...)
}

// OnWire returns a value of a rule in the form for AMQP (6.4), for package amqp to encode; nil for
// null and for values without such a form. A decimal that .NET's type cannot hold becomes a double,
// because otherwise .NET could not read any rule of the answer.
func OnWire(v event.Value) any {
	switch v.Type {
	case event.Bool:
		return v.Bits != 0
	case event.Int:
		return int32(v.Bits)
	case event.Long:
		return int64(v.Bits)
	case event.Double:
		return math.Float64frombits(v.Bits)
	case event.Decimal:
		if coef, exp, ok := v.Decimal(); !ok || coef.BitLen() > 96 || exp < -28 || exp > 0 {
			f, _ := strconv.ParseFloat(v.Text, 64)
			return f
		}
		value, _, _ := amqp.DecodeValue(appendDecimal(nil, v), amqp.DefaultLimits)
		return value
	case event.String:
		return v.Text
	case event.UUID:
		if len(v.Text) == 16 {
			return amqp.UUID([]byte(v.Text))
		}
	case event.Instant:
		return amqp.Timestamp((int64(v.Bits) - event.Time(0).Ticks()) / event.TicksPerMillisecond)
	case event.Span:
		return amqp.Described{Descriptor: amqp.Symbol(describedSpan), Value: int64(v.Bits)}
	}
	return nil
}
