package amqp

import (
	"encoding/binary"
	"unicode/utf8"
)

// reader walks over encoded values and checks them. It allocates only for the error. The first
// error stays. After it every read returns zero values at once, so callers check err once, at the
// end.
type reader struct {
	src []byte
	pos int
	end int // end of the innermost open list, map or array

	elements  int // limit for one compound
	depth     int // compounds that may still be opened here
	described int // described values that may still be opened here
	zero      int // zero-width elements that may still come

	err *DecodeError
}

func newReader(src []byte, lim Limits) reader {
	lim = lim.orDefault()
	return reader{
		src: src, end: len(src),
		elements: lim.Elements, depth: lim.Depth, described: lim.Described, zero: lim.ZeroWidth,
	}
}

func (r *reader) fail(at int, reason string) {
	if r.err == nil {
		r.err = &DecodeError{Offset: at, Reason: reason}
	}
	r.pos = r.end
}

// constructor reads the constructor of the next value.
func (r *reader) constructor() (code byte, ok bool) {
	if r.pos >= r.end || r.err != nil {
		r.fail(r.pos, "value missing")
		return 0, false
	}
	code = r.src[r.pos]
	r.pos++
	return code, true
}

// bytes reads n bytes, aliasing the input.
func (r *reader) bytes(n int) []byte {
	if n > r.end-r.pos {
		r.fail(r.pos, "value cut short")
		return nil
	}
	b := r.src[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return b
}

// size reads a size of one byte or of four and checks it against the bytes left, in 64 bits
// (reliability S15).
func (r *reader) size(wide bool) (n int, ok bool) {
	at := r.pos
	v, ok := r.number(wide)
	if !ok {
		return 0, false
	}
	if v > uint64(r.end-r.pos) {
		r.fail(at, "size beyond the end")
		return 0, false
	}
	return int(v), true
}

func (r *reader) number(wide bool) (v uint64, ok bool) {
	if !wide {
		if b := r.bytes(1); b != nil {
			return uint64(b[0]), true
		}
		return 0, false
	}
	if b := r.bytes(4); b != nil {
		return uint64(binary.BigEndian.Uint32(b)), true
	}
	return 0, false
}

// skip reads one value and checks everything in it.
func (r *reader) skip() {
	if code, ok := r.constructor(); ok {
		r.skipBody(code)
	}
}

// skipBody reads the bytes after the constructor code.
func (r *reader) skipBody(code byte) {
	at := r.pos - 1
	switch code {
	case CodeNull, CodeTrue, CodeFalse, CodeUint0, CodeUlong0:
	case CodeList0:
		r.shallow(at)
	case CodeUbyte, CodeByte, CodeSmallUint, CodeSmallUlong, CodeSmallInt, CodeSmallLong:
		r.bytes(1)
	case CodeBool:
		if b := r.bytes(1); b != nil && b[0] > 1 {
			r.fail(at, "boolean is neither 0 nor 1")
		}
	case CodeUshort, CodeShort:
		r.bytes(2)
	case CodeUint, CodeInt, CodeFloat, CodeDecimal32:
		r.bytes(4)
	case CodeChar:
		if b := r.bytes(4); b != nil && binary.BigEndian.Uint32(b) > utf8.MaxRune {
			r.fail(at, "char is not a code point")
		}
	case CodeUlong, CodeLong, CodeDouble, CodeTimestamp, CodeDecimal64:
		r.bytes(8)
	case CodeDecimal128, CodeUUID:
		r.bytes(16)
	case CodeBin8, CodeBin32, CodeStr8, CodeStr32, CodeSym8, CodeSym32:
		r.variable(code)
	case CodeList8, CodeList32:
		r.skipList(code)
	case CodeMap8, CodeMap32:
		r.skipMap(code)
	case CodeArray8, CodeArray32:
		r.skipArray(code)
	case CodeDescribed:
		r.skipDescribed()
	default:
		r.fail(at, "unknown constructor")
	}
}

// variable reads the content of a binary, string or symbol, aliasing the input (reliability S17).
func (r *reader) variable(code byte) []byte {
	at := r.pos - 1
	n, ok := r.size(code>>4 == 0xB)
	if !ok {
		return nil
	}
	b := r.bytes(n)
	switch code {
	case CodeStr8, CodeStr32:
		if !utf8.Valid(b) {
			r.fail(at, "string is not UTF-8")
		}
	case CodeSym8, CodeSym32:
		if !isASCII(b) {
			r.fail(at, "symbol is not ASCII")
		}
	}
	return b
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// enter reads the size and count of a compound whose constructor is before pos, and limits the
// reader to the compound. ok is false after an error; otherwise leave must follow.
func (r *reader) enter(code byte) (count, outer int, ok bool) {
	at, wide := r.pos-1, code&0x10 != 0
	n, ok := r.size(wide)
	if !ok {
		return 0, 0, false
	}
	outer, r.end = r.end, r.pos+n
	c, ok := r.number(wide)
	switch {
	case !ok:
		return 0, 0, false
	case c > uint64(r.elements):
		r.fail(at, "too many elements")
		return 0, 0, false
	case !r.shallow(at):
		return 0, 0, false
	}
	r.depth--
	return int(c), outer, true
}

// shallow reports whether one more compound may be opened. A list0 counts as one, because it is
// encoded again as a list8.
func (r *reader) shallow(at int) bool {
	if r.depth <= 0 {
		r.fail(at, "nested too deep")
	}
	return r.depth > 0
}

// leave closes what enter opened.
func (r *reader) leave(outer int) {
	if r.err == nil && r.pos != r.end {
		r.fail(r.pos, "size and content of a compound differ")
	}
	r.end = outer
	r.depth++
}

func (r *reader) skipList(code byte) {
	at := r.pos - 1
	count, outer, ok := r.enter(code)
	if !ok {
		return
	}
	if count > r.end-r.pos {
		r.fail(at, "more elements than bytes")
	}
	for i := 0; i < count && r.err == nil; i++ {
		r.skip()
	}
	r.leave(outer)
}

func (r *reader) skipMap(code byte) {
	at := r.pos - 1
	count, outer, ok := r.enter(code)
	if !ok {
		return
	}
	switch {
	case count%2 != 0:
		r.fail(at, "map with an odd count")
	case count > r.end-r.pos:
		r.fail(at, "more elements than bytes")
	}
	start := r.pos
	for i := 0; i < count && r.err == nil; i += 2 {
		r.skipKey()
		r.skip()
	}
	if r.err == nil && !uniqueKeys(r.src[start:r.pos], count/2) {
		r.fail(at, "map with a key twice")
	}
	r.leave(outer)
}

// skipKey reads a map key. Only simple values are accepted: a client that keeps decoded maps in a
// hash table cannot hold others.
func (r *reader) skipKey() {
	at := r.pos
	code, ok := r.constructor()
	if !ok {
		return
	}
	if code == CodeDescribed || isCompound(code) {
		r.fail(at, "map key is not a simple value")
		return
	}
	r.skipBody(code)
}

func (r *reader) skipArray(code byte) {
	at := r.pos - 1
	count, outer, ok := r.enter(code)
	if !ok {
		return
	}
	// The descriptors of the elements are before the constructor that all share, and stay open for
	// each of them.
	descriptors := 0
	elem, ok := r.constructor()
	for ok && elem == CodeDescribed {
		r.skipDescriptor()
		descriptors++
		elem, ok = r.constructor()
	}
	if ok {
		r.skipElements(at, elem, count)
	}
	r.described += descriptors
	r.leave(outer)
}

// skipElements reads count elements after their constructor elem, of the array that begins at at.
func (r *reader) skipElements(at int, elem byte, count int) {
	width := elementWidth(elem)
	switch {
	case width == unknownWidth:
		r.fail(r.pos-1, "unknown constructor")
		return
	case width == 0:
		// Such elements take no bytes, so a separate total bounds their number (reliability S19).
		if r.zero -= count; r.zero < 0 {
			r.fail(at, "too many elements without bytes")
		}
		if elem == CodeList0 {
			r.shallow(at)
		}
		return
	case count > r.end-r.pos:
		r.fail(at, "more elements than bytes")
		return
	case width > 0 && elem != CodeBool && elem != CodeChar:
		if uint64(count)*uint64(width) > uint64(r.end-r.pos) {
			r.fail(at, "more elements than bytes")
			return
		}
		r.pos += count * width
		return
	}
	for i := 0; i < count && r.err == nil; i++ {
		r.skipBody(elem)
	}
}

// Results of elementWidth that are not a number of bytes.
const (
	variableWidth = -1
	unknownWidth  = -2
)

// elementWidth returns the number of bytes of a value after the constructor code.
func elementWidth(code byte) int {
	switch code {
	case CodeNull, CodeTrue, CodeFalse, CodeUint0, CodeUlong0, CodeList0:
		return 0
	case CodeUbyte, CodeByte, CodeSmallUint, CodeSmallUlong, CodeSmallInt, CodeSmallLong, CodeBool:
		return 1
	case CodeUshort, CodeShort:
		return 2
	case CodeUint, CodeInt, CodeFloat, CodeDecimal32, CodeChar:
		return 4
	case CodeUlong, CodeLong, CodeDouble, CodeTimestamp, CodeDecimal64:
		return 8
	case CodeDecimal128, CodeUUID:
		return 16
	case CodeBin8, CodeBin32, CodeStr8, CodeStr32, CodeSym8, CodeSym32,
		CodeList8, CodeList32, CodeMap8, CodeMap32, CodeArray8, CodeArray32:
		return variableWidth
	}
	return unknownWidth
}

func (r *reader) skipDescribed() {
	r.skipDescriptor()
	r.skip()
	r.described++
}

// skipDescriptor reads a descriptor after its 00 and counts it down from described; the caller adds
// it again. Descriptors of types other than ulong and symbol are reserved (AMQP 1.2).
func (r *reader) skipDescriptor() {
	at := r.pos
	r.described--
	if r.described < 0 {
		r.fail(at, "too many described values inside each other")
		return
	}
	code, ok := r.constructor()
	if !ok {
		return
	}
	switch code {
	case CodeUlong0, CodeSmallUlong, CodeUlong, CodeSym8, CodeSym32:
		r.skipBody(code)
	default:
		r.fail(at, "descriptor is neither ulong nor symbol")
	}
}
