package amqp

import "math"

// sourceField reads a source, which may be null, and empty in any way.
func (r *reader) sourceField() *Source {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code, ok := r.compositeCode(); ok && code == descSource {
		return r.source()
	}
	r.fail(at, "not a source")
	return nil
}

func (r *reader) source() *Source {
	s := r.openFields()
	c := new(Source)
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
	return c
}

// targetField reads a target or coordinator, which may be null, and empty in any way.
func (r *reader) targetField() Terminus {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code, ok := r.compositeCode(); ok {
		switch code {
		case descTarget:
			return r.target()
		case descCoordinator:
			return r.coordinator()
		}
	}
	r.fail(at, "neither a target nor a coordinator")
	return nil
}

func (r *reader) target() *Target {
	s := r.openFields()
	c := new(Target)
	c.Address = r.anyField()
	c.Durable = r.optUint32()
	c.ExpiryPolicy = r.symbolField()
	c.Timeout = r.optUint32()
	c.Dynamic = r.boolField()
	c.DynamicNodeProperties = r.mapField()
	c.Capabilities = r.symbolsField()
	r.closeFields(s)
	return c
}

func (r *reader) coordinator() *Coordinator {
	s := r.openFields()
	c := &Coordinator{Capabilities: r.symbolsField()}
	r.closeFields(s)
	return c
}

// errorField reads an error, which may be null.
func (r *reader) errorField() *Error {
	if !r.next() {
		return nil
	}
	at := r.pos
	if code, ok := r.compositeCode(); ok && code == descError {
		return r.errorFields()
	}
	r.fail(at, "not an error")
	return nil
}

// errorFields reads one to three fields (wire-protocol 9.1).
func (r *reader) errorFields() *Error {
	s := r.openFields()
	e := new(Error)
	if r.require("error without condition") {
		e.Condition = r.symbol()
	}
	e.Description = r.stringField()
	e.Info = r.mapField()
	r.closeFields(s)
	return e
}

func isState(code byte) bool {
	return code >= descReceived && code <= descModified || code == descDeclared || code == descTransactionalState
}

// stateField reads a delivery state, which may be null.
func (r *reader) stateField() DeliveryState {
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

// state reads the fields of the delivery state that has the descriptor code.
func (r *reader) state(code byte) DeliveryState {
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

func (r *reader) received() Received {
	number := r.uint32Field("received without section-number")
	if !r.require("received without section-offset") {
		return Received{}
	}
	return Received{SectionNumber: number, SectionOffset: r.unsigned(math.MaxUint64)}
}

// txnID reads a transaction id, which must be there.
func (r *reader) txnID() []byte {
	if !r.require("transaction id missing") {
		return nil
	}
	return copied(r.binaryValue())
}

func (r *reader) transactionalState() TransactionalState {
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
