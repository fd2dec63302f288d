package amqp

// DecodePerformative decodes the body of a frame: a performative and, after a transfer, the
// payload, which aliases body. Everything else is a copy. It is lenient as wire-protocol 9.1
// requires: lists may be list0, list8 or list32 and end after their last set field, descriptors may
// be ulong or symbol. An error is a *DecodeError. The empty body of a keep-alive frame
// (wire-protocol 1.1) holds no performative and is an error.
func DecodePerformative(body []byte, lim Limits) (p Performative, payload []byte, err error) {
	r := newFields(body, lim)
	if code, ok := r.compositeCode(); ok {
		p = r.performative(code)
	}
	return r.finish(p)
}

// Decoder is DecodePerformative for a busy connection: it decodes transfers, dispositions and flows
// into its own structs, without allocating. The returned performative, its DeliveryTag and the
// payload are valid until the next call and as long as body does not change. Delivery states and
// maps may be kept, but must not be changed: successive transfers of one transaction share their
// state. A Decoder belongs to one goroutine.
type Decoder struct {
	Limits Limits // the zero Limits means DefaultLimits

	transfer    Transfer
	disposition Disposition
	flow        Flow
	state       lastState // of transfers
}

// Decode decodes the body of a frame as DecodePerformative does. Decoder says how long the result
// is valid.
func (d *Decoder) Decode(body []byte) (p Performative, payload []byte, err error) {
	r := newFields(body, d.Limits)
	code, ok := r.compositeCode()
	if !ok {
		return r.finish(nil)
	}
	switch code {
	case descTransfer:
		d.transfer = Transfer{}
		if d.state.limits != d.Limits {
			d.state = lastState{limits: d.Limits}
		}
		r.last = &d.state
		d.transfer.decode(&r)
		p = &d.transfer
	case descDisposition:
		d.disposition = Disposition{}
		d.disposition.decode(&r)
		p = &d.disposition
	case descFlow:
		d.flow = Flow{}
		d.flow.decode(&r)
		p = &d.flow
	default:
		p = r.performative(code)
	}
	return r.finish(p)
}

