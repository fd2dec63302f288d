package document

import (
	"math"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// readRule parses the description of a rule (management-api.md 3.6). A rule without a filter
// matches everything.
func readRule(n *node) (*event.Rule, error) {
	r := &event.Rule{Name: n.find("Name"), CreatedAt: lenientTime(n.find("CreatedAt")), Filter: event.Filter{Kind: event.TrueFilter}}
	var err error
	if f := n.child("Filter"); f != nil {
		if r.Filter, err = readFilter(f); err != nil {
			return nil, err
		}
	}
	if a := n.child("Action"); a != nil {
		if r.Action, err = readAction(a); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func readFilter(n *node) (event.Filter, error) {
	var f event.Filter
	var err error
	switch name := n.typeName(); name {
	case "SqlFilter":
		if f.Kind, f.Text = event.SQLFilter, expression(n); strings.TrimSpace(f.Text) == "" {
			return f, invalid("Filter", "The SqlExpression of the filter is empty.")
		}
		f.Parameters, err = readProperties(n.child("Parameters"))
	case "TrueFilter":
		f.Kind = event.TrueFilter
	case "FalseFilter":
		f.Kind = event.FalseFilter
	case "CorrelationFilter":
		f.Kind = event.CorrelationFilter
		for field := event.FieldCorrelationID; field <= event.FieldContentType; field++ {
			if c := n.child(field.String()); c != nil {
				f.Conditions = append(f.Conditions, event.Condition{Field: field, Text: c.raw()})
			}
		}
		f.Properties, err = readProperties(n.child("Properties"))
	default:
		return f, invalid("Filter", "The type '%s' of the filter is not one of SqlFilter, TrueFilter, FalseFilter, CorrelationFilter.", clip(name))
	}
	return f, err
}

func readAction(n *node) (event.Action, error) {
	var a event.Action
	var err error
	switch name := n.typeName(); name {
	case "EmptyRuleAction":
	case "SqlRuleAction":
		if a.Text = expression(n); strings.TrimSpace(a.Text) == "" {
			return a, invalid("Action", "The SqlExpression of the action is empty.")
		}
		a.Parameters, err = readProperties(n.child("Parameters"))
	default:
		return a, invalid("Action", "The type '%s' of the action is not one of SqlRuleAction, EmptyRuleAction.", clip(name))
	}
	return a, err
}

func expression(n *node) string {
	if c := n.child("SqlExpression"); c != nil {
		return c.raw()
	}
	return ""
}

func readProperties(n *node) ([]event.Property, error) {
	if n == nil {
		return nil, nil
	}
	var list []event.Property
	for _, c := range n.children {
		if c.name != "KeyValueOfstringanyType" {
			continue
		}
		var p event.Property
		if key := c.child("Key"); key != nil {
			p.Name = key.raw()
		}
		for _, v := range c.children {
			if v.name != "Value" {
				continue
			}
			var ok bool
			if p.Value, ok = readValue(v); !ok {
				return nil, invalid(n.name, "The value '%s' of '%s' is not of its type '%s'.", clip(v.trimmed()), clip(p.Name), clip(v.typeName()))
			}
			break
		}
		list = append(list, p)
	}
	return list, nil
}

// valueTypes lists the names of the types of values. Clients send the first seven; the others come
// from rules made over AMQP.
var valueTypes = []struct {
	name   string
	schema bool // a type of XML Schema; otherwise of the serialization
	is     event.ValueType
}{
	{"string", true, event.String}, {"int", true, event.Int}, {"long", true, event.Long}, {"boolean", true, event.Bool},
	{"double", true, event.Double}, {"dateTime", true, event.Instant}, {"duration", false, event.Span},
	{"decimal", true, event.Decimal}, {"guid", false, event.UUID},
}

// readValue parses a value by its declared type, in either of the two namespaces; false: the value
// is not of that type.
func readValue(n *node) (event.Value, bool) {
	if n.isNil() {
		return event.Value{}, true
	}
	name, _ := n.instance("type")
	prefix, local, prefixed := strings.Cut(strings.TrimSpace(name), ":")
	if prefixed {
		if s := n.space(prefix); s != schemaSpace && s != serializationSpace {
			return event.Value{}, false
		}
	} else {
		local = prefix
	}
	v, ok := event.Value{}, false
	for _, t := range valueTypes {
		if t.name == local {
			v.Type = t.is
		}
	}
	text := n.trimmed()
	switch v.Type {
	case event.String:
		v.Text, ok = n.raw(), true
	case event.Int, event.Long:
		i, err := strconv.ParseInt(text, 10, 64)
		v.Bits, ok = uint64(i), err == nil
	case event.Bool:
		var b bool
		if b, ok = parseBool(text); b {
			v.Bits = 1
		}
	case event.Double:
		var f float64
		f, ok = parseDouble(text)
		v.Bits = math.Float64bits(f)
	case event.Instant:
		v, ok = event.ParseInstant(text)
	case event.Span:
		var ticks int64
		ticks, ok = parseTicks(text)
		v.Bits = uint64(ticks)
	case event.Decimal:
		v.Text, ok = text, isDecimal(text)
	case event.UUID:
		v.Text, ok = parseUUID(text)
	}
	return v, ok
}

// parseDouble parses a double of XML Schema. A value out of range is infinite, as for other
// readers.
func parseDouble(s string) (float64, bool) {
	switch s {
	case "INF", "Infinity":
		return math.Inf(1), true
	case "-INF", "-Infinity":
		return math.Inf(-1), true
	case "NaN":
		return math.NaN(), true
	}
	if strings.Trim(s, "0123456789+-.eE") != "" { // no hexadecimal, no underscores, no other names
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func isDecimal(s string) bool {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	whole, fraction, fractional := strings.Cut(s, ".")
	return len(s) <= 64 && digits(whole) && (!fractional || digits(fraction))
}

func parseUUID(s string) (string, bool) {
	id, err := uuid.Parse(s)
	return string(id[:]), err == nil && len(s) == 36 // no other form is valid
}
