package amqp

import (
	"encoding/binary"
	"math"
)

// The functions of this file append one value to dst and return the extended slice, in the smallest
// encoding the type has. They allocate only when dst is too small.

// AppendNull appends a null.
func AppendNull(dst []byte) []byte { return append(dst, CodeNull) }

// appendBool appends a boolean as one byte.
func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, CodeTrue)
	}
	return append(dst, CodeFalse)
}

// appendUbyte appends a ubyte.
func appendUbyte(dst []byte, v uint8) []byte { return append(dst, CodeUbyte, v) }

// appendUshort appends a ushort.
func appendUshort(dst []byte, v uint16) []byte {
	return append(dst, CodeUshort, byte(v>>8), byte(v))
}

// appendUint appends a uint.
func appendUint(dst []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(dst, CodeUint0)
	case v < 256:
		return append(dst, CodeSmallUint, byte(v))
	}
	return append(dst, CodeUint, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// appendUlong appends a ulong.
func appendUlong(dst []byte, v uint64) []byte {
	switch {
	case v == 0:
		return append(dst, CodeUlong0)
	case v < 256:
		return append(dst, CodeSmallUlong, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, CodeUlong), v)
}

// appendByte appends a byte, which in AMQP is signed.
func appendByte(dst []byte, v int8) []byte { return append(dst, CodeByte, byte(v)) }

// appendShort appends a short.
func appendShort(dst []byte, v int16) []byte { return append(dst, CodeShort, byte(v>>8), byte(v)) }

// AppendInt appends an int.
func AppendInt(dst []byte, v int32) []byte {
	if v == int32(int8(v)) {
		return append(dst, CodeSmallInt, byte(v))
	}
	return append(dst, CodeInt, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// appendLong appends a long.
func appendLong(dst []byte, v int64) []byte {
	if v == int64(int8(v)) {
		return append(dst, CodeSmallLong, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, CodeLong), uint64(v))
}

// appendFloat appends a float.
func appendFloat(dst []byte, v float32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, CodeFloat), math.Float32bits(v))
}

// appendDouble appends a double.
func appendDouble(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, CodeDouble), math.Float64bits(v))
}

// appendChar appends a char.
func appendChar(dst []byte, v Char) []byte {
	return binary.BigEndian.AppendUint32(append(dst, CodeChar), uint32(v))
}

// AppendTimestamp appends a timestamp.
func AppendTimestamp(dst []byte, v Timestamp) []byte {
	return binary.BigEndian.AppendUint64(append(dst, CodeTimestamp), uint64(v))
}

// AppendUUID appends a uuid.
func AppendUUID(dst []byte, v UUID) []byte { return append(append(dst, CodeUUID), v[:]...) }

// appendBinary appends a binary; a nil v is an empty one.
func appendBinary(dst, v []byte) []byte {
	return append(appendVariable(dst, CodeBin8, len(v)), v...)
}

// AppendString appends a string, which must be valid UTF-8.
func AppendString(dst []byte, v string) []byte {
	return append(appendVariable(dst, CodeStr8, len(v)), v...)
}

// AppendSymbol appends a symbol, which must be ASCII.
func AppendSymbol(dst []byte, v Symbol) []byte {
	return append(appendVariable(dst, CodeSym8, len(v)), v...)
}

// AppendDescriptor appends the descriptor code in its small form, 00 53 code. The described value
// follows it.
func AppendDescriptor(dst []byte, code byte) []byte {
	return append(dst, CodeDescribed, CodeSmallUlong, code)
}

// appendVariable appends the constructor and size of n bytes; the 32-bit constructors are 0x10
// above the 8-bit ones.
func appendVariable(dst []byte, code byte, n int) []byte {
	if n < 256 {
		return append(dst, code, byte(n))
	}
	return append(dst, code+0x10, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// AppendSection appends a section of a message: its descriptor and value, whose type AppendValue
// must know.
func AppendSection(dst []byte, code byte, value any) []byte {
	return AppendValue(AppendDescriptor(dst, code), value)
}

// AppendData appends a data section that holds body.
func AppendData(dst, body []byte) []byte {
	return appendBinary(AppendDescriptor(dst, SectionData), body)
}

// BeginList starts a list whose elements the caller appends next. The mark is for EndList.
func BeginList(dst []byte) (_ []byte, mark int) { return beginCompound(dst, CodeList32) }

// EndList ends the list begun at mark, of count elements. It never writes list0: a list without
// elements is a list8 of size 1 (wire-protocol 0.1).
func EndList(dst []byte, mark, count int) []byte { return endCompound(dst, mark, count) }

// BeginMap starts a map whose keys and values the caller appends in turn. The mark is for EndMap.
func BeginMap(dst []byte) (_ []byte, mark int) { return beginCompound(dst, CodeMap32) }

// EndMap ends the map begun at mark, of that many pairs.
func EndMap(dst []byte, mark, pairs int) []byte { return endCompound(dst, mark, 2*pairs) }

// A compound is written with room for the wide header and narrowed at the end if it turned out
// small:
//
//	wide    D0 | size 4 | count 4 | elements     size counts the count and the elements
//	narrow  C0 | size 1 | count 1 | elements     the same for maps with D1 and C1
const (
	wideHeader   = 9
	narrowHeader = 3
)

func beginCompound(dst []byte, code byte) ([]byte, int) {
	return append(dst, code, 0, 0, 0, 0, 0, 0, 0, 0), len(dst)
}

func endCompound(dst []byte, mark, count int) []byte {
	body := len(dst) - mark - wideHeader
	if body <= 254 && count <= 255 {
		dst[mark] -= 0x10
		dst[mark+1] = byte(body + 1)
		dst[mark+2] = byte(count)
		copy(dst[mark+narrowHeader:], dst[mark+wideHeader:])
		return dst[:mark+narrowHeader+body]
	}
	binary.BigEndian.PutUint32(dst[mark+1:], uint32(body+4))
	binary.BigEndian.PutUint32(dst[mark+5:], uint32(count))
	return dst
}
