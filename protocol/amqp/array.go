package amqp

import (
	"encoding/binary"
	"fmt"
	"math"
)

// appendArray appends an array with the constructor a.Elem, or with its wide form if a value does
// not fit. It panics if a value is not of the constructor's type, which is a bug of the caller.
//
//	array8   E0 | size 1 | count 1 | constructor | elements    size counts everything after it
//	array32  F0 | size 4 | count 4 | constructor | elements
func appendArray(dst []byte, a Array) []byte {
	mark := len(dst)
	dst = append(dst, CodeArray32, 0, 0, 0, 0, 0, 0, 0, 0)
	return endCompound(appendArrayContent(dst, a), mark, len(a.Values))
}

// appendArrayContent appends the content after the count: descriptors, constructor, elements.
func appendArrayContent(dst []byte, a Array) []byte {
	for _, d := range a.Descriptors {
		dst = AppendValue(append(dst, CodeDescribed), d)
	}
	elem := a.Elem
	if isCompound(elem) && len(a.Values) > 0 {
		return appendCompoundElements(dst, elem, a.Values)
	}
	for !fitsAll(elem, a.Values) {
		elem = widened(elem)
	}
	dst = append(dst, elem)
	for _, v := range a.Values {
		dst = appendElement(dst, elem, v)
	}
	return dst
}

func isCompound(code byte) bool {
	return code == CodeList0 || code == CodeArray8 || code == CodeArray32 || code>>4 == 0xC || code>>4 == 0xD
}

// widened returns the constructor to try when values do not fit in code.
func widened(code byte) byte {
	switch code {
	case CodeTrue, CodeFalse:
		return CodeBool
	case CodeUint0:
		return CodeSmallUint
	case CodeSmallUint:
		return CodeUint
	case CodeUlong0:
		return CodeSmallUlong
	case CodeSmallUlong:
		return CodeUlong
	case CodeSmallInt:
		return CodeInt
	case CodeSmallLong:
		return CodeLong
	case CodeBin8, CodeStr8, CodeSym8:
		return code + 0x10
	}
	panic(fmt.Sprintf("amqp: array values do not fit the constructor %#02x", code))
}

func fitsAll(code byte, values []any) bool {
	for _, v := range values {
		if !fits(code, v) {
			return false
		}
	}
	return true
}

// fits reports whether v can be written with the constructor code. Wrong types do not fit, so they
// lead to the panic of widened.
func fits(code byte, v any) bool {
	switch v := v.(type) {
	case nil:
		return code == CodeNull
	case bool:
		return code == CodeBool || code == CodeTrue && v || code == CodeFalse && !v
	case uint8:
		return code == CodeUbyte
	case uint16:
		return code == CodeUshort
	case uint32:
		return code == CodeUint || code == CodeSmallUint && v < 256 || code == CodeUint0 && v == 0
	case uint64:
		return code == CodeUlong || code == CodeSmallUlong && v < 256 || code == CodeUlong0 && v == 0
	case int8:
		return code == CodeByte
	case int16:
		return code == CodeShort
	case int32:
		return code == CodeInt || code == CodeSmallInt && v == int32(int8(v))
	case int64:
		return code == CodeLong || code == CodeSmallLong && v == int64(int8(v))
	case float32:
		return code == CodeFloat
	case float64:
		return code == CodeDouble
	case Char:
		return code == CodeChar
	case Timestamp:
		return code == CodeTimestamp
	case UUID:
		return code == CodeUUID
	case []byte:
		return code == CodeBin32 || code == CodeBin8 && len(v) < 256
	case string:
		return code == CodeStr32 || code == CodeStr8 && len(v) < 256
	case Symbol:
		return code == CodeSym32 || code == CodeSym8 && len(v) < 256
	case Opaque:
		return code == v.Code
	}
	return false
}

