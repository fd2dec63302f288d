package event

// The fields of each event in the order they are stored. A change here is a new schema version.

// Kind implements [Event].
func (*OriginDefined) Kind() Kind { return KindOriginDefined }

func (o *OriginDefined) encode(e *encoder) {
	e.uvarint(uint64(o.ID))
	e.uvarint(o.Origin.Connection)
	for _, s := range o.Origin.texts() {
		e.text(*s)
	}
}

func (o *OriginDefined) decode(d *decoder) {
	o.ID = OriginID(d.uint32())
	o.Origin.Connection = d.uvarint()
	for _, s := range o.Origin.texts() {
		*s = d.text()
	}
}

func (o *Origin) texts() [6]*string {
	return [6]*string{&o.RemoteAddress, &o.ContainerID, &o.Product, &o.Principal, &o.Link, &o.Entity}
}

// Kind implements [Event].
func (*MessageEnqueued) Kind() Kind { return KindMessageEnqueued }

func (m *MessageEnqueued) encode(e *encoder) {
	e.sent(m.sent())
	e.time(m.EnqueuedAt)
	e.time(m.ExpiresAt)
	e.uvarint(uint64(m.Batch))
	e.blob(&m.Body)
	e.bool(m.InSession)
	e.byte(byte(m.IDType))
	e.time(m.DuplicateUntil)
	e.details(&m.Details, extras{arrival: m.Arrival, keyed: m.Keyed})
}

func (m *MessageEnqueued) decode(d *decoder) {
	d.sent(m.sent())
	m.EnqueuedAt = d.time()
	m.ExpiresAt = d.time()
	m.Batch = d.uint32()
	d.blob(&m.Body)
	if d.version >= 2 {
		m.InSession = d.bool()
		m.IDType = IDType(d.byte())
		m.DuplicateUntil = d.time()
	}
	if d.version >= 3 {
		x := d.details(&m.Details, detailArrival|detailKeyed)
		m.Arrival, m.Keyed = x.arrival, x.keyed
	}
}

// Kind implements [Event].
func (*MessageScheduled) Kind() Kind { return KindMessageScheduled }

func (m *MessageScheduled) encode(e *encoder) {
	e.sent(m.sent())
	e.time(m.ScheduledFor)
	e.uvarint(uint64(m.Batch))
	e.blob(&m.Body)
	e.bool(m.InSession)
	e.byte(byte(m.IDType))
	e.time(m.DuplicateUntil)
	e.details(&m.Details, extras{arrival: m.Arrival, reserved: m.Reserved, keyed: m.Keyed})
}

func (m *MessageScheduled) decode(d *decoder) {
	d.sent(m.sent())
	m.ScheduledFor = d.time()
	m.Batch = d.uint32()
	d.blob(&m.Body)
	m.InSession = d.bool()
	m.IDType = IDType(d.byte())
	m.DuplicateUntil = d.time()
	if d.version >= 2 {
		x := d.details(&m.Details, detailArrival|detailReserved|detailKeyed)
		m.Arrival, m.Reserved, m.Keyed = x.arrival, x.reserved, x.keyed
	}
}

// Kind implements [Event].
func (*ScheduledActivated) Kind() Kind { return KindScheduledActivated }

func (m *ScheduledActivated) encode(e *encoder) {
	e.seq(m.Sequence)
	e.seq(m.NewSequence)
	e.span(m.TimeToLive)
	e.time(m.EnqueuedAt)
	e.time(m.ExpiresAt)
}

func (m *ScheduledActivated) decode(d *decoder) {
	m.Sequence = d.seq()
	m.NewSequence = d.seq()
	m.TimeToLive = d.span()
	m.EnqueuedAt = d.time()
	m.ExpiresAt = d.time()
}

// Kind implements [Event].
func (*ScheduleCancelled) Kind() Kind          { return KindScheduleCancelled }
func (m *ScheduleCancelled) encode(e *encoder) { e.seq(m.Sequence) }
func (m *ScheduleCancelled) decode(d *decoder) { m.Sequence = d.seq() }

