package amqp

import (
	"encoding/hex"
	"strconv"
)

// Printing is for debug logs: a performative in a line, fields that are null or false left out, texts quoted and so free of
// control characters, long ones cut, binaries as their length. Bodies and login secrets are never printed (reliability S26,
// S31).

// maxPrinted is how many bytes of one text, and elements of one compound, are printed.
const maxPrinted = 128

// printer writes name{field=value …}.
type printer struct{ b []byte }

// Print returns v, any value AppendValue takes, for a log.
func Print(v any) string {
	var p printer
	p.value(v)
	return string(p.b)
}

func (p *printer) name(name string) {
	if n := len(p.b); n > 0 && p.b[n-1] != '{' {
		p.b = append(p.b, ' ')
	}
	p.b = append(append(p.b, name...), '=')
}

func (p *printer) uint(name string, v uint64) {
	p.name(name)
	p.b = strconv.AppendUint(p.b, v, 10)
}

func (p *printer) optUint(name string, o Opt[uint32]) {
	if o.Set {
		p.uint(name, uint64(o.Value))
	}
}

// flag prints the name alone if v is set.
func (p *printer) flag(name string, v bool) {
	if v {
		p.name(name)
		p.b = p.b[:len(p.b)-1]
	}
}

func (p *printer) bool(name string, v bool) {
	p.name(name)
	p.b = strconv.AppendBool(p.b, v)
}

func (p *printer) text(name, v string) {
	if v != "" {
		p.name(name)
		p.quoted(v)
	}
}

func (p *printer) quoted(v string) {
	if len(v) > maxPrinted {
		p.b = append(strconv.AppendQuoteToASCII(p.b, v[:maxPrinted]), '+')
		p.b = strconv.AppendInt(p.b, int64(len(v)-maxPrinted), 10)
		return
	}
	p.b = strconv.AppendQuoteToASCII(p.b, v)
}

// secret prints only how many bytes there are.
func (p *printer) secret(name string, v []byte) {
	if v != nil {
		p.name(name)
		p.size(v)
	}
}

func (p *printer) size(v []byte) {
	p.b = append(strconv.AppendInt(append(p.b, '('), int64(len(v)), 10), " bytes)"...)
}

// tag prints a delivery tag or transaction id in hexadecimal.
func (p *printer) tag(name string, v []byte) {
	if v == nil {
		return
	}
	p.name(name)
	p.b = hex.AppendEncode(p.b, v[:min(len(v), 32)])
}

func (p *printer) any(name string, v any) {
	if v != nil {
		p.name(name)
		p.value(v)
	}
}

func (p *printer) symbols(name string, v []Symbol) {
	if len(v) == 0 {
		return
	}
	p.name(name)
	p.b = append(p.b, '[')
	for i, s := range v {
		if i == maxPrinted {
			p.b = append(p.b, " …"...)
			break
		}
		if i > 0 {
			p.b = append(p.b, ' ')
		}
		p.quoted(string(s))
	}
	p.b = append(p.b, ']')
}

func (p *printer) fields(name string, m Map) {
	if len(m) > 0 {
		p.name(name)
		p.value(m)
	}
}

func (p *printer) value(v any) {
	switch v := v.(type) {
	case nil:
		p.b = append(p.b, "null"...)
	case bool:
		p.b = strconv.AppendBool(p.b, v)
	case uint8:
		p.b = strconv.AppendUint(p.b, uint64(v), 10)
	case uint16:
		p.b = strconv.AppendUint(p.b, uint64(v), 10)
	case uint32:
		p.b = strconv.AppendUint(p.b, uint64(v), 10)
	case uint64:
		p.b = strconv.AppendUint(p.b, v, 10)
	case int8:
		p.b = strconv.AppendInt(p.b, int64(v), 10)
	case int16:
		p.b = strconv.AppendInt(p.b, int64(v), 10)
	case int32:
		p.b = strconv.AppendInt(p.b, int64(v), 10)
	case int64:
		p.b = strconv.AppendInt(p.b, v, 10)
	case float32:
		p.b = strconv.AppendFloat(p.b, float64(v), 'g', -1, 32)
	case float64:
		p.b = strconv.AppendFloat(p.b, v, 'g', -1, 64)
	case Char:
		p.b = strconv.AppendQuoteRuneToASCII(p.b, rune(v))
	case Timestamp:
		p.b = v.Time().AppendFormat(p.b, "2006-01-02T15:04:05.000Z")
	case UUID:
		p.b = append(p.b, v.String()...)
	case []byte:
		p.size(v)
	case string:
		p.quoted(v)
	case Symbol:
		p.quoted(string(v))
	case List:
		p.values(v)
	case Map:
		p.pairs(v)
	case Array:
		p.values(v.Values)
	case Described:
		p.value(v.Descriptor)
		p.b = append(p.b, ':')
		p.value(v.Value)
	case Opaque:
		p.size(v.Bytes)
	case Composite:
		p.composite(v)
	default:
		p.b = append(p.b, '?')
	}
}

func (p *printer) values(v []any) {
	p.b = append(p.b, '[')
	for i, e := range v {
		if i == maxPrinted {
			p.b = append(p.b, " …"...)
			break
		}
		if i > 0 {
			p.b = append(p.b, ' ')
		}
		p.value(e)
	}
	p.b = append(p.b, ']')
}

func (p *printer) pairs(m Map) {
	p.b = append(p.b, '{')
	for i, e := range m {
		if i == maxPrinted {
			p.b = append(p.b, " …"...)
			break
		}
		if i > 0 {
			p.b = append(p.b, ' ')
		}
		p.value(e.Key)
		p.b = append(p.b, ':')
		p.value(e.Value)
	}
	p.b = append(p.b, '}')
}

func (p *printer) composite(c Composite) {
	p.b = append(append(p.b, compositeName(c)...), '{')
	c.print(p)
	p.b = append(p.b, '}')
}

func (p *printer) state(s DeliveryState) {
	if s != nil {
		p.name("state")
		p.composite(s)
	}
}

func (p *printer) error(e *Error) {
	if e != nil {
		p.name("error")
		p.composite(e)
	}
}
