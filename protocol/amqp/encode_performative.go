package amqp

// Every composite is written with every field, including trailing nulls, as a list8 or list32: one
// client finds fields by their place and another finds a transfer's payload after exactly eleven
// (wire-protocol 0.1, 9.1). The number in each EndList is the field count of that table.

func appendPerformative(dst []byte, p Performative) []byte {
	switch p := p.(type) {
	case *Open:
		return appendOpen(dst, p)
	case *Begin:
		return appendBegin(dst, p)
	case *Attach:
		return appendAttach(dst, p)
	case *Flow:
		return appendFlow(dst, p)
	case *Transfer:
		return appendTransfer(dst, p)
	case *Disposition:
		return appendDisposition(dst, p)
	case *Detach:
		return appendDetach(dst, p)
	case *End:
		return appendLonelyError(dst, descEnd, p.Error)
	case *Close:
		return appendLonelyError(dst, descClose, p.Error)
	case *SASLMechanisms:
		dst, mark := beginFields(dst, descSASLMechanisms)
		return EndList(appendSymbols(dst, p.Mechanisms), mark, 1)
	case *SASLInit:
		dst, mark := beginFields(dst, descSASLInit)
		dst = AppendSymbol(dst, p.Mechanism)
		dst = appendOptBinary(dst, p.InitialResponse)
		return EndList(appendNonEmpty(dst, p.Hostname), mark, 3)
	case *SASLChallenge:
		dst, mark := beginFields(dst, descSASLChallenge)
		return EndList(appendBinary(dst, p.Challenge), mark, 1)
	case *SASLResponse:
		dst, mark := beginFields(dst, descSASLResponse)
		return EndList(appendBinary(dst, p.Response), mark, 1)
	case *SASLOutcome:
		dst, mark := beginFields(dst, descSASLOutcome)
		dst = appendUbyte(dst, uint8(p.Code))
		return EndList(appendOptBinary(dst, p.AdditionalData), mark, 2)
	}
	panic("amqp: no performative")
}

func beginFields(dst []byte, code byte) (_ []byte, mark int) {
	return BeginList(AppendDescriptor(dst, code))
}

func appendOpen(dst []byte, p *Open) []byte {
	dst, mark := beginFields(dst, descOpen)
	dst = AppendString(dst, p.ContainerID)
	dst = appendNonEmpty(dst, p.Hostname)
	dst = appendUint(dst, p.MaxFrameSize.Or(NoLimit))
	dst = appendOptUshort(dst, p.ChannelMax)
	dst = appendOptUint(dst, p.IdleTimeout)
	dst = appendSymbols(dst, p.OutgoingLocales)
	dst = appendSymbols(dst, p.IncomingLocales)
	dst = appendSymbols(dst, p.OfferedCapabilities)
	dst = appendSymbols(dst, p.DesiredCapabilities)
	dst = appendMapField(dst, p.Properties)
	return EndList(dst, mark, 10)
}

func appendBegin(dst []byte, p *Begin) []byte {
	dst, mark := beginFields(dst, descBegin)
	dst = appendOptUshort(dst, p.RemoteChannel)
	dst = appendUint(dst, p.NextOutgoingID)
	dst = appendUint(dst, p.IncomingWindow)
	dst = appendUint(dst, p.OutgoingWindow)
	dst = appendUint(dst, p.HandleMax.Or(NoLimit))
	dst = appendSymbols(dst, p.OfferedCapabilities)
	dst = appendSymbols(dst, p.DesiredCapabilities)
	dst = appendMapField(dst, p.Properties)
	return EndList(dst, mark, 8)
}

func appendAttach(dst []byte, p *Attach) []byte {
	dst, mark := beginFields(dst, descAttach)
	dst = AppendString(dst, p.Name)
	dst = appendUint(dst, p.Handle)
	dst = appendBool(dst, bool(p.Role))
	dst = appendSenderMode(dst, p.SenderSettleMode)
	dst = appendReceiverMode(dst, p.ReceiverSettleMode)
	dst = appendSourceField(dst, p.Source)
	dst = appendTerminus(dst, p.Target)
	dst = appendMapField(dst, p.Unsettled)
	dst = appendTrue(dst, p.IncompleteUnsettled)
	if p.Role == RoleSender {
		dst = appendUint(dst, p.InitialDeliveryCount.Or(0))
	} else {
		dst = appendOptUint(dst, p.InitialDeliveryCount)
	}
	dst = appendOptUlong(dst, p.MaxMessageSize)
	dst = appendSymbols(dst, p.OfferedCapabilities)
	dst = appendSymbols(dst, p.DesiredCapabilities)
	dst = appendMapField(dst, p.Properties)
	return EndList(dst, mark, 14)
}

func appendFlow(dst []byte, p *Flow) []byte {
	dst, mark := beginFields(dst, descFlow)
	dst = appendOptUint(dst, p.NextIncomingID)
	dst = appendUint(dst, p.IncomingWindow)
	dst = appendUint(dst, p.NextOutgoingID)
	dst = appendUint(dst, p.OutgoingWindow)
	dst = appendOptUint(dst, p.Handle)
	dst = appendOptUint(dst, p.DeliveryCount)
	dst = appendOptUint(dst, p.LinkCredit)
	dst = appendOptUint(dst, p.Available)
	dst = appendBool(dst, p.Drain)
	dst = appendBool(dst, p.Echo)
	dst = appendMapField(dst, p.Properties)
	return EndList(dst, mark, 11)
}

