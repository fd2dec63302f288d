package amqp

import (
	"encoding/binary"
	"math"
)

// The functions of this file read single encoded values without building them. None of them
// allocates or panics; if the bytes are not a value they return false.

// RawSize returns the number of bytes of the encoded value at the start of b, including
// descriptors, or -1 if there is no whole one. It trusts the sizes of compounds and does not read
// their content.
func RawSize(b []byte) int {
	at := 0
	for at < len(b) && b[at] == CodeDescribed {
		n := plainLen(b[at+1:])
		if n < 0 {
			return -1
		}
		at += 1 + n
	}
	if n := plainLen(b[at:]); n >= 0 {
		return at + n
	}
	return -1
}

// plainLen is RawSize for values that are not described. The size of an array counts, like that of
// a list, everything after it.
func plainLen(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	n := elementWidth(b[0])
	switch {
	case n >= 0:
		n++
	case n == unknownWidth:
		return -1
	case b[0]&0x10 == 0:
		if len(b) < 2 {
			return -1
		}
		n = 2 + int(b[1])
	default:
		if len(b) < 5 {
			return -1
		}
		size := binary.BigEndian.Uint32(b[1:])
		if uint64(size) > uint64(len(b)) {
			return -1
		}
		n = 5 + int(size)
	}
	if n > len(b) {
		return -1
	}
	return n
}

// RawIsNull reports whether raw is a null.
func RawIsNull(raw []byte) bool { return len(raw) > 0 && raw[0] == CodeNull }

// RawBool returns the value of an encoded boolean.
func RawBool(raw []byte) (v, ok bool) {
	switch {
	case len(raw) >= 1 && raw[0] == CodeTrue:
		return true, true
	case len(raw) >= 1 && raw[0] == CodeFalse:
		return false, true
	case len(raw) >= 2 && raw[0] == CodeBool:
		return raw[1] != 0, raw[1] <= 1
	}
	return false, false
}

// RawInt returns the value of an encoded integer of any width and signedness; a ulong above the
// largest long is not ok.
func RawInt(raw []byte) (v int64, ok bool) {
	if plainLen(raw) < 0 {
		return 0, false
	}
	switch raw[0] {
	case CodeUint0, CodeUlong0:
		return 0, true
	case CodeUbyte, CodeSmallUint, CodeSmallUlong:
		return int64(raw[1]), true
	case CodeByte, CodeSmallInt, CodeSmallLong:
		return int64(int8(raw[1])), true
	case CodeUshort:
		return int64(binary.BigEndian.Uint16(raw[1:])), true
	case CodeShort:
		return int64(int16(binary.BigEndian.Uint16(raw[1:]))), true
	case CodeUint:
		return int64(binary.BigEndian.Uint32(raw[1:])), true
	case CodeInt:
		return int64(int32(binary.BigEndian.Uint32(raw[1:]))), true
	case CodeUlong:
		u := binary.BigEndian.Uint64(raw[1:])
		return int64(u), u <= math.MaxInt64
	case CodeLong:
		return int64(binary.BigEndian.Uint64(raw[1:])), true
	}
	return 0, false
}

// RawTimestamp returns the value of an encoded timestamp.
func RawTimestamp(raw []byte) (v Timestamp, ok bool) {
	if len(raw) < 9 || raw[0] != CodeTimestamp {
		return 0, false
	}
	return Timestamp(binary.BigEndian.Uint64(raw[1:])), true
}

// RawUUID returns the value of an encoded uuid.
func RawUUID(raw []byte) (v UUID, ok bool) {
	if len(raw) < 17 || raw[0] != CodeUUID {
		return UUID{}, false
	}
	return UUID(raw[1:17]), true
}

// RawText returns the bytes of an encoded string or symbol. They alias raw.
func RawText(raw []byte) (v []byte, ok bool) {
	if len(raw) == 0 {
		return nil, false
	}
	switch raw[0] {
	case CodeStr8, CodeStr32, CodeSym8, CodeSym32:
		return rawContent(raw)
	}
	return nil, false
}

// RawBinary returns the bytes of an encoded binary. They alias raw.
func RawBinary(raw []byte) (v []byte, ok bool) {
	if len(raw) == 0 || raw[0] != CodeBin8 && raw[0] != CodeBin32 {
		return nil, false
	}
	return rawContent(raw)
}

// RawElements returns the encoded elements of a list, or keys and values of a map, in a row; nil if
// raw is neither. They alias raw.
func RawElements(raw []byte) []byte {
	n := plainLen(raw)
	switch {
	case n < 0:
		return nil
	case (raw[0] == CodeList8 || raw[0] == CodeMap8) && n >= narrowHeader:
		return raw[narrowHeader:n:n]
	case (raw[0] == CodeList32 || raw[0] == CodeMap32) && n >= wideHeader:
		return raw[wideHeader:n:n]
	}
	return nil
}

// rawContent returns the content of a binary, string or symbol.
func rawContent(raw []byte) ([]byte, bool) {
	n := plainLen(raw)
	if n < 0 {
		return nil, false
	}
	if raw[0]&0x10 == 0 {
		return raw[2:n:n], true
	}
	return raw[5:n:n], true
}
