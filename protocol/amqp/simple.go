package amqp

import (
	"encoding/binary"
	"math"
)

// Values of one type, or of another type that clients are known to send in its place.

// boolean reads a boolean.
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

// unsigned reads an unsigned integer of any width up to limit.
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

// text reads a string or symbol, aliasing the input. Clients confuse the two.
func (r *reader) text() []byte {
	at := r.pos
	switch code, _ := r.constructor(); code {
	case CodeStr8, CodeStr32, CodeSym8, CodeSym32:
		return r.variable(code)
	}
	r.fail(at, "neither string nor symbol")
	return nil
}

// symbol reads a symbol, or a string in its place.
func (r *reader) symbol() Symbol {
	at := r.pos
	b := r.text()
	if !isASCII(b) {
		r.fail(at, "symbol is not ASCII")
		return ""
	}
	return Symbol(b)
}

// binaryValue reads a binary, aliasing the input.
func (r *reader) binaryValue() []byte {
	at := r.pos
	switch code, _ := r.constructor(); code {
	case CodeBin8, CodeBin32:
		return r.variable(code)
	}
	r.fail(at, "not binary")
	return nil
}

// compositeCode reads the descriptor of a composite of this package, as ulong or symbol, and
// returns its code.
func (r *reader) compositeCode() (code byte, ok bool) {
	at := r.pos
	// the usual case
	if b := r.src[r.pos:r.end]; len(b) >= 3 && b[0] == CodeDescribed && b[1] == CodeSmallUlong {
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
			if code, ok := symbolicDescriptors[string(b)]; ok {
				return code, true
			}
		}
	}
	r.fail(at, "unknown descriptor")
	return 0, false
}

// symbolicDescriptors are the codes of descriptors that are spelled as symbols.
var symbolicDescriptors = map[string]byte{
	"amqp:open:list":                  descOpen,
	"amqp:begin:list":                 descBegin,
	"amqp:attach:list":                descAttach,
	"amqp:flow:list":                  descFlow,
	"amqp:transfer:list":              descTransfer,
	"amqp:disposition:list":           descDisposition,
	"amqp:detach:list":                descDetach,
	"amqp:end:list":                   descEnd,
	"amqp:close:list":                 descClose,
	"amqp:error:list":                 descError,
	"amqp:received:list":              descReceived,
	"amqp:accepted:list":              descAccepted,
	"amqp:rejected:list":              descRejected,
	"amqp:released:list":              descReleased,
	"amqp:modified:list":              descModified,
	"amqp:source:list":                descSource,
	"amqp:target:list":                descTarget,
	"amqp:coordinator:list":           descCoordinator,
	"amqp:declare:list":               descDeclare,
	"amqp:discharge:list":             descDischarge,
	"amqp:declared:list":              descDeclared,
	"amqp:transactional-state:list":   descTransactionalState,
	"amqp:sasl-mechanisms:list":       descSASLMechanisms,
	"amqp:sasl-init:list":             descSASLInit,
	"amqp:sasl-challenge:list":        descSASLChallenge,
	"amqp:sasl-response:list":         descSASLResponse,
	"amqp:sasl-outcome:list":          descSASLOutcome,
	"amqp:header:list":                SectionHeader,
	"amqp:delivery-annotations:map":   SectionDeliveryAnnotations,
	"amqp:message-annotations:map":    SectionMessageAnnotations,
	"amqp:properties:list":            SectionProperties,
	"amqp:application-properties:map": SectionApplicationProperties,
	"amqp:data:binary":                SectionData,
	"amqp:amqp-sequence:list":         SectionSequence,
	"amqp:amqp-value:*":               SectionValue,
	"amqp:footer:map":                 SectionFooter,
}
