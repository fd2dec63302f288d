package amqp

// Control is a client's request to a coordinator, as the amqp-value of a message: *Declare or
// *Discharge.
type Control interface {
	Composite
	control()
}

// Declare requests a new transaction (AMQP 4.5.5, wire-protocol 7.2).
type Declare struct {
	GlobalID any // of a distributed transaction; nil means null: a local transaction
}

// Discharge ends a transaction (AMQP 4.5.6, wire-protocol 7.2).
type Discharge struct {
	TxnID []byte
	Fail  bool // roll back; otherwise commit
}

func (*Declare) control()   {}
func (*Discharge) control() {}

func (*Declare) descriptor() byte   { return descDeclare }
func (*Discharge) descriptor() byte { return descDischarge }

// AppendControl appends a request to a coordinator, with every field.
func AppendControl(dst []byte, c Control) []byte {
	switch c := c.(type) {
	case *Declare:
		dst, mark := beginFields(dst, descDeclare)
		return EndList(AppendValue(dst, c.GlobalID), mark, 1)
	case *Discharge:
		dst, mark := beginFields(dst, descDischarge)
		dst = appendBinary(dst, c.TxnID)
		return EndList(appendBool(dst, c.Fail), mark, 2)
	}
	panic("amqp: nothing for a coordinator")
}

// DecodeControl decodes the value at the start of src as a request to a coordinator. The result
// shares no memory with src. An error is a *DecodeError.
func DecodeControl(src []byte, lim Limits) (Control, error) {
	r := newFields(src, lim)
	c := r.controlValue()
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

func (r *fields) controlValue() (c Control) {
	code, ok := r.compositeCode()
	if !ok {
		return nil
	}
	if code != descDeclare && code != descDischarge {
		r.fail(0, "neither a declare nor a discharge")
		return nil
	}
	s := r.openFields()
	if code == descDeclare {
		c = &Declare{GlobalID: r.anyField()}
	} else {
		c = &Discharge{TxnID: r.txnID(), Fail: r.boolField()}
	}
	r.closeFields(s)
	return c
}
