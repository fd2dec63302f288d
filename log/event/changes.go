package event

import (
	"encoding/binary"
	"math/big"
	"strconv"
)

// Changes are application properties that are added to a message or replaced, in order.
type Changes []Property

// RuleChanges are what the action of a rule makes of a copy of a message. They are applied in the order of the fields, the removals
// first; names are exact.
type RuleChanges struct {
	Removed []string // application properties
	Set     Changes  // with what the broker adds
	System  Changes  // by the names that SQL filters have for them; null: removed
}

// Encoded is the type of a value that the protocol has encoded, in Text: rules carry it and do not look into it. It stands in [Changes]
// alone, not in rules or messages that filters see.
const Encoded ValueType = 254

// The form of property changes in a log is that of AMQP 1.0 part 1.6, as docs/log-format.md says: what a reader passes on to a client
// needs no second encoding. These are the constructors that changes need.
const (
	codeDescribed  = 0x00
	codeNull       = 0x40
	codeTrue       = 0x41
	codeFalse      = 0x42
	codeInt        = 0x71
	codeUlong      = 0x80
	codeLong       = 0x81
	codeDouble     = 0x82
	codeTimestamp  = 0x83 // ms since 1970
	codeDecimal128 = 0x94
	codeUUID       = 0x98
	codeStr8       = 0xa1
	codeSym8       = 0xa3
	codeStr32      = 0xb1
	codeMap8       = 0xc1
	codeList32     = 0xd0
	codeMap32      = 0xd1
)

// timeSpan describes a long of ticks of 100 ns: how Service Bus clients encode time spans.
const timeSpan = "com.microsoft:timespan"

// compoundHeader is how many bytes a list or map has before its first element, a short one [shortHeader].
const (
	compoundHeader = 9
	shortHeader    = 3
)

// Size is how many bytes [Changes.Append] appends.
func (c Changes) Size() int {
	n := compoundHeader
	for i := range c {
		n += c[i].size()
	}
	return n
}

// Append appends the form that changes have in a log: a map.
func (c Changes) Append(dst []byte) []byte {
	m := beginCompound(&dst, codeMap32)
	for i := range c {
		dst = appendValue(appendText(dst, c[i].Name), c[i].Value)
	}
	m.end(dst, 2*len(c))
	return dst
}

// AppendShort is Append, with the header of a short map where that will do: 6 bytes less. A log has had both forms from the beginning,
// this one for what clients ask for, and the sizes of both count in a limit.
func (c Changes) AppendShort(dst []byte) []byte {
	body := c.Size() - compoundHeader
	if body > 254 || 2*len(c) > 255 {
		return c.Append(dst)
	}
	dst = append(dst, codeMap8, byte(body+1), byte(2*len(c)))
	for i := range c {
		dst = appendValue(appendText(dst, c[i].Name), c[i].Value)
	}
	return dst
}

// Append appends the form that changes have in a log: a list of a map of what is set, a list of names of what is removed, and a map of
// system properties.
func (c *RuleChanges) Append(dst []byte) []byte {
	list := beginCompound(&dst, codeList32)
	dst = c.Set.Append(dst)
	names := beginCompound(&dst, codeList32)
	for _, name := range c.Removed {
		dst = appendText(dst, name)
	}
	names.end(dst, len(c.Removed))
	dst = c.System.Append(dst)
	list.end(dst, 3)
	return dst
}

// size is how many bytes a property takes.
func (p *Property) size() int {
	switch n := textSize(p.Name); p.Value.Type {
	case String:
		return n + textSize(p.Value.Text)
	case Encoded:
		return n + len(p.Value.Text)
	default:
		return n + len(appendValue(nil, p.Value))
	}
}

// compound is where a list or map stands that is being written: its size and count are filled in behind its elements.
type compound int

func beginCompound(dst *[]byte, code byte) compound {
	at := compound(len(*dst))
	*dst = append(*dst, code, 0, 0, 0, 0, 0, 0, 0, 0)
	return at
}

func (at compound) end(dst []byte, elements int) {
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-int(at)-5))
	binary.BigEndian.PutUint32(dst[at+5:], uint32(elements))
}

// appendValue appends a value: an Int as int, or as long if it has more than 32 bits; an Instant as timestamp, cut to the
// millisecond; a Span as long of ticks described by com.microsoft:timespan; a Decimal as ulong if it is an integer that only
// a ulong holds, as messages bring them, and as decimal128 otherwise. What has no form is null.
func appendValue(dst []byte, v Value) []byte {
	switch v.Type {
	case Encoded:
		return append(dst, v.Text...)
	case Bool:
		if v.Bits == 0 {
			return append(dst, codeFalse)
		}
		return append(dst, codeTrue)
	case Int:
		if n := int64(v.Bits); n == int64(int32(n)) {
			return binary.BigEndian.AppendUint32(append(dst, codeInt), uint32(n))
		}
		return binary.BigEndian.AppendUint64(append(dst, codeLong), v.Bits)
	case Long:
		return binary.BigEndian.AppendUint64(append(dst, codeLong), v.Bits)
	case Double:
		return binary.BigEndian.AppendUint64(append(dst, codeDouble), v.Bits)
	case Decimal:
		return appendDecimal(dst, v)
	case String:
		return appendText(dst, v.Text)
	case UUID:
		return append(append(dst, codeUUID), v.Text...)
	case Instant:
		return binary.BigEndian.AppendUint64(append(dst, codeTimestamp), uint64(FromTicks(int64(v.Bits))))
	case Span:
		dst = append(dst, codeDescribed, codeSym8, byte(len(timeSpan)))
		dst = append(append(dst, timeSpan...), codeLong)
		return binary.BigEndian.AppendUint64(dst, v.Bits)
	}
	return append(dst, codeNull)
}

func textSize(s string) int {
	if len(s) < 256 {
		return 2 + len(s)
	}
	return 5 + len(s)
}

func appendText(dst []byte, s string) []byte {
	if len(s) < 256 {
		return append(append(dst, codeStr8, byte(len(s))), s...)
	}
	return append(binary.BigEndian.AppendUint32(append(dst, codeStr32), uint32(len(s))), s...)
}

// appendDecimal writes IEEE 754 decimal128 with a binary coefficient: a sign, 14 bits of exponent, 113 of coefficient.
func appendDecimal(dst []byte, v Value) []byte {
	const bias, exponentAt = 6176, 49 // of the upper 64 bits
	if n, err := strconv.ParseUint(v.Text, 10, 64); err == nil && n > 1<<63-1 {
		return binary.BigEndian.AppendUint64(append(dst, codeUlong), n)
	}
	coef, exp, ok := v.Decimal()
	if !ok {
		coef, exp = big.NewInt(int64(v.Bits)), 0
	}
	digits := new(big.Int).Abs(coef).FillBytes(make([]byte, 16))
	upper := binary.BigEndian.Uint64(digits) | uint64(exp+bias)<<exponentAt
	if coef.Sign() < 0 {
		upper |= 1 << 63
	}
	return append(binary.BigEndian.AppendUint64(append(dst, codeDecimal128), upper), digits[8:]...)
}