// Kind implements [Event].
func (*DuplicateDropped) Kind() Kind { return KindDuplicateDropped }

func (m *DuplicateDropped) encode(e *encoder) {
	e.bytes(m.MessageID)
	e.byte(byte(m.IDType))
	e.seq(m.Original)
	if m.Arrival != nil { // version 2
		e.arrival(m.Arrival)
	}
}

func (m *DuplicateDropped) decode(d *decoder) {
	m.MessageID = d.bytes()
	m.IDType = IDType(d.byte())
	m.Original = d.seq()
	if d.version >= 2 {
		m.Arrival = d.arrival()
	}
}

// Kind implements [Event].
func (*MessageLocked) Kind() Kind { return KindMessageLocked }

func (m *MessageLocked) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
	e.time(m.LockedUntil)
	e.uvarint(uint64(m.DeliveryCount))
}

func (m *MessageLocked) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
	m.LockedUntil = d.time()
	m.DeliveryCount = d.uint32()
}

// Kind implements [Event].
func (*LockRenewed) Kind() Kind { return KindLockRenewed }

func (m *LockRenewed) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
	e.time(m.LockedUntil)
}

func (m *LockRenewed) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
	m.LockedUntil = d.time()
}

// Kind implements [Event].
func (*LockExpired) Kind() Kind { return KindLockExpired }

func (m *LockExpired) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
	e.uvarint(uint64(m.DeliveryCount))
}

func (m *LockExpired) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
	m.DeliveryCount = d.uint32()
}

// Kind implements [Event].
func (*MessageReleased) Kind() Kind { return KindMessageReleased }

func (m *MessageReleased) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
}

func (m *MessageReleased) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
}

// Kind implements [Event].
func (*MessageAbandoned) Kind() Kind { return KindMessageAbandoned }

func (m *MessageAbandoned) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
	e.uvarint(uint64(m.DeliveryCount))
	e.blob(&m.Changes)
}

func (m *MessageAbandoned) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
	m.DeliveryCount = d.uint32()
	d.blob(&m.Changes)
}

// Kind implements [Event].
func (*MessageCompleted) Kind() Kind { return KindMessageCompleted }

func (m *MessageCompleted) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
}

func (m *MessageCompleted) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
}

// Kind implements [Event].
func (*MessageReceivedAndDeleted) Kind() Kind          { return KindMessageReceivedAndDeleted }
func (m *MessageReceivedAndDeleted) encode(e *encoder) { e.seq(m.Sequence) }
func (m *MessageReceivedAndDeleted) decode(d *decoder) { m.Sequence = d.seq() }

// Kind implements [Event].
func (*MessageDeferred) Kind() Kind { return KindMessageDeferred }

func (m *MessageDeferred) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
	e.uvarint(uint64(m.DeliveryCount))
	e.blob(&m.Changes)
}

func (m *MessageDeferred) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
	m.DeliveryCount = d.uint32()
	d.blob(&m.Changes)
}

// Kind implements [Event].
func (*MessageDeadLettered) Kind() Kind { return KindMessageDeadLettered }

func (m *MessageDeadLettered) encode(e *encoder) {
	e.seq(m.Sequence)
	e.token(&m.Token)
	e.byte(byte(m.Cause))
	e.text(m.Reason)
	e.text(m.Description)
	e.blob(&m.Changes)
	if m.SubQueue == TransferDeadLetter { // version 2
		e.byte(byte(m.SubQueue))
	}
}

func (m *MessageDeadLettered) decode(d *decoder) {
	m.Sequence = d.seq()
	d.token(&m.Token)
	m.Cause = Cause(d.byte())
	m.Reason = d.text()
	m.Description = d.text()
	d.blob(&m.Changes)
	if d.version >= 2 {
		m.SubQueue = SubQueue(d.among("sub-queue", byte(TransferDeadLetter), byte(TransferDeadLetter)))
	}
}

