package amqp

// compositeName returns the name the specification gives to the type of c.
func compositeName(c Composite) string {
	switch c.descriptor() {
	case DescOpen:
		return "open"
	case DescBegin:
		return "begin"
	case DescAttach:
		return "attach"
	case DescFlow:
		return "flow"
	case DescTransfer:
		return "transfer"
	case DescDisposition:
		return "disposition"
	case DescDetach:
		return "detach"
	case DescEnd:
		return "end"
	case DescClose:
		return "close"
	case DescError:
		return "error"
	case DescReceived:
		return "received"
	case DescAccepted:
		return "accepted"
	case DescRejected:
		return "rejected"
	case DescReleased:
		return "released"
	case DescModified:
		return "modified"
	case DescSource:
		return "source"
	case DescTarget:
		return "target"
	case DescCoordinator:
		return "coordinator"
	case DescDeclare:
		return "declare"
	case DescDischarge:
		return "discharge"
	case DescDeclared:
		return "declared"
	case DescTransactionalState:
		return "transactional-state"
	case DescSASLMechanisms:
		return "sasl-mechanisms"
	case DescSASLInit:
		return "sasl-init"
	case DescSASLChallenge:
		return "sasl-challenge"
	case DescSASLResponse:
		return "sasl-response"
	}
	return "sasl-outcome"
}

// String returns "sender" or "receiver".
func (r Role) String() string {
	if r == RoleReceiver {
		return "receiver"
	}
	return "sender"
}

func (c *Open) print(p *printer) {
	p.text("container-id", c.ContainerID)
	p.text("hostname", c.Hostname)
	p.optUint("max-frame-size", c.MaxFrameSize)
	if c.ChannelMax.Set {
		p.uint("channel-max", uint64(c.ChannelMax.Value))
	}
	p.optUint("idle-time-out", c.IdleTimeout)
	p.symbols("offered-capabilities", c.OfferedCapabilities)
	p.symbols("desired-capabilities", c.DesiredCapabilities)
	p.fields("properties", c.Properties)
}

func (c *Begin) print(p *printer) {
	if c.RemoteChannel.Set {
		p.uint("remote-channel", uint64(c.RemoteChannel.Value))
	}
	p.uint("next-outgoing-id", uint64(c.NextOutgoingID))
	p.uint("incoming-window", uint64(c.IncomingWindow))
	p.uint("outgoing-window", uint64(c.OutgoingWindow))
	p.optUint("handle-max", c.HandleMax)
	p.fields("properties", c.Properties)
}

func (c *Attach) print(p *printer) {
	p.text("name", c.Name)
	p.uint("handle", uint64(c.Handle))
	p.name("role")
	p.b = append(p.b, c.Role.String()...)
	if c.SenderSettleMode.Set {
		p.uint("snd-settle-mode", uint64(c.SenderSettleMode.Value))
	}
	if c.ReceiverSettleMode.Set {
		p.uint("rcv-settle-mode", uint64(c.ReceiverSettleMode.Value))
	}
	p.name("source")
	if c.Source != nil {
		p.composite(c.Source)
	} else {
		p.value(nil)
	}
	p.name("target")
	if c.Target != nil {
		p.composite(c.Target)
	} else {
		p.value(nil)
	}
	p.optUint("initial-delivery-count", c.InitialDeliveryCount)
	if c.MaxMessageSize.Set {
		p.uint("max-message-size", c.MaxMessageSize.Value)
	}
	p.fields("properties", c.Properties)
}

func (c *Flow) print(p *printer) {
	p.optUint("handle", c.Handle)
	p.optUint("delivery-count", c.DeliveryCount)
	p.optUint("link-credit", c.LinkCredit)
	p.optUint("available", c.Available)
	p.flag("drain", c.Drain)
	p.flag("echo", c.Echo)
	p.optUint("next-incoming-id", c.NextIncomingID)
	p.uint("incoming-window", uint64(c.IncomingWindow))
	p.uint("next-outgoing-id", uint64(c.NextOutgoingID))
	p.uint("outgoing-window", uint64(c.OutgoingWindow))
	p.fields("properties", c.Properties)
}

func (c *Transfer) print(p *printer) {
	p.uint("handle", uint64(c.Handle))
	p.optUint("delivery-id", c.DeliveryID)
	p.tag("delivery-tag", c.DeliveryTag)
	p.optUint("message-format", c.MessageFormat)
	if c.Settled.Set {
		p.bool("settled", c.Settled.Value)
	}
	p.flag("more", c.More)
	p.state(c.State)
	p.flag("resume", c.Resume)
	p.flag("aborted", c.Aborted)
	p.flag("batchable", c.Batchable)
}

func (c *Disposition) print(p *printer) {
	p.name("role")
	p.b = append(p.b, c.Role.String()...)
	p.uint("first", uint64(c.First))
	p.optUint("last", c.Last)
	p.bool("settled", c.Settled)
	p.state(c.State)
	p.flag("batchable", c.Batchable)
}

