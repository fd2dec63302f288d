package amqp

import "fmt"

// AppendValue appends v in its smallest encoding. A nil []byte is an empty binary, a nil List, Map or Array an empty one.
// It panics on a type that values.go does not list: that is a bug of the caller, as is a Symbol that is not ASCII.
func AppendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return AppendNull(dst)
	case bool:
		return AppendBool(dst, v)
	case uint8:
		return AppendUbyte(dst, v)
	case uint16:
		return AppendUshort(dst, v)
	case uint32:
		return AppendUint(dst, v)
	case uint64:
		return AppendUlong(dst, v)
	case int8:
		return AppendByte(dst, v)
	case int16:
		return AppendShort(dst, v)
	case int32:
		return AppendInt(dst, v)
	case int64:
		return AppendLong(dst, v)
	case float32:
		return AppendFloat(dst, v)
	case float64:
		return AppendDouble(dst, v)
	case Char:
		return AppendChar(dst, v)
	case Timestamp:
		return AppendTimestamp(dst, v)
	case UUID:
		return AppendUUID(dst, v)
	case []byte:
		return AppendBinary(dst, v)
	case string:
		return AppendString(dst, v)
	case Symbol:
		return AppendSymbol(dst, v)
	case List:
		return AppendList(dst, v)
	case Map:
		return AppendMap(dst, v)
	case Array:
		return AppendArray(dst, v)
	case Described:
		return AppendValue(AppendValue(append(dst, CodeDescribed), v.Descriptor), v.Value)
	case Opaque:
		return append(append(dst, v.Code), v.Bytes...)
	}
	panic(fmt.Sprintf("amqp: cannot encode a %T", v))
}

// AppendList appends a list, an empty one as list8.
func AppendList(dst []byte, v List) []byte {
	dst, mark := BeginList(dst)
	for _, e := range v {
		dst = AppendValue(dst, e)
	}
	return EndList(dst, mark, len(v))
}

// AppendMap appends a map in its order.
func AppendMap(dst []byte, v Map) []byte {
	dst, mark := BeginMap(dst)
	for _, p := range v {
		dst = AppendValue(AppendValue(dst, p.Key), p.Value)
	}
	return EndMap(dst, mark, len(v))
}
