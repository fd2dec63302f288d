package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Values of filters are JSON values in the file: a string, true or false, a number, null. A whole
// number of 32 bits is an int, a longer one a long, one with a point or exponent a double. Any
// other type, and a number whose type matters, is written {"Type": "dateTime", "Value":
// "2026-01-31T08:00:00Z"}.

// valueTypes are the types with the names of the management API (management-api.md 3.6) and the
// functions that read their texts.
var valueTypes = []struct {
	name string
	of   event.ValueType
	read func(text string) (event.Value, error)
}{
	{"string", event.String, func(text string) (event.Value, error) { return event.Value{Text: text}, nil }},
	{"boolean", event.Bool, readBool},
	{"int", event.Int, readInteger},
	{"long", event.Long, readInteger},
	{"double", event.Double, readDouble},
	{"decimal", event.Decimal, readDecimal},
	{"guid", event.UUID, readUUID},
	{"dateTime", event.Instant, readInstant},
	{"duration", event.Span, readSpan},
}

// readValue reads a value of a filter.
func readValue(n *node) (event.Value, error) {
	switch v := n.value.(type) {
	case nil:
		return event.Value{}, nil
	case string:
		return event.Value{Type: event.String, Text: v}, nil
	case bool:
		return boolean(v), nil
	case json.Number:
		return readNumber(string(v))
	case []member:
		return readTyped(v)
	}
	return event.Value{}, fmt.Errorf(`must be a string, number, boolean, null, or {"Type": ..., "Value": ...}, not %s`, n.kind())
}

func readNumber(text string) (event.Value, error) {
	if strings.ContainsAny(text, ".eE") {
		v, err := readDouble(text)
		v.Type = event.Double
		return v, err
	}
	v, err := readInteger(text)
	if err != nil {
		return v, err
	}
	v.Type = event.Long
	if isInt32(v.Bits) {
		v.Type = event.Int
	}
	return v, nil
}

// readTyped reads {"Type": ..., "Value": ...}.
func readTyped(members []member) (event.Value, error) {
	errShape := errors.New(`must have exactly the keys "Type" and "Value", with a plain value`)
	var name, text string
	if len(members) != 2 || members[0].key == members[1].key {
		return event.Value{}, errShape
	}
	for _, m := range members {
		var ok bool
		switch m.key {
		case "Type":
			name, ok = m.node.value.(string)
		case "Value":
			text, ok = plain(m.node.value)
		}
		if !ok {
			return event.Value{}, errShape
		}
	}
	var names []string
	for _, t := range valueTypes {
		if t.name == name {
			v, err := t.read(text)
			v.Type = t.of
			return v, err
		}
		names = append(names, t.name)
	}
	return event.Value{}, fmt.Errorf("%q is not a type; the types are %s", name, strings.Join(names, ", "))
}

// plain returns the text of a scalar.
func plain(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func boolean(b bool) event.Value {
	v := event.Value{Type: event.Bool}
	if b {
		v.Bits = 1
	}
	return v
}

func isInt32(bits uint64) bool { return int64(bits) >= math.MinInt32 && int64(bits) <= math.MaxInt32 }

func readBool(text string) (event.Value, error) {
	if text != "true" && text != "false" {
		return event.Value{}, fmt.Errorf("%q is neither true nor false", text)
	}
	return boolean(text == "true"), nil
}

func readInteger(text string) (event.Value, error) {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return event.Value{}, fmt.Errorf("%q is not a whole number of 64 bits", text)
	}
	return event.Value{Bits: uint64(i)}, nil
}

func readDouble(text string) (event.Value, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return event.Value{}, fmt.Errorf("%q is not a number that a double can hold", text)
	}
	return event.Value{Bits: math.Float64bits(f)}, nil
}

var decimal = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`)

func readDecimal(text string) (event.Value, error) {
	if !decimal.MatchString(text) {
		return event.Value{}, fmt.Errorf("%q is not a decimal number", text)
	}
	return event.Value{Text: text}, nil
}

func readUUID(text string) (event.Value, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return event.Value{}, fmt.Errorf("%q is not a UUID", text)
	}
	return event.Value{Text: string(id[:])}, nil
}

func readInstant(text string) (event.Value, error) {
	at, ok := event.ParseInstant(text)
	if !ok {
		return event.Value{}, fmt.Errorf("%q is not a time such as 2026-01-31T08:00:00Z", text)
	}
	return at, nil
}

func readSpan(text string) (event.Value, error) {
	ticks, err := parseTicks(text)
	return event.Value{Bits: uint64(ticks)}, err
}

// valueNode returns a value as readValue reads it.
func valueNode(v event.Value) *node {
	switch i := int64(v.Bits); v.Type {
	case event.Null:
		return leaf(nil)
	case event.String:
		return leaf(v.Text)
	case event.Bool:
		return leaf(v.Bits != 0)
	case event.Int, event.Long:
		if isInt32(v.Bits) == (v.Type == event.Int) {
			return leaf(json.Number(strconv.FormatInt(i, 10)))
		}
	case event.Double:
		if f := math.Float64frombits(v.Bits); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return leaf(number(f))
		}
	}
	for _, t := range valueTypes {
		if t.of == v.Type {
			return object(pair("Type", leaf(t.name)), pair("Value", leaf(valueText(v))))
		}
	}
	panic(fmt.Sprintf("settings: a value of type %d", v.Type))
}

// number returns a double as a JSON number that is read as a double.
func number(f float64) json.Number {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.Number(text)
}

// valueText returns the text under "Value" of a value that has no form in JSON.
func valueText(v event.Value) string {
	switch i := int64(v.Bits); v.Type {
	case event.Int, event.Long:
		return strconv.FormatInt(i, 10)
	case event.Double:
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64)
	case event.UUID:
		return string(event.AppendUUID(nil, v.Text))
	case event.Instant:
		return string(event.AppendInstant(nil, v))
	case event.Span:
		return string(event.AppendTicks(nil, i))
	}
	return v.Text
}