// finish returns the results of decoding a frame's body.
func (r *fields) finish(p Performative) (Performative, []byte, error) {
	if _, ok := p.(*Transfer); !ok && r.err == nil && r.pos != len(r.src) {
		r.fail(r.pos, "bytes after the performative")
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	return p, r.src[r.pos:], nil
}

// performative reads the fields of the performative that has the descriptor code.
func (r *fields) performative(code byte) Performative {
	switch code {
	case descOpen:
		p := new(Open)
		p.decode(r)
		return p
	case descBegin:
		p := new(Begin)
		p.decode(r)
		return p
	case descAttach:
		p := new(Attach)
		p.decode(r)
		return p
	case descFlow:
		f := new(Flow)
		f.decode(r)
		return f
	case descTransfer:
		t := new(Transfer)
		t.decode(r)
		if t.DeliveryTag != nil {
			t.DeliveryTag = copied(t.DeliveryTag)
		}
		return t
	case descDisposition:
		d := new(Disposition)
		d.decode(r)
		return d
	case descDetach:
		p := new(Detach)
		p.decode(r)
		return p
	case descEnd:
		return &End{Error: r.lonelyError()}
	case descClose:
		return &Close{Error: r.lonelyError()}
	case descSASLMechanisms, descSASLInit, descSASLChallenge, descSASLResponse, descSASLOutcome:
		return r.sasl(code)
	}
	r.fail(0, "unknown performative")
	return nil
}

func (p *Open) decode(r *fields) {
	s := r.openFields()
	if r.require("open without container-id") {
		p.ContainerID = string(r.text())
	}
	p.Hostname = r.stringField()
	p.MaxFrameSize = r.optUint32()
	p.ChannelMax = r.optUint16()
	p.IdleTimeout = r.optUint32()
	p.OutgoingLocales = r.symbolsField()
	p.IncomingLocales = r.symbolsField()
	p.OfferedCapabilities = r.symbolsField()
	p.DesiredCapabilities = r.symbolsField()
	p.Properties = r.mapField()
	r.closeFields(s)
}

func (p *Begin) decode(r *fields) {
	s := r.openFields()
	p.RemoteChannel = r.optUint16()
	p.NextOutgoingID = r.uint32Field("begin without next-outgoing-id")
	p.IncomingWindow = r.uint32Field("begin without incoming-window")
	p.OutgoingWindow = r.uint32Field("begin without outgoing-window")
	p.HandleMax = r.optUint32()
	p.OfferedCapabilities = r.symbolsField()
	p.DesiredCapabilities = r.symbolsField()
	p.Properties = r.mapField()
	r.closeFields(s)
}

func (p *Attach) decode(r *fields) {
	s := r.openFields()
	if r.require("attach without name") {
		p.Name = string(r.text())
	}
	p.Handle = r.uint32Field("attach without handle")
	p.Role = r.roleField("attach without role")
	p.SenderSettleMode = r.optSenderMode()
	p.ReceiverSettleMode = r.optReceiverMode()
	p.Source = r.sourceField()
	p.Target = r.targetField()
	p.Unsettled = r.mapField()
	p.IncompleteUnsettled = r.boolField()
	p.InitialDeliveryCount = r.optUint32()
	p.MaxMessageSize = r.optUint64()
	p.OfferedCapabilities = r.symbolsField()
	p.DesiredCapabilities = r.symbolsField()
	p.Properties = r.mapField()
	r.closeFields(s)
}

func (p *Flow) decode(r *fields) {
	s := r.openFields()
	p.NextIncomingID = r.optUint32()
	p.IncomingWindow = r.uint32Field("flow without incoming-window")
	p.NextOutgoingID = r.uint32Field("flow without next-outgoing-id")
	p.OutgoingWindow = r.uint32Field("flow without outgoing-window")
	p.Handle = r.optUint32()
	p.DeliveryCount = r.optUint32()
	p.LinkCredit = r.optUint32()
	p.Available = r.optUint32()
	p.Drain = r.boolField()
	p.Echo = r.boolField()
	p.Properties = r.mapField()
	r.closeFields(s)
}

// decode reads a transfer whose delivery tag aliases the input.
func (p *Transfer) decode(r *fields) {
	s := r.openFields()
	p.Handle = r.uint32Field("transfer without handle")
	p.DeliveryID = r.optUint32()
	if r.next() {
		p.DeliveryTag = r.binaryValue()
	}
	p.MessageFormat = r.optUint32()
	p.Settled = r.optBool()
	p.More = r.boolField()
	p.ReceiverSettleMode = r.optReceiverMode()
	p.State = r.transferState()
	p.Resume = r.boolField()
	p.Aborted = r.boolField()
	p.Batchable = r.boolField()
	r.closeFields(s)
}

func (p *Disposition) decode(r *fields) {
	s := r.openFields()
	p.Role = r.roleField("disposition without role")
	p.First = r.uint32Field("disposition without first")
	p.Last = r.optUint32()
	p.Settled = r.boolField()
	p.State = r.stateField()
	p.Batchable = r.boolField()
	r.closeFields(s)
}

func (p *Detach) decode(r *fields) {
	s := r.openFields()
	p.Handle = r.uint32Field("detach without handle")
	p.Closed = r.boolField()
	p.Error = r.errorField()
	r.closeFields(s)
}

// lonelyError reads the fields of a composite whose only field is an error.
func (r *fields) lonelyError() *Error {
	s := r.openFields()
	e := r.errorField()
	r.closeFields(s)
	return e
}

func (r *fields) sasl(code byte) Performative {
	s := r.openFields()
	var p Performative
	switch code {
	case descSASLMechanisms:
		p = &SASLMechanisms{Mechanisms: r.symbolsField()}
	case descSASLInit:
		init := new(SASLInit)
		if r.require("sasl-init without mechanism") {
			init.Mechanism = r.symbol()
		}
		init.InitialResponse = r.binaryField()
		init.Hostname = r.stringField()
		p = init
	case descSASLChallenge:
		p = &SASLChallenge{Challenge: r.binaryField()}
	case descSASLResponse:
		p = &SASLResponse{Response: r.binaryField()}
	default:
		outcome := new(SASLOutcome)
		if r.require("sasl-outcome without code") {
			outcome.Code = SASLCode(r.unsigned(uint64(SASLSysTemp)))
		}
		outcome.AdditionalData = r.binaryField()
		p = outcome
	}
	r.closeFields(s)
	return p
}
