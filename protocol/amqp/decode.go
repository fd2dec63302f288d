package amqp

import (
	"encoding/binary"
	"math"
)

// SkipValue checks the value at the start of src and returns the bytes after it. It accepts and
// refuses exactly what DecodeValue does. It allocates only a scratch buffer, which is reused, for a
// map of more than 16 keys. An error is a *DecodeError.
func SkipValue(src []byte, lim Limits) (rest []byte, err error) {
	r := newReader(src, lim)
	r.skip()
	if r.err != nil {
		return nil, r.err
	}
	return src[r.pos:], nil
}

// DecodeValue decodes the value at the start of src and returns the bytes after it. The value is a
// copy and does not alias src. The whole value is checked before memory is taken for any part of it
// (reliability S15); it then takes up to about 24 bytes for each byte of input, so message bodies
// should stay encoded. An error is a *DecodeError.
func DecodeValue(src []byte, lim Limits) (v any, rest []byte, err error) {
	r := newReader(src, lim)
	v = r.value()
	if r.err != nil {
		return nil, nil, r.err
	}
	return v, src[r.pos:], nil
}

// value reads any value: first it checks everything, then it builds the value.
func (r *reader) value() any {
	start := r.pos
	r.skip()
	if r.err != nil {
		return nil
	}
	r.pos = start
	return r.build()
}

// build builds the value at pos, which skip has passed.
func (r *reader) build() any {
	code := r.src[r.pos]
	r.pos++
	return r.buildBody(code)
}

// buildBody builds the value whose constructor is code and whose bytes are at pos.
func (r *reader) buildBody(code byte) any {
	switch code {
	case CodeList0:
		return List{}
	case CodeList8, CodeList32:
		return r.buildList(code)
	case CodeMap8, CodeMap32:
		return r.buildMap(code)
	case CodeArray8, CodeArray32:
		return r.buildArray(code)
	case CodeDescribed:
		descriptor := r.build()
		return Described{Descriptor: descriptor, Value: r.build()}
	case CodeBin8, CodeBin32:
		return copied(r.variable(code))
	case CodeStr8, CodeStr32:
		return string(r.variable(code))
	case CodeSym8, CodeSym32:
		return Symbol(r.variable(code))
	}
	return buildFixed(code, r.bytes(elementWidth(code)))
}

// buildFixed builds a value of fixed width from its bytes.
func buildFixed(code byte, b []byte) any {
	switch code {
	case CodeNull:
		return nil
	case CodeTrue:
		return true
	case CodeFalse:
		return false
	case CodeBool:
		return b[0] != 0
	case CodeUint0:
		return uint32(0)
	case CodeUlong0:
		return uint64(0)
	case CodeUbyte:
		return b[0]
	case CodeByte:
		return int8(b[0])
	case CodeSmallUint:
		return uint32(b[0])
	case CodeSmallUlong:
		return uint64(b[0])
	case CodeSmallInt:
		return int32(int8(b[0]))
	case CodeSmallLong:
		return int64(int8(b[0]))
	case CodeUshort:
		return binary.BigEndian.Uint16(b)
	case CodeShort:
		return int16(binary.BigEndian.Uint16(b))
	case CodeUint:
		return binary.BigEndian.Uint32(b)
	case CodeInt:
		return int32(binary.BigEndian.Uint32(b))
	case CodeFloat:
		return math.Float32frombits(binary.BigEndian.Uint32(b))
	case CodeChar:
		return Char(binary.BigEndian.Uint32(b))
	case CodeUlong:
		return binary.BigEndian.Uint64(b)
	case CodeLong:
		return int64(binary.BigEndian.Uint64(b))
	case CodeDouble:
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	case CodeTimestamp:
		return Timestamp(binary.BigEndian.Uint64(b))
	case CodeUUID:
		return UUID(b)
	}
	// the decimals: skip accepts no others
	return Opaque{Code: code, Bytes: append([]byte(nil), b...)}
}

// beginBuild reads the size and count of a compound that skip has passed.
func (r *reader) beginBuild(code byte) (count int) {
	wide := code&0x10 != 0
	r.number(wide)
	n, _ := r.number(wide)
	return int(n)
}

func (r *reader) buildList(code byte) List {
	v := make(List, r.beginBuild(code))
	for i := range v {
		v[i] = r.build()
	}
	return v
}

func (r *reader) buildMap(code byte) Map {
	v := make(Map, r.beginBuild(code)/2)
	for i := range v {
		v[i].Key = r.build()
		v[i].Value = r.build()
	}
	return v
}

func (r *reader) buildArray(code byte) Array {
	v := Array{Values: make([]any, r.beginBuild(code))}
	for {
		v.Elem = r.src[r.pos]
		r.pos++
		if v.Elem != CodeDescribed {
			break
		}
		v.Descriptors = append(v.Descriptors, r.build())
	}
	for i := range v.Values {
		v.Values[i] = r.buildBody(v.Elem)
	}
	return v
}

// copied returns a copy of b that is never nil.
func copied(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }
