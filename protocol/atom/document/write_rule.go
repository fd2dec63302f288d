package document

import (
	"math"
	"strconv"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// compatibility is the language level of filters and actions.
const compatibility = "<CompatibilityLevel>20</CompatibilityLevel>"

// appendRule appends the content of a rule's description: filter, action, time, name
// (management-api.md 3.6).
func appendRule(b []byte, r *event.Rule, shown bool) []byte {
	b = appendFilter(b, &r.Filter)
	if r.Action.Text == "" { // readers require the element
		b = append(b, `<Action i:type="EmptyRuleAction"/>`...)
	} else {
		b = appendElement(append(b, `<Action i:type="SqlRuleAction">`...), "SqlExpression", r.Action.Text)
		b = appendProperties(append(b, compatibility...), "Parameters", r.Action.Parameters)
		if shown {
			b = append(b, "<RequiresPreprocessing>false</RequiresPreprocessing>"...)
		}
		b = append(b, "</Action>"...)
	}
	if shown {
		b = append(appendTime(append(b, "<CreatedAt>"...), r.CreatedAt), "</CreatedAt>"...)
	}
	if r.Name != "" {
		b = appendElement(b, "Name", r.Name)
	}
	return b
}

func appendFilter(b []byte, f *event.Filter) []byte {
	b = append(append(append(b, `<Filter i:type="`...), f.Kind.String()...), `">`...)
	switch f.Kind {
	case event.TrueFilter:
		b = append(b, "<SqlExpression>1=1</SqlExpression>"+compatibility...)
	case event.FalseFilter:
		b = append(b, "<SqlExpression>1=0</SqlExpression>"+compatibility...)
	case event.SQLFilter:
		b = append(appendElement(b, "SqlExpression", f.Text), compatibility...)
		b = appendProperties(b, "Parameters", f.Parameters)
	case event.CorrelationFilter:
		for field := event.FieldCorrelationID; field <= event.FieldContentType; field++ {
			for i := range f.Conditions {
				if f.Conditions[i].Field == field {
					b = appendElement(b, field.String(), f.Conditions[i].Text)
				}
			}
		}
		b = appendProperties(b, "Properties", f.Properties)
	}
	return append(b, "</Filter>"...)
}

// appendProperties appends named values. An empty list has no attribute, which would break a reader
// (management-api.md 1.8).
func appendProperties(b []byte, name string, list []event.Property) []byte {
	b = append(append(b, '<'), name...)
	if len(list) == 0 {
		return append(b, "/>"...)
	}
	b = append(b, '>')
	for i := range list {
		b = appendElement(append(b, "<KeyValueOfstringanyType>"...), "Key", list[i].Name)
		b = append(appendValue(b, &list[i].Value), "</KeyValueOfstringanyType>"...)
	}
	return append(append(append(b, "</"...), name...), '>')
}

// appendValue appends a value with its type. The prefix has four characters and is declared at the
// element itself, as readers expect (management-api.md 3.6).
func appendValue(b []byte, v *event.Value) []byte {
	if v.Type == event.Null {
		return append(b, `<Value i:nil="true"/>`...)
	}
	for _, t := range valueTypes {
		if t.is != v.Type {
			continue
		}
		space := schemaSpace
		if !t.schema {
			space = serializationSpace
		}
		b = append(append(append(b, `<Value i:type="d6p1:`...), t.name...), `" xmlns:d6p1="`...)
		b = append(append(b, space...), `">`...)
	}
	switch v.Type {
	case event.Bool:
		b = strconv.AppendBool(b, v.Bits != 0)
	case event.Int, event.Long:
		b = strconv.AppendInt(b, int64(v.Bits), 10)
	case event.Double:
		b = appendDouble(b, math.Float64frombits(v.Bits))
	case event.Instant:
		b = event.AppendInstant(b, *v)
	case event.Span:
		b = event.AppendTicks(b, int64(v.Bits))
	case event.UUID:
		b = event.AppendUUID(b, v.Text)
	default:
		b = appendEscaped(b, v.Text)
	}
	return append(b, "</Value>"...)
}

func appendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, "INF"...)
	case math.IsInf(f, -1):
		return append(b, "-INF"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64) // NaN is written as in XML Schema
}
