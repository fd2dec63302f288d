package amqp

import (
	"encoding/binary"
	"math"
)

// Fields of composites. A composite arrives as a list that may end after its last set field; its
// fields may be null (wire-protocol 9.1). So every function below first calls next, and returns
// zero if there is no value. Fields after the last known one are checked and ignored, as the real
// service's decoder does.

// fields reads the fields of composites.
type fields struct {
	reader
	left int        // fields not yet read of the innermost open composite
	last *lastState // of a Decoder; nil: not remembered
}

func newFields(src []byte, lim Limits) fields { return fields{reader: newReader(src, lim)} }

// scope is the place where reading the outer composite continues after the inner one.
type scope struct{ end, left int }

// openFields starts reading the list of a composite whose descriptor has been read.
func (r *fields) openFields() scope {
	s := scope{r.end, r.left}
	at := r.pos
	if r.described--; r.described < 0 {
		r.fail(at, "too many described values inside each other")
	}
	code, ok := r.constructor()
	if !ok {
		return s
	}
	switch code {
	case CodeList0:
		if r.shallow(at) {
			r.end, r.left = r.pos, 0
			r.depth--
		}
	case CodeList8, CodeList32:
		count, _, ok := r.enter(code)
		switch {
		case !ok:
		case count > r.end-r.pos:
			r.fail(at, "more elements than bytes")
		default:
			r.left = count
		}
	default:
		r.fail(at, "composite is not a list")
	}
	return s
}

// closeFields ends what openFields began.
func (r *fields) closeFields(s scope) {
	for ; r.left > 0 && r.err == nil; r.left-- {
		r.skip()
	}
	if r.err != nil {
		return
	}
	r.leave(s.end)
	r.left = s.left
	r.described++
}

// next reports whether the next field has a value, and passes over it if it is null.
func (r *fields) next() bool {
	if r.left == 0 {
		return false
	}
	r.left--
	if r.pos >= r.end {
		r.fail(r.pos, "value missing")
		return false
	}
	if r.src[r.pos] == CodeNull {
		r.pos++
		return false
	}
	return true
}

// require is next for a field that the composite must have (reliability S17).
func (r *fields) require(reason string) bool {
	if r.next() {
		return true
	}
	r.fail(r.pos, reason)
	return false
}

func (r *fields) boolField() bool { return r.next() && r.boolean() }

func (r *fields) optBool() (o Opt[bool]) {
	if r.next() {
		o = Some(r.boolean())
	}
	return o
}

func (r *fields) optUint8() (o Opt[uint8]) {
	if r.next() {
		o = Some(uint8(r.unsigned(math.MaxUint8)))
	}
	return o
}

func (r *fields) optUint16() (o Opt[uint16]) {
	if r.next() {
		o = Some(uint16(r.unsigned(math.MaxUint16)))
	}
	return o
}

func (r *fields) optUint32() (o Opt[uint32]) {
	if r.next() {
		o = Some(uint32(r.unsigned(math.MaxUint32)))
	}
	return o
}

func (r *fields) optUint64() (o Opt[uint64]) {
	if r.next() {
		o = Some(r.unsigned(math.MaxUint64))
	}
	return o
}

func (r *fields) optTimestamp() (o Opt[Timestamp]) {
	if !r.next() {
		return o
	}
	at := r.pos
	if code, _ := r.constructor(); code != CodeTimestamp {
		r.fail(at, "not a timestamp")
	} else if b := r.bytes(8); b != nil {
		o = Some(Timestamp(binary.BigEndian.Uint64(b)))
	}
	return o
}

func (r *fields) optReceiverMode() (o Opt[ReceiverSettleMode]) {
	if r.next() {
		o = Some(ReceiverSettleMode(r.unsigned(uint64(ReceiverSecond))))
	}
	return o
}

func (r *fields) optSenderMode() (o Opt[SenderSettleMode]) {
	if r.next() {
		o = Some(SenderSettleMode(r.unsigned(uint64(SenderMixed))))
	}
	return o
}

// uint32Field reads a required field; reason says which one is missing.
func (r *fields) uint32Field(reason string) uint32 {
	if !r.require(reason) {
		return 0
	}
	return uint32(r.unsigned(math.MaxUint32))
}

// roleField reads a role, which is required.
func (r *fields) roleField(reason string) Role {
	return Role(r.require(reason) && r.boolean())
}

func (r *fields) stringField() string {
	if !r.next() {
		return ""
	}
	at := r.pos
	code, _ := r.constructor()
	switch code {
	case CodeStr8, CodeStr32, CodeSym8, CodeSym32:
		return string(r.variable(code))
	}
	r.fail(at, "neither string nor symbol")
	return ""
}

func (r *fields) symbolField() Symbol {
	if !r.next() {
		return ""
	}
	return r.symbol()
}

// binaryField reads a binary; it returns nil for null, and an empty binary is not nil.
func (r *fields) binaryField() []byte {
	if !r.next() {
		return nil
	}
	b := r.binaryValue()
	if r.err != nil {
		return nil
	}
	return copied(b)
}

func (r *fields) anyField() any {
	if !r.next() {
		return nil
	}
	return r.value()
}

func (r *fields) mapField() Map {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code := r.src[at]; code != CodeMap8 && code != CodeMap32 {
		r.fail(at, "not a map")
		return nil
	}
	m, _ := r.value().(Map)
	return m
}

// symbolsField reads a field of multiple symbols: null, one symbol or an array of them (AMQP 1.4).
func (r *fields) symbolsField() []Symbol {
	if !r.next() {
		return nil
	}
	at := r.pos
	switch v := r.value().(type) {
	case Symbol:
		return []Symbol{v}
	case Array:
		symbols := make([]Symbol, 0, len(v.Values))
		for _, e := range v.Values {
			s, ok := e.(Symbol)
			if !ok {
				break
			}
			symbols = append(symbols, s)
		}
		switch {
		case len(symbols) != len(v.Values) || len(v.Descriptors) > 0:
		case len(symbols) == 0:
			return nil
		default:
			return symbols
		}
	}
	r.fail(at, "neither a symbol nor an array of symbols")
	return nil
}