func (c *Detach) print(p *printer) {
	p.uint("handle", uint64(c.Handle))
	p.bool("closed", c.Closed)
	p.error(c.Error)
}

func (c *End) print(p *printer)   { p.error(c.Error) }
func (c *Close) print(p *printer) { p.error(c.Error) }

func (e *Error) print(p *printer) {
	p.text("condition", string(e.Condition))
	p.text("description", e.Description)
	p.fields("info", e.Info)
}

func (c *SASLMechanisms) print(p *printer) { p.symbols("mechanisms", c.Mechanisms) }

func (c *SASLInit) print(p *printer) {
	p.text("mechanism", string(c.Mechanism))
	p.secret("initial-response", c.InitialResponse)
	p.text("hostname", c.Hostname)
}

func (c *SASLChallenge) print(p *printer) { p.secret("challenge", c.Challenge) }
func (c *SASLResponse) print(p *printer)  { p.secret("response", c.Response) }

func (c *SASLOutcome) print(p *printer) {
	p.uint("code", uint64(c.Code))
	p.secret("additional-data", c.AdditionalData)
}

func (c *Source) print(p *printer) {
	p.any("address", c.Address)
	p.flag("dynamic", c.Dynamic)
	p.fields("filter", c.Filter)
}

func (c *Target) print(p *printer) {
	if c == nil { // as the encoder, which writes it as null
		return
	}
	p.any("address", c.Address)
	p.flag("dynamic", c.Dynamic)
}

func (c *Coordinator) print(p *printer) {
	if c != nil {
		p.symbols("capabilities", c.Capabilities)
	}
}

func (c *Declare) print(p *printer) { p.any("global-id", c.GlobalID) }

func (c *Discharge) print(p *printer) {
	p.tag("txn-id", c.TxnID)
	p.bool("fail", c.Fail)
}

func (Accepted) print(*printer)     {}
func (Released) print(*printer)     {}
func (s Rejected) print(p *printer) { p.error(s.Error) }

func (s Modified) print(p *printer) {
	p.flag("delivery-failed", s.DeliveryFailed)
	p.flag("undeliverable-here", s.UndeliverableHere)
	p.fields("message-annotations", s.MessageAnnotations)
}

func (s Received) print(p *printer) {
	p.uint("section-number", uint64(s.SectionNumber))
	p.uint("section-offset", s.SectionOffset)
}

func (s TransactionalState) print(p *printer) {
	p.tag("txn-id", s.TxnID)
	p.state(s.Outcome)
}

func (s Declared) print(p *printer) { p.tag("txn-id", s.TxnID) }

// The String methods are for debug logs; an Error prints itself as the Go error it is.

// String returns c for a log.
func (c *Open) String() string { return Print(c) }

// String returns c for a log.
func (c *Begin) String() string { return Print(c) }

// String returns c for a log.
func (c *Attach) String() string { return Print(c) }

// String returns c for a log.
func (c *Flow) String() string { return Print(c) }

// String returns c for a log.
func (c *Transfer) String() string { return Print(c) }

// String returns c for a log.
func (c *Disposition) String() string { return Print(c) }

// String returns c for a log.
func (c *Detach) String() string { return Print(c) }

// String returns c for a log.
func (c *End) String() string { return Print(c) }

// String returns c for a log.
func (c *Close) String() string { return Print(c) }

// String returns c for a log.
func (c *SASLMechanisms) String() string { return Print(c) }

// String returns c for a log.
func (c *SASLInit) String() string { return Print(c) }

// String returns c for a log.
func (c *SASLChallenge) String() string { return Print(c) }

// String returns c for a log.
func (c *SASLResponse) String() string { return Print(c) }

// String returns c for a log.
func (c *SASLOutcome) String() string { return Print(c) }

// String returns c for a log.
func (c *Source) String() string { return Print(c) }

// String returns c for a log.
func (c *Target) String() string { return Print(c) }

// String returns c for a log.
func (c *Coordinator) String() string { return Print(c) }

// String returns c for a log.
func (c *Declare) String() string { return Print(c) }

// String returns c for a log.
func (c *Discharge) String() string { return Print(c) }

// String returns s for a log.
func (s Accepted) String() string { return Print(s) }

// String returns s for a log.
func (s Rejected) String() string { return Print(s) }

// String returns s for a log.
func (s Released) String() string { return Print(s) }

// String returns s for a log.
func (s Modified) String() string { return Print(s) }

// String returns s for a log.
func (s Received) String() string { return Print(s) }

// String returns s for a log.
func (s TransactionalState) String() string { return Print(s) }

// String returns s for a log.
func (s Declared) String() string { return Print(s) }

// GoString hides the login secret from the %#v format.
func (c *SASLInit) GoString() string { return Print(c) }

// GoString hides the login secret from the %#v format.
func (c *SASLChallenge) GoString() string { return Print(c) }

// GoString hides the login secret from the %#v format.
func (c *SASLResponse) GoString() string { return Print(c) }
