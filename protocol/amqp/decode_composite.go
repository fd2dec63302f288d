package amqp

import (
	"bytes"
	"math"
)

// sourceField reads a source, which may be null, or a list of any encoding with no fields.
func (r *fields) sourceField() *Source {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code, ok := r.compositeCode(); ok && code == descSource {
		c := new(Source)
		c.decode(r)
		return c
	}
	r.fail(at, "not a source")
	return nil
}

func (c *Source) decode(r *fields) {
	s := r.openFields()
	c.Address = r.anyField()
	c.Durable = r.optUint32()
	c.ExpiryPolicy = r.symbolField()
	c.Timeout = r.optUint32()
	c.Dynamic = r.boolField()
	c.DynamicNodeProperties = r.mapField()
	c.DistributionMode = r.symbolField()
	c.Filter = r.mapField()
	c.DefaultOutcome = r.stateField()
	c.Outcomes = r.symbolsField()
	c.Capabilities = r.symbolsField()
	r.closeFields(s)
}

// targetField reads a target or coordinator, which may be null, or a list of any encoding with no
// fields.
func (r *fields) targetField() Terminus {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code, ok := r.compositeCode(); ok {
		switch code {
		case descTarget:
			c := new(Target)
			c.decode(r)
			return c
		case descCoordinator:
			c := new(Coordinator)
			c.decode(r)
			return c
		}
	}
	r.fail(at, "neither a target nor a coordinator")
	return nil
}

func (c *Target) decode(r *fields) {
	s := r.openFields()
	c.Address = r.anyField()
	c.Durable = r.optUint32()
	c.ExpiryPolicy = r.symbolField()
	c.Timeout = r.optUint32()
	c.Dynamic = r.boolField()
	c.DynamicNodeProperties = r.mapField()
	c.Capabilities = r.symbolsField()
	r.closeFields(s)
}

func (c *Coordinator) decode(r *fields) {
	s := r.openFields()
	c.Capabilities = r.symbolsField()
	r.closeFields(s)
}

// errorField reads an error, which may be null.
func (r *fields) errorField() *Error {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code, ok := r.compositeCode(); ok && code == descError {
		e := new(Error)
		e.decode(r)
		return e
	}
	r.fail(at, "not an error")
	return nil
}

// decode reads the one to three fields of an error (wire-protocol 9.1).
func (e *Error) decode(r *fields) {
	s := r.openFields()
	if r.require("error without condition") {
		e.Condition = r.symbol()
	}
	e.Description = r.stringField()
	e.Info = r.mapField()
	r.closeFields(s)
}

func isState(code byte) bool {
	return code >= descReceived && code <= descModified || code == descDeclared || code == descTransactionalState
}

// stateField reads a delivery state, which may be null.
func (r *fields) stateField() DeliveryState {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code, ok := r.compositeCode(); ok && isState(code) {
		return r.state(code)
	}
	r.fail(at, "not a delivery state")
	return nil
}

// lastState is the last transactional state that was decoded. All transfers of a transaction carry
// the same one, which holds only the transaction's id, so it is decoded once for all of them.
type lastState struct {
	encoded []byte
	state   DeliveryState
	limits  Limits // used for decoding it
}

// maxLastState is the size in bytes of the largest encoded state that is remembered.
const maxLastState = 64

// transferState is stateField for a transfer.
func (r *fields) transferState() DeliveryState {
	last, at, zero := r.last, r.pos, r.zero
	if last == nil || r.left == 0 {
		return r.stateField()
	}
	if n := len(last.encoded); n > 0 && bytes.HasPrefix(r.src[at:r.end], last.encoded) {
		r.left--
		r.pos += n
		return last.state
	}
	state := r.stateField()
	if _, ok := state.(TransactionalState); ok && r.err == nil && r.pos-at <= maxLastState && r.zero == zero {
		last.encoded, last.state = append(last.encoded[:0], r.src[at:r.pos]...), state
	}
	return state
}

// state reads the fields of the delivery state that has the descriptor code.
func (r *fields) state(code byte) DeliveryState {
	var v DeliveryState
	s := r.openFields()
	switch code {
	case descAccepted:
		v = StateAccepted
	case descReleased:
		v = StateReleased
	case descRejected:
		v = Rejected{Error: r.errorField()}
	case descModified:
		v = Modified{
			DeliveryFailed:     r.boolField(),
			UndeliverableHere:  r.boolField(),
			MessageAnnotations: r.mapField(),
		}
	case descReceived:
		v = r.received()
	case descDeclared:
		v = Declared{TxnID: r.txnID()}
	default:
		v = r.transactionalState()
	}
	r.closeFields(s)
	return v
}

func (r *fields) received() Received {
	number := r.uint32Field("received without section-number")
	if !r.require("received without section-offset") {
		return Received{}
	}
	return Received{SectionNumber: number, SectionOffset: r.unsigned(math.MaxUint64)}
}

// txnID reads a transaction id, which must be there.
func (r *fields) txnID() []byte {
	if !r.require("transaction id missing") {
		return nil
	}
	return copied(r.binaryValue())
}

func (r *fields) transactionalState() TransactionalState {
	v := TransactionalState{TxnID: r.txnID()}
	at := r.pos
	v.Outcome = r.stateField()
	switch v.Outcome.(type) {
	case nil, Accepted, Rejected, Released, Modified:
	default:
		r.fail(at, "outcome of a transactional state is not an outcome")
	}
	return v
}
