package amqp

import "encoding/hex"

// The Go types of AMQP 1.0 values (AMQP part 1.6). DecodeValue returns and AppendValue takes one of
//
//	nil bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float32 float64
//	Char Timestamp UUID []byte string Symbol List Map Array Described Opaque

// Symbol is an AMQP symbol: ASCII text from a fixed vocabulary. It is a separate type because
// clients tell symbols and strings apart (wire-protocol 9.2).
type Symbol string

// Char is one Unicode code point, 0 to 0x10FFFF. Lone surrogates are accepted: two client languages
// have 16-bit chars.
type Char rune

// Timestamp is a point in time in milliseconds since 1970-01-01 UTC; negative before. .NET sends
// 253402300800000 for "never" (wire-protocol 5.4).
type Timestamp int64

// UUID is 16 bytes in network order (RFC 4122). Delivery tags that hold lock tokens use another
// byte order (wire-protocol 4.5), so a UUID is not a delivery tag.
type UUID [16]byte

// String returns u in the usual form, 8-4-4-4-12 lower-case hexadecimal digits.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// List is an AMQP list: values of any types in order.
type List []any

// Pair is one entry of a Map.
type Pair struct{ Key, Value any }

// Map is an AMQP map in the order it has on the wire. Decoded maps have no duplicate keys, and keys
// are never lists, maps, arrays or described values.
type Map []Pair

// Get returns the value of the first entry whose key is the string or the Symbol key, because
// clients use either (wire-protocol 9.2). A nil Map has no entries.
func (m Map) Get(key string) (any, bool) {
	for _, p := range m {
		switch k := p.Key.(type) {
		case Symbol:
			if string(k) == key {
				return p.Value, true
			}
		case string:
			if k == key {
				return p.Value, true
			}
		}
	}
	return nil, false
}

// Array is an AMQP array: values that share one constructor, which is on the wire even if the array
// is empty.
type Array struct {
	// Elem is the constructor of the bare values, one of the Code constants. AppendValue widens a
	// narrow one (CodeSmallUint, CodeStr8, …) if a value does not fit.
	Elem byte
	// Descriptors holds the descriptors that every element has, outermost first. It is usually
	// empty: the elements are not described.
	Descriptors []any
	// Values holds the bare elements, all of the type that Elem says.
	Values []any
}

// Described is a value with a descriptor that gives it a meaning. The descriptor is a uint64 or a
// Symbol; all other types are reserved (AMQP 1.2) and refused by the decoder.
type Described struct{ Descriptor, Value any }

// Opaque is a value of a type that Go has no type for (decimal32, decimal64, decimal128): its
// constructor and its bytes, unchanged. [RawDecimal] reads them.
type Opaque struct {
	Code  byte
	Bytes []byte
}

// Opt is a field that may be null. It distinguishes null from zero without a pointer. The zero Opt
// is null.
type Opt[T any] struct {
	Value T    // zero unless Set
	Set   bool // false means null
}

// Some returns the Opt that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Or returns the value, or otherwise if it is null.
func (o Opt[T]) Or(otherwise T) T {
	if o.Set {
		return o.Value
	}
	return otherwise
}
