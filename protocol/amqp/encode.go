package amqp

import "fmt"

// AppendValue appends v in its smallest encoding. A nil []byte is an empty binary, a nil List, Map
// or Array an empty one. It panics on a type that values.go does not list, and on a Symbol that is
// not ASCII: both are bugs of the caller.
func AppendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return AppendNull(dst)
	case bool:
		return appendBool(dst, v)
	case uint8:
		return appendUbyte(dst, v)
	case uint16:
		return appendUshort(dst, v)
	case uint32:
		return appendUint(dst, v)
	case uint64:
		return appendUlong(dst, v)
	case int8:
		return appendByte(dst, v)
	case int16:
		return appendShort(dst, v)
	case int32:
		return AppendInt(dst, v)
	case int64:
		return appendLong(dst, v)
	case float32:
		return appendFloat(dst, v)
	case float64:
		return appendDouble(dst, v)
	case Char:
		return appendChar(dst, v)
	case Timestamp:
		return AppendTimestamp(dst, v)
	case UUID:
		return AppendUUID(dst, v)
	case []byte:
		return appendBinary(dst, v)
	case string:
		return AppendString(dst, v)
	case Symbol:
		return AppendSymbol(dst, v)
	case List:
		return appendList(dst, v)
	case Map:
		return appendMap(dst, v)
	case Array:
		return appendArray(dst, v)
	case Described:
		return AppendValue(AppendValue(append(dst, CodeDescribed), v.Descriptor), v.Value)
	case Opaque:
		return append(append(dst, v.Code), v.Bytes...)
	}
	panic(fmt.Sprintf("amqp: cannot encode a %T", v))
}

// appendList appends a list, an empty one as list8.
func appendList(dst []byte, v List) []byte {
	dst, mark := BeginList(dst)
	for _, e := range v {
		dst = AppendValue(dst, e)
	}
	return EndList(dst, mark, len(v))
}

// appendMap appends a map in its order.
func appendMap(dst []byte, v Map) []byte {
	dst, mark := BeginMap(dst)
	for _, p := range v {
		dst = AppendValue(AppendValue(dst, p.Key), p.Value)
	}
	return EndMap(dst, mark, len(v))
}