// Kind implements [Event].
func (*MessageExpired) Kind() Kind { return KindMessageExpired }

func (m *MessageExpired) encode(e *encoder) {
	e.seq(m.Sequence)
	e.time(m.ExpiresAt)
}

func (m *MessageExpired) decode(d *decoder) {
	m.Sequence = d.seq()
	m.ExpiresAt = d.time()
}

// Kind implements [Event].
func (*SessionAccepted) Kind() Kind { return KindSessionAccepted }

func (m *SessionAccepted) encode(e *encoder) {
	e.bytes(m.SessionID)
	e.token(&m.Token)
	e.time(m.LockedUntil)
}

func (m *SessionAccepted) decode(d *decoder) {
	m.SessionID = d.bytes()
	d.token(&m.Token)
	m.LockedUntil = d.time()
}

// Kind implements [Event].
func (*SessionLockRenewed) Kind() Kind { return KindSessionLockRenewed }

func (m *SessionLockRenewed) encode(e *encoder) {
	e.bytes(m.SessionID)
	e.time(m.LockedUntil)
}

func (m *SessionLockRenewed) decode(d *decoder) {
	m.SessionID = d.bytes()
	m.LockedUntil = d.time()
}

// Kind implements [Event].
func (*SessionReleased) Kind() Kind { return KindSessionReleased }

func (m *SessionReleased) encode(e *encoder) {
	e.bytes(m.SessionID)
	e.byte(byte(m.Cause))
	e.count(len(m.Returned))
	var before SequenceNumber
	for _, r := range m.Returned {
		e.seq(r.Sequence - before)
		e.uvarint(uint64(r.DeliveryCount))
		before = r.Sequence
	}
}

func (m *SessionReleased) decode(d *decoder) {
	m.SessionID = d.bytes()
	m.Cause = ReleaseCause(d.byte())
	m.Returned = nil
	var seq SequenceNumber
	for range d.count(2) {
		seq += d.seq()
		m.Returned = append(m.Returned, Returned{seq, d.uint32()})
	}
}

// Kind implements [Event].
func (*SessionStateSet) Kind() Kind { return KindSessionStateSet }

func (m *SessionStateSet) encode(e *encoder) {
	e.bytes(m.SessionID)
	e.bool(m.Cleared)
	e.blob(&m.State)
	e.uvarint(uint64(m.Topic))
}

func (m *SessionStateSet) decode(d *decoder) {
	m.SessionID = d.bytes()
	m.Cleared = d.bool()
	d.blob(&m.State)
	if d.version >= 2 {
		m.Topic = EntityID(d.uint32())
	}
}

// Kind implements [Event].
func (*MessagesBatchDeleted) Kind() Kind { return KindMessagesBatchDeleted }

func (m *MessagesBatchDeleted) encode(e *encoder) {
	e.time(m.Before)
	e.count(len(m.Sequences))
	var before SequenceNumber
	for _, s := range m.Sequences {
		e.seq(s - before)
		before = s
	}
}

func (m *MessagesBatchDeleted) decode(d *decoder) {
	m.Before = d.time()
	m.Sequences = nil
	var seq SequenceNumber
	for range d.count(1) {
		seq += d.seq()
		m.Sequences = append(m.Sequences, seq)
	}
}

// Kind implements [Event].
func (*SliceDropped) Kind() Kind      { return KindSliceDropped }
func (*SliceDropped) encode(*encoder) {}
func (*SliceDropped) decode(*decoder) {}

// Kind implements [Event].
func (*ClockSet) Kind() Kind { return KindClockSet }

func (c *ClockSet) encode(e *encoder) {
	e.uvarint(c.Number)
	e.byte(byte(c.Basis))
	e.time(c.From)
	e.time(c.To)
	e.time(c.Wall)
}

func (c *ClockSet) decode(d *decoder) {
	c.Number = d.uvarint()
	c.Basis = ClockBasis(d.byte())
	c.From = d.time()
	c.To = d.time()
	c.Wall = d.time()
}
