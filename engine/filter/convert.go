package filter

import (
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// convert converts a value to the type that a property has so far, if that loses nothing
// (semantics.md 15.5): numbers into each other, anything into a string, and a string into the value
// that it spells. Everything else stays as it is.
func convert(v event.Value, to event.ValueType) event.Value {
	switch {
	case v.Type == to, v.Type == event.Null:
	case to == event.String:
		return event.Value{Type: event.String, Text: string(appendText(nil, v))}
	case v.Type == event.String:
		if w, ok := parseText(v.Text, to); ok {
			return w
		}
	case isNumber(v.Type) && isNumber(to):
		if w, ok := convertNumber(v, to); ok {
			return w
		}
	}
	return v
}

func convertNumber(v event.Value, to event.ValueType) (event.Value, bool) {
	var w event.Value
	switch to {
	case event.Int, event.Long:
		n, ok := integer(v)
		if !ok || to == event.Int && n != int64(int32(n)) {
			return v, false
		}
		w = event.Value{Type: to, Bits: uint64(n)}
	case event.Double:
		return doubleValue(double(v)), true // as a calculation with doubles would
	case event.Decimal:
		if v.Type == event.Double {
			return parseText(strconv.FormatFloat(double(v), 'G', -1, 64), to)
		}
		w = decimalOf(v).value()
	}
	return w, true
}

// integer returns a number as an integer of 64 bits if it is one.
func integer(v event.Value) (int64, bool) {
	switch v.Type {
	case event.Double:
		f := double(v)
		return int64(f), f == math.Trunc(f) && f >= -1<<63 && f < 1<<63
	case event.Decimal:
		x, one, _ := align(decimalOf(v), decimal{pow10(0), 0})
		quotient, rest := new(big.Int).QuoRem(x, one, new(big.Int))
		return quotient.Int64(), rest.Sign() == 0 && quotient.IsInt64()
	}
	return int64(v.Bits), true
}

// parseText reads a string as a value of a type.
func parseText(text string, to event.ValueType) (event.Value, bool) {
	switch to {
	case event.Bool:
		switch {
		case strings.EqualFold(text, "true"):
			return truthValue(yes), true
		case strings.EqualFold(text, "false"):
			return truthValue(no), true
		}
	case event.Int, event.Long:
		bits := 64
		if to == event.Int {
			bits = 32
		}
		n, err := strconv.ParseInt(text, 10, bits)
		return event.Value{Type: to, Bits: uint64(n)}, err == nil
	case event.Double:
		f, err := strconv.ParseFloat(text, 64)
		return doubleValue(f), err == nil
	case event.Decimal:
		d, ok := parseDecimal(text)
		if !ok {
			return event.Value{}, false
		}
		written, ok := d.forNet()
		return d.value(), ok && written.compare(d) == 0
	case event.UUID:
		id, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		return event.Value{Type: event.UUID, Text: string(id)}, err == nil && len(id) == 16 && len(text) == 36
	}
	return event.Value{}, false
}

// portable returns a value in the form in which an action writes it, so that every SDK, including
// .NET's, can read a decimal. A decimal that is too large for .NET becomes the nearest double.
func portable(v event.Value) event.Value {
	if v.Type != event.Decimal {
		return v
	}
	d := decimalOf(v)
	switch written, ok := d.forNet(); {
	case !ok:
		return doubleValue(double(v))
	case written.exp != d.exp:
		return written.value()
	}
	return v
}
