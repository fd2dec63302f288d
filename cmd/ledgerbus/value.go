package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// valueTypes are the names of types in values, as in int:5. A text without one is a string.
var valueTypes = map[string]event.ValueType{
	"string": event.String, "int": event.Int, "long": event.Long, "bool": event.Bool, "double": event.Double, "decimal": event.Decimal,
	"uuid": event.UUID, "time": event.Instant, "duration": event.Span, "null": event.Null,
}

// parseValue reads a value such as int:5, bool:true, time:2027-01-31T08:00:00Z or plain text.
func parseValue(s string) (event.Value, error) {
	word, text, typed := strings.Cut(s, ":")
	kind, known := valueTypes[word]
	if !typed || !known {
		return event.Value{Type: event.String, Text: s}, nil
	}
	v := event.Value{Type: kind}
	var err error
	switch kind {
	case event.Null:
		if text != "" {
			err = strconv.ErrSyntax
		}
	case event.String:
		v.Text = text
	case event.Int, event.Long:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v.Bits = uint64(n)
	case event.Bool:
		var b bool
		if b, err = strconv.ParseBool(text); b {
			v.Bits = 1
		}
	case event.Double:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v.Bits = math.Float64bits(f)
	case event.Decimal:
		v.Text = text
		if _, err = strconv.ParseFloat(text, 64); strings.Trim(text, "+-.0123456789") != "" {
			err = strconv.ErrSyntax
		}
	case event.UUID:
		var id uuid.UUID
		id, err = uuid.Parse(text)
		v.Text = string(id[:])
	case event.Instant:
		var ok bool
		if v, ok = event.ParseInstant(text); !ok {
			err = strconv.ErrSyntax
		}
	case event.Span:
		var d time.Duration
		d, err = parseSpan(text)
		v.Bits = uint64(d / event.Tick)
	}
	if err != nil {
		return v, fmt.Errorf("%q is not a valid %s", text, word)
	}
	return v, nil
}

// valueText prints a value in the form that [parseValue] reads.
func valueText(v event.Value) string {
	switch v.Type {
	case event.Null:
		return "null:"
	case event.String:
		if word, _, typed := strings.Cut(v.Text, ":"); typed {
			if _, known := valueTypes[word]; known {
				return "string:" + v.Text
			}
		}
		return v.Text
	case event.Int:
		return "int:" + strconv.FormatInt(int64(v.Bits), 10)
	case event.Long:
		return "long:" + strconv.FormatInt(int64(v.Bits), 10)
	case event.Bool:
		return "bool:" + strconv.FormatBool(v.Bits != 0)
	case event.Double:
		return "double:" + strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64)
	case event.Decimal:
		return "decimal:" + v.Text
	case event.UUID:
		return "uuid:" + string(event.AppendUUID(nil, v.Text))
	case event.Instant:
		return "time:" + string(event.AppendInstant(nil, v))
	case event.Span:
		return "duration:" + string(event.AppendDuration(nil, time.Duration(v.Bits)*event.Tick))
	}
	return "unknown:"
}