func appendTransfer(dst []byte, p *Transfer) []byte {
	dst, mark := beginFields(dst, descTransfer)
	dst = appendUint(dst, p.Handle)
	dst = appendOptUint(dst, p.DeliveryID)
	dst = appendOptBinary(dst, p.DeliveryTag)
	dst = appendOptUint(dst, p.MessageFormat)
	dst = appendOptBool(dst, p.Settled)
	dst = appendBool(dst, p.More)
	dst = appendReceiverMode(dst, p.ReceiverSettleMode)
	dst = appendState(dst, p.State)
	dst = appendTrue(dst, p.Resume)
	dst = appendTrue(dst, p.Aborted)
	dst = appendTrue(dst, p.Batchable)
	return EndList(dst, mark, 11)
}

func appendDisposition(dst []byte, p *Disposition) []byte {
	dst, mark := beginFields(dst, descDisposition)
	dst = appendBool(dst, bool(p.Role))
	dst = appendUint(dst, p.First)
	dst = appendOptUint(dst, p.Last)
	dst = appendBool(dst, p.Settled)
	dst = appendState(dst, p.State)
	dst = appendTrue(dst, p.Batchable)
	return EndList(dst, mark, 6)
}

func appendDetach(dst []byte, p *Detach) []byte {
	dst, mark := beginFields(dst, descDetach)
	dst = appendUint(dst, p.Handle)
	dst = appendBool(dst, p.Closed)
	dst = appendErrorField(dst, p.Error)
	return EndList(dst, mark, 3)
}

func appendLonelyError(dst []byte, code byte, e *Error) []byte {
	dst, mark := beginFields(dst, code)
	return EndList(appendErrorField(dst, e), mark, 1)
}

func appendErrorField(dst []byte, e *Error) []byte {
	if e == nil {
		return AppendNull(dst)
	}
	return appendError(dst, e)
}

func appendError(dst []byte, e *Error) []byte {
	dst, mark := beginFields(dst, descError)
	dst = AppendSymbol(dst, e.Condition)
	dst = AppendString(dst, e.Description)
	dst = appendMapField(dst, e.Info)
	return EndList(dst, mark, 3)
}

func appendSourceField(dst []byte, c *Source) []byte {
	if c == nil {
		return AppendNull(dst)
	}
	return appendSource(dst, c)
}

func appendSource(dst []byte, c *Source) []byte {
	dst, mark := beginFields(dst, descSource)
	dst = AppendValue(dst, c.Address)
	dst = appendOptUint(dst, c.Durable)
	dst = appendNonEmptySymbol(dst, c.ExpiryPolicy)
	dst = appendOptUint(dst, c.Timeout)
	dst = appendTrue(dst, c.Dynamic)
	dst = appendMapField(dst, c.DynamicNodeProperties)
	dst = appendNonEmptySymbol(dst, c.DistributionMode)
	dst = appendMapField(dst, c.Filter)
	dst = appendState(dst, c.DefaultOutcome)
	dst = appendSymbols(dst, c.Outcomes)
	dst = appendSymbols(dst, c.Capabilities)
	return EndList(dst, mark, 11)
}

// appendTerminus appends a target or coordinator; a nil pointer is null as nil is.
func appendTerminus(dst []byte, t Terminus) []byte {
	switch t := t.(type) {
	case *Target:
		if t != nil {
			return appendTarget(dst, t)
		}
	case *Coordinator:
		if t != nil {
			return appendCoordinator(dst, t)
		}
	}
	return AppendNull(dst)
}

func appendTarget(dst []byte, c *Target) []byte {
	dst, mark := beginFields(dst, descTarget)
	dst = AppendValue(dst, c.Address)
	dst = appendOptUint(dst, c.Durable)
	dst = appendNonEmptySymbol(dst, c.ExpiryPolicy)
	dst = appendOptUint(dst, c.Timeout)
	dst = appendTrue(dst, c.Dynamic)
	dst = appendMapField(dst, c.DynamicNodeProperties)
	dst = appendSymbols(dst, c.Capabilities)
	return EndList(dst, mark, 7)
}

func appendCoordinator(dst []byte, c *Coordinator) []byte {
	dst, mark := beginFields(dst, descCoordinator)
	return EndList(appendSymbols(dst, c.Capabilities), mark, 1)
}

// appendState appends a delivery state, or null for nil. Accepted and Released are list0, the one
// exception to the rule of this file, because every client reads that form and the real service
// writes it (wire-protocol 3.3).
func appendState(dst []byte, s DeliveryState) []byte {
	switch s := s.(type) {
	case Accepted:
		return append(AppendDescriptor(dst, descAccepted), CodeList0)
	case Released:
		return append(AppendDescriptor(dst, descReleased), CodeList0)
	case Rejected:
		return appendLonelyError(dst, descRejected, s.Error)
	case Modified:
		dst, mark := beginFields(dst, descModified)
		dst = appendBool(dst, s.DeliveryFailed)
		dst = appendBool(dst, s.UndeliverableHere)
		return EndList(appendMapField(dst, s.MessageAnnotations), mark, 3)
	case Received:
		dst, mark := beginFields(dst, descReceived)
		dst = appendUint(dst, s.SectionNumber)
		return EndList(appendUlong(dst, s.SectionOffset), mark, 2)
	case TransactionalState:
		dst, mark := beginFields(dst, descTransactionalState)
		dst = appendBinary(dst, s.TxnID)
		return EndList(appendState(dst, s.Outcome), mark, 2)
	case Declared:
		dst, mark := beginFields(dst, descDeclared)
		return EndList(appendBinary(dst, s.TxnID), mark, 1)
	}
	return AppendNull(dst)
}
