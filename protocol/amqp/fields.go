package amqp

import (
	"encoding/binary"
	"math"
)

// Fields of composites. A composite arrives as a list that may be cut after its last set field; its fields may be null
// (wire-protocol 9.1). So every function below first asks next whether there is a value, and has a zero result if not.
// Fields behind the last one known are checked and ignored, as the real service's decoder does.

// scope is what the fields of an outer composite continue with.
type scope struct{ end, left int }

// openFields starts reading the list of a composite whose descriptor has been read.
func (r *reader) openFields() scope {
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
func (r *reader) closeFields(s scope) {
	for r.left > 0 {
		r.left--
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
func (r *reader) next() bool {
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

// require is next for a field without which the composite has no meaning (reliability S17).
func (r *reader) require(reason string) bool {
	if r.next() {
		return true
	}
	r.fail(r.pos, reason)
	return false
}

// boolean reads a boolean that next has announced.
func (r *reader) boolean() bool {
	at := r.pos
	switch code, _ := r.constructor(); code {
	case CodeTrue:
		return true
	case CodeFalse:
		return false
	case CodeBool:
		if b := r.bytes(1); b != nil && b[0] <= 1 {
			return b[0] == 1
		}
	}
	r.fail(at, "not a boolean")
	return false
}

// unsigned reads an unsigned integer of any width up to limit that next has announced.
func (r *reader) unsigned(limit uint64) (v uint64) {
	at := r.pos
	code, _ := r.constructor()
	switch code {
	case CodeUint0, CodeUlong0:
	case CodeUbyte, CodeSmallUint, CodeSmallUlong:
		if b := r.bytes(1); b != nil {
			v = uint64(b[0])
		}
	case CodeUshort:
		if b := r.bytes(2); b != nil {
			v = uint64(binary.BigEndian.Uint16(b))
		}
	case CodeUint:
		if b := r.bytes(4); b != nil {
			v = uint64(binary.BigEndian.Uint32(b))
		}
	case CodeUlong:
		if b := r.bytes(8); b != nil {
			v = binary.BigEndian.Uint64(b)
		}
	default:
		r.fail(at, "not an unsigned integer")
	}
	if v > limit {
		r.fail(at, "number too large for its field")
		return 0
	}
	return v
}

// text reads a string or symbol that next has announced, aliasing the input. Clients mix the two up.
func (r *reader) text() []byte {
	at := r.pos
	switch code, _ := r.constructor(); code {
	case CodeStr8, CodeStr32, CodeSym8, CodeSym32:
		return r.variable(code)
	}
	r.fail(at, "neither string nor symbol")
	return nil
}

// binaryValue reads a binary that next has announced, aliasing the input.
func (r *reader) binaryValue() []byte {
	at := r.pos
	switch code, _ := r.constructor(); code {
	case CodeBin8, CodeBin32:
		return r.variable(code)
	}
	r.fail(at, "not binary")
	return nil
}

func (r *reader) boolField() bool { return r.next() && r.boolean() }

func (r *reader) optBool() (o Opt[bool]) {
	if r.next() {
		o = Some(r.boolean())
	}
	return o
}

func (r *reader) optUint8() (o Opt[uint8]) {
	if r.next() {
		o = Some(uint8(r.unsigned(math.MaxUint8)))
	}
	return o
}

func (r *reader) optUint16() (o Opt[uint16]) {
	if r.next() {
		o = Some(uint16(r.unsigned(math.MaxUint16)))
	}
	return o
}

func (r *reader) optUint32() (o Opt[uint32]) {
	if r.next() {
		o = Some(uint32(r.unsigned(math.MaxUint32)))
	}
	return o
}

func (r *reader) optUint64() (o Opt[uint64]) {
	if r.next() {
		o = Some(r.unsigned(math.MaxUint64))
	}
	return o
}

func (r *reader) optTimestamp() (o Opt[Timestamp]) {
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

func (r *reader) optReceiverMode() (o Opt[ReceiverSettleMode]) {
	if r.next() {
		o = Some(ReceiverSettleMode(r.unsigned(uint64(ReceiverSecond))))
	}
	return o
}

func (r *reader) optSenderMode() (o Opt[SenderSettleMode]) {
	if r.next() {
		o = Some(SenderSettleMode(r.unsigned(uint64(SenderMixed))))
	}
	return o
}

// uint32Field reads a field that must be there; reason says which is missing.
func (r *reader) uint32Field(reason string) uint32 {
	if !r.require(reason) {
		return 0
	}
	return uint32(r.unsigned(math.MaxUint32))
}

// roleField reads a role, which must be there.
func (r *reader) roleField(reason string) Role {
	return Role(r.require(reason) && r.boolean())
}

func (r *reader) stringField() string {
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

func (r *reader) symbolField() Symbol {
	if !r.next() {
		return ""
	}
	return r.symbol()
}

// symbol reads a symbol, or a string in its place, that next has announced.
func (r *reader) symbol() Symbol {
	at := r.pos
	b := r.text()
	if !isASCII(b) {
		r.fail(at, "symbol is not ASCII")
		return ""
	}
	return Symbol(b)
}

// binaryField is nil for null; an empty binary is not nil.
func (r *reader) binaryField() []byte {
	if !r.next() {
		return nil
	}
	b := r.binaryValue()
	if r.err != nil {
		return nil
	}
	return copied(b)
}

func (r *reader) anyField() any {
	if !r.next() {
		return nil
	}
	return r.value()
}

func (r *reader) mapField() Map {
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
func (r *reader) symbolsField() []Symbol {
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

// compositeCode reads the descriptor of a composite of this package, as ulong or symbol, and returns its code.
func (r *reader) compositeCode() (code byte, ok bool) {
	at := r.pos
	if b := r.src[r.pos:r.end]; len(b) >= 3 && b[0] == CodeDescribed && b[1] == CodeSmallUlong { // nearly always
		r.pos += 3
		return b[2], true
	}
	if c, ok := r.constructor(); !ok || c != CodeDescribed {
		r.fail(at, "descriptor missing")
		return 0, false
	}
	c, ok := r.constructor()
	if !ok {
		return 0, false
	}
	switch c {
	case CodeUlong0, CodeUlong:
		r.pos--
		if v := r.unsigned(math.MaxUint64); r.err == nil && v <= math.MaxUint8 {
			return byte(v), true
		}
	case CodeSym8, CodeSym32:
		if b := r.variable(c); r.err == nil {
			if code, ok := symbolicDescriptor(b); ok {
				return code, true
			}
		}
	}
	r.fail(at, "unknown descriptor")
	return 0, false
}

// symbolicDescriptor returns the code of a descriptor that is spelled as a symbol.
func symbolicDescriptor(b []byte) (code byte, ok bool) {
	switch string(b) {
	case "amqp:open:list":
		code = descOpen
	case "amqp:begin:list":
		code = descBegin
	case "amqp:attach:list":
		code = descAttach
	case "amqp:flow:list":
		code = descFlow
	case "amqp:transfer:list":
		code = descTransfer
	case "amqp:disposition:list":
		code = descDisposition
	case "amqp:detach:list":
		code = descDetach
	case "amqp:end:list":
		code = descEnd
	case "amqp:close:list":
		code = descClose
	case "amqp:error:list":
		code = descError
	case "amqp:received:list":
		code = descReceived
	case "amqp:accepted:list":
		code = descAccepted
	case "amqp:rejected:list":
		code = descRejected
	case "amqp:released:list":
		code = descReleased
	case "amqp:modified:list":
		code = descModified
	case "amqp:source:list":
		code = descSource
	case "amqp:target:list":
		code = descTarget
	case "amqp:coordinator:list":
		code = descCoordinator
	case "amqp:declare:list":
		code = descDeclare
	case "amqp:discharge:list":
		code = descDischarge
	case "amqp:declared:list":
		code = descDeclared
	case "amqp:transactional-state:list":
		code = descTransactionalState
	case "amqp:sasl-mechanisms:list":
		code = descSASLMechanisms
	case "amqp:sasl-init:list":
		code = descSASLInit
	case "amqp:sasl-challenge:list":
		code = descSASLChallenge
	case "amqp:sasl-response:list":
		code = descSASLResponse
	case "amqp:sasl-outcome:list":
		code = descSASLOutcome
	case "amqp:header:list":
		code = SectionHeader
	case "amqp:delivery-annotations:map":
		code = SectionDeliveryAnnotations
	case "amqp:message-annotations:map":
		code = SectionMessageAnnotations
	case "amqp:properties:list":
		code = SectionProperties
	case "amqp:application-properties:map":
		code = SectionApplicationProperties
	case "amqp:data:binary":
		code = SectionData
	case "amqp:amqp-sequence:list":
		code = SectionSequence
	case "amqp:amqp-value:*":
		code = SectionValue
	case "amqp:footer:map":
		code = SectionFooter
	default:
		return 0, false
	}
	return code, true
}
