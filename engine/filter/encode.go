package filter

import (
	"encoding/binary"
	"math/big"
	"strconv"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Constructors of AMQP 1.0 part 1.6, as far as changes need them.
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
	codeList32     = 0xd0
	codeMap32      = 0xd1
)

// timeSpan describes a long of ticks of 100 ns: how Service Bus clients encode time spans.
const timeSpan = "com.microsoft:timespan"

// compound is a list or map being written: its size and count stand before its elements and are filled in behind them.
type compound struct {
	at    int // of the size
	count uint32
}

func beginCompound(dst *[]byte, code byte) compound {
	c := compound{at: len(*dst) + 1}
	*dst = append(*dst, code, 0, 0, 0, 0, 0, 0, 0, 0)
	return c
}

func (c *compound) end(dst []byte) {
	binary.BigEndian.PutUint32(dst[c.at:], uint32(len(dst)-c.at-4))
	binary.BigEndian.PutUint32(dst[c.at+4:], c.count)
}

// appendValue appends a value: an Int as int, or as long if it has more than 32 bits; an Instant as timestamp, cut to the
// millisecond; a Span as long of ticks described by com.microsoft:timespan; a Decimal as ulong if it is an integer that only
// a ulong holds, as messages bring them, and as decimal128 otherwise.
func appendValue(dst []byte, v event.Value) []byte {
	switch v.Type {
	case event.Bool:
		if v.Bits == 0 {
			return append(dst, codeFalse)
		}
		return append(dst, codeTrue)
	case event.Int:
		if n := int64(v.Bits); n == int64(int32(n)) {
			return binary.BigEndian.AppendUint32(append(dst, codeInt), uint32(n))
		}
		return binary.BigEndian.AppendUint64(append(dst, codeLong), v.Bits)
	case event.Long:
		return binary.BigEndian.AppendUint64(append(dst, codeLong), v.Bits)
	case event.Double:
		return binary.BigEndian.AppendUint64(append(dst, codeDouble), v.Bits)
	case event.Decimal:
		return appendDecimal(dst, v)
	case event.String:
		return appendString(dst, v.Text)
	case event.UUID:
		return append(append(dst, codeUUID), v.Text...)
	case event.Instant:
		return binary.BigEndian.AppendUint64(append(dst, codeTimestamp), uint64(event.FromTicks(int64(v.Bits))))
	case event.Span:
		dst = append(dst, codeDescribed, codeSym8, byte(len(timeSpan)))
		dst = append(append(dst, timeSpan...), codeLong)
		return binary.BigEndian.AppendUint64(dst, v.Bits)
	}
	return append(dst, codeNull)
}

func appendString(dst []byte, s string) []byte {
	if len(s) < 256 {
		return append(append(dst, codeStr8, byte(len(s))), s...)
	}
	return append(binary.BigEndian.AppendUint32(append(dst, codeStr32), uint32(len(s))), s...)
}

// appendDecimal writes IEEE 754 decimal128 with a binary coefficient: a sign, 14 bits of exponent, 113 of coefficient.
func appendDecimal(dst []byte, v event.Value) []byte {
	const bias, exponentAt = 6176, 49 // of the upper 64 bits
	if n, err := strconv.ParseUint(v.Text, 10, 64); err == nil && n > 1<<63-1 {
		return binary.BigEndian.AppendUint64(append(dst, codeUlong), n)
	}
	d := decimalOf(v)
	coef := new(big.Int).Abs(d.coef).FillBytes(make([]byte, 16))
	upper := binary.BigEndian.Uint64(coef) | uint64(d.exp+bias)<<exponentAt
	if d.coef.Sign() < 0 {
		upper |= 1 << 63
	}
	return append(binary.BigEndian.AppendUint64(append(dst, codeDecimal128), upper), coef[8:]...)
}