// appendElement appends v without its constructor, which is code and fits.
func appendElement(dst []byte, code byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return dst
	case bool:
		if code != CodeBool {
			return dst
		}
		if v {
			return append(dst, 1)
		}
		return append(dst, 0)
	case uint8:
		return append(dst, v)
	case uint16:
		return binary.BigEndian.AppendUint16(dst, v)
	case uint32:
		return appendWidth(dst, code, uint64(v))
	case uint64:
		return appendWidth(dst, code, v)
	case int8:
		return append(dst, byte(v))
	case int16:
		return binary.BigEndian.AppendUint16(dst, uint16(v))
	case int32:
		return appendWidth(dst, code, uint64(v))
	case int64:
		return appendWidth(dst, code, uint64(v))
	case float32:
		return appendWidth(dst, code, uint64(math.Float32bits(v)))
	case float64:
		return appendWidth(dst, code, math.Float64bits(v))
	case Char:
		return appendWidth(dst, code, uint64(v))
	case Timestamp:
		return appendWidth(dst, code, uint64(v))
	case UUID:
		return append(dst, v[:]...)
	case []byte:
		return append(appendSize(dst, code, len(v)), v...)
	case string:
		return append(appendSize(dst, code, len(v)), v...)
	case Symbol:
		return append(appendSize(dst, code, len(v)), v...)
	case Opaque:
		return append(dst, v.Bytes...)
	}
	panic(fmt.Sprintf("amqp: cannot encode a %T in an array", v))
}

// appendWidth appends as many low bytes of v as the constructor's class has: none, one, four or
// eight.
func appendWidth(dst []byte, code byte, v uint64) []byte {
	switch code >> 4 {
	case 0x4:
		return dst
	case 0x5:
		return append(dst, byte(v))
	case 0x7:
		return binary.BigEndian.AppendUint32(dst, uint32(v))
	}
	return binary.BigEndian.AppendUint64(dst, v)
}

func appendSize(dst []byte, code byte, n int) []byte {
	if code>>4 == 0xA {
		return append(dst, byte(n))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// appendCompoundElements appends the constructor and the elements of an array of lists, maps or
// arrays. It writes all of them wide and narrows them afterwards if that is requested and possible:
// trying one width after the other would double the work at each level of nesting, and a client
// chooses the nesting.
func appendCompoundElements(dst []byte, code byte, values []any) []byte {
	constructor, empty, narrow := len(dst), true, true
	dst = append(dst, code)
	start := len(dst)
	for _, v := range values {
		mark := len(dst)
		dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
		var count int
		dst, count = appendCompoundContent(dst, code, v)
		body := len(dst) - mark - 8
		binary.BigEndian.PutUint32(dst[mark:], uint32(body+4))
		binary.BigEndian.PutUint32(dst[mark+4:], uint32(count))
		empty = empty && count == 0
		narrow = narrow && body <= 254 && count <= 255
	}
	switch {
	case code == CodeList0 && empty:
		return dst[:start]
	case code == CodeList0:
		code = CodeList8
	}
	wide := code>>4 == 0xD || code>>4 == 0xF
	if !wide && narrow {
		dst[constructor] = code
		return narrowElements(dst, start)
	}
	if !wide {
		code += 0x10
	}
	dst[constructor] = code
	return dst
}

// narrowElements rewrites the elements from start on, which have 4-byte sizes and counts, with
// 1-byte ones.
func narrowElements(dst []byte, start int) []byte {
	to := start
	for from := start; from < len(dst); {
		body := int(binary.BigEndian.Uint32(dst[from:])) - 4
		count := binary.BigEndian.Uint32(dst[from+4:])
		dst[to], dst[to+1] = byte(body+1), byte(count)
		copy(dst[to+2:], dst[from+8:from+8+body])
		to += 2 + body
		from += 8 + body
	}
	return dst[:to]
}

func appendCompoundContent(dst []byte, code byte, v any) (_ []byte, count int) {
	switch v := v.(type) {
	case List:
		if code == CodeList0 || code == CodeList8 || code == CodeList32 {
			for _, e := range v {
				dst = AppendValue(dst, e)
			}
			return dst, len(v)
		}
	case Map:
		if code == CodeMap8 || code == CodeMap32 {
			for _, p := range v {
				dst = AppendValue(AppendValue(dst, p.Key), p.Value)
			}
			return dst, 2 * len(v)
		}
	case Array:
		if code == CodeArray8 || code == CodeArray32 {
			return appendArrayContent(dst, v), len(v.Values)
		}
	}
	panic(fmt.Sprintf("amqp: a %T does not fit the array constructor %#02x", v, code))
}
