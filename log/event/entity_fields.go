package event

// The fields of the events about entities, rules and publishing in the order they are stored. A change here is a new
// schema version.

func (p *Properties) encode(e *encoder) {
	e.span(p.LockDuration)
	e.uvarint(uint64(p.MaxSizeMegabytes))
	e.uvarint(uint64(p.MaxMessageSizeKilobytes))
	e.bool(p.RequiresDuplicateDetection)
	e.span(p.DuplicateDetectionWindow)
	e.bool(p.RequiresSession)
	e.span(p.DefaultMessageTimeToLive)
	e.bool(p.DeadLetteringOnMessageExpiration)
	e.uvarint(uint64(p.MaxDeliveryCount))
	e.bool(p.EnableBatchedOperations)
	e.byte(byte(p.Status))
	e.span(p.AutoDeleteOnIdle)
	e.bool(p.EnablePartitioning)
	e.text(p.ForwardTo)
	e.text(p.ForwardDeadLetteredMessagesTo)
	e.text(p.UserMetadata)
	// version 2
	e.bool(p.SupportOrdering)
	e.bool(p.EnableExpress)
	e.bool(p.DeadLetteringOnFilterError)
	e.bool(p.FilteringBeforePublishing)
	e.bool(p.SubscriptionPartitioning)
	e.count(len(p.AccessRules))
	for i := range p.AccessRules {
		p.AccessRules[i].encode(e)
	}
}

func (p *Properties) decode(d *decoder) {
	p.LockDuration = d.span()
	p.MaxSizeMegabytes = d.uint32()
	p.MaxMessageSizeKilobytes = d.uint32()
	p.RequiresDuplicateDetection = d.bool()
	p.DuplicateDetectionWindow = d.span()
	p.RequiresSession = d.bool()
	p.DefaultMessageTimeToLive = d.span()
	p.DeadLetteringOnMessageExpiration = d.bool()
	p.MaxDeliveryCount = d.uint32()
	p.EnableBatchedOperations = d.bool()
	p.Status = Status(d.byte())
	p.AutoDeleteOnIdle = d.span()
	p.EnablePartitioning = d.bool()
	p.ForwardTo = d.text()
	p.ForwardDeadLetteredMessagesTo = d.text()
	p.UserMetadata = d.text()
	if d.version < 2 { // only queues were there
		p.SupportOrdering = !p.EnablePartitioning
		return
	}
	p.SupportOrdering = d.bool()
	p.EnableExpress = d.bool()
	p.DeadLetteringOnFilterError = d.bool()
	p.FilteringBeforePublishing = d.bool()
	p.SubscriptionPartitioning = d.bool()
	p.AccessRules = nil
	for range d.count(6) {
		var r AccessRule
		r.decode(d)
		p.AccessRules = append(p.AccessRules, r)
	}
}

func (r *AccessRule) encode(e *encoder) {
	e.text(r.Name)
	e.count(len(r.Rights))
	for _, right := range r.Rights {
		e.byte(byte(right))
	}
	e.text(r.Primary.Reveal())
	e.text(r.Secondary.Reveal())
	e.time(r.CreatedAt)
	e.time(r.ModifiedAt)
}

func (r *AccessRule) decode(d *decoder) {
	r.Name = d.text()
	for range d.count(1) {
		r.Rights = append(r.Rights, Right(d.among("right", byte(Manage), byte(Listen))))
	}
	r.Primary = Secret(d.text())
	r.Secondary = Secret(d.text())
	r.CreatedAt = d.time()
	r.ModifiedAt = d.time()
}

func (r *Rule) encode(e *encoder) {
	e.text(r.Name)
	e.byte(byte(r.Filter.Kind))
	e.text(r.Filter.Text)
	e.properties(r.Filter.Parameters)
	e.count(len(r.Filter.Conditions))
	for _, c := range r.Filter.Conditions {
		e.byte(byte(c.Field))
		e.text(c.Text)
	}
	e.properties(r.Filter.Properties)
	e.text(r.Action.Text)
	e.properties(r.Action.Parameters)
	e.time(r.CreatedAt)
}

func (r *Rule) decode(d *decoder) {
	r.Name = d.text()
	r.Filter.Kind = FilterKind(d.among("kind of filter", byte(SQLFilter), byte(CorrelationFilter)))
	r.Filter.Text = d.text()
	r.Filter.Parameters = d.properties()
	r.Filter.Conditions = nil
	for range d.count(2) {
		c := Condition{Field: Field(d.among("field", byte(FieldCorrelationID), byte(FieldContentType)))}
		c.Text = d.text()
		r.Filter.Conditions = append(r.Filter.Conditions, c)
	}
	r.Filter.Properties = d.properties()
	r.Action.Text = d.text()
	r.Action.Parameters = d.properties()
	r.CreatedAt = d.time()
}

func (e *encoder) properties(ps []Property) {
	e.count(len(ps))
	for i := range ps {
		p := &ps[i]
		e.text(p.Name)
		e.byte(byte(p.Value.Type))
		e.uvarint(p.Value.Bits)
		e.text(p.Value.Text)
	}
}

func (d *decoder) properties() (ps []Property) {
	for range d.count(4) {
		p := Property{Name: d.text()}
		p.Value.Type = ValueType(d.among("type of value", byte(Null), byte(Span)))
		p.Value.Bits = d.uvarint()
		p.Value.Text = d.text()
		ps = append(ps, p)
	}
	return ps
}

// Kind implements [Event].
func (*EntityCreated) Kind() Kind { return KindEntityCreated }

func (c *EntityCreated) encode(e *encoder) {
	e.byte(byte(c.EntityKind))
	e.text(c.Path)
	e.byte(c.HashVersion)
	e.bytes(c.Hosts)
	c.Properties.encode(e)
	e.uvarint(uint64(c.Topic))
	if c.KeyHash != 0 {
		e.byte(c.KeyHash)
	}
}

func (c *EntityCreated) decode(d *decoder) {
	c.EntityKind = EntityKind(d.among("kind of entity", byte(Queue), byte(Subscription)))
	c.Path = d.text()
	c.HashVersion = d.byte()
	c.Hosts = append([]byte(nil), d.bytes()...)
	c.Properties.decode(d)
	if d.version >= 2 {
		c.Topic = EntityID(d.uint32())
	}
	if d.version < 3 {
		return
	}
	c.KeyHash = d.keyHash(c.Hosts)
}

// keyHash reads the version of the hash of an entity, which must have several partitions.
func (d *decoder) keyHash(hosts []byte) byte {
	if n := len(hosts); n < 2 || n > MaxEntityPartitions {
		d.fail("an entity with %d partitions and a key hash", n)
	}
	return d.among("key hash", 1, KeyHash)
}

// Kind implements [Event].
func (*EntityUpdated) Kind() Kind { return KindEntityUpdated }

func (u *EntityUpdated) encode(e *encoder) {
	u.Properties.encode(e)
	u.Before.encode(e)
}

func (u *EntityUpdated) decode(d *decoder) {
	u.Properties.decode(d)
	if d.version >= 2 {
		u.Before.decode(d)
	}
}

// Kind implements [Event].
func (*EntityDeleted) Kind() Kind { return KindEntityDeleted }

func (x *EntityDeleted) encode(e *encoder) {
	e.text(x.Reason)
	e.byte(byte(x.EntityKind))
	e.text(x.Path)
	x.Before.encode(e)
}

func (x *EntityDeleted) decode(d *decoder) {
	x.Reason = d.text()
	if x.EntityKind = Queue; d.version >= 2 { // before, nothing else was there
		x.EntityKind = EntityKind(d.among("kind of entity", byte(Queue), byte(Subscription)))
		x.Path = d.text()
		x.Before.decode(d)
	}
}

// Kind implements [Event].
func (*EntityTouched) Kind() Kind          { return KindEntityTouched }
func (x *EntityTouched) encode(e *encoder) { e.time(x.AccessedAt) }
func (x *EntityTouched) decode(d *decoder) { x.AccessedAt = d.time() }

// Kind implements [Event].
func (*RuleAdded) Kind() Kind          { return KindRuleAdded }
func (r *RuleAdded) encode(e *encoder) { r.Rule.encode(e) }
func (r *RuleAdded) decode(d *decoder) { r.Rule.decode(d) }

// Kind implements [Event].
func (*RuleUpdated) Kind() Kind { return KindRuleUpdated }

func (r *RuleUpdated) encode(e *encoder) {
	r.Rule.encode(e)
	r.Before.encode(e)
}

func (r *RuleUpdated) decode(d *decoder) {
	r.Rule.decode(d)
	r.Before.decode(d)
}

// Kind implements [Event].
func (*RuleRemoved) Kind() Kind          { return KindRuleRemoved }
func (r *RuleRemoved) encode(e *encoder) { r.Rule.encode(e) }
func (r *RuleRemoved) decode(d *decoder) { r.Rule.decode(d) }

// Kind implements [Event].
func (*MessagePublished) Kind() Kind { return KindMessagePublished }

func (m *MessagePublished) encode(e *encoder) {
	e.sent(m.sent())
	e.time(m.EnqueuedAt)
	e.uvarint(uint64(m.Batch))
	e.blob(&m.Body)
	e.byte(byte(m.IDType))
	e.time(m.DuplicateUntil)
	e.copies(m.Copies)
	e.details(&m.Details, extras{arrival: m.Arrival, keyed: m.Keyed})
}

func (m *MessagePublished) decode(d *decoder) {
	d.sent(m.sent())
	m.EnqueuedAt = d.time()
	m.Batch = d.uint32()
	d.blob(&m.Body)
	m.IDType = IDType(d.byte())
	m.DuplicateUntil = d.time()
	m.Copies = d.copies()
	if d.version >= 2 {
		x := d.details(&m.Details, detailArrival|detailKeyed)
		m.Arrival, m.Keyed = x.arrival, x.keyed
	}
}

// Kind implements [Event].
func (*ScheduledPublished) Kind() Kind { return KindScheduledPublished }

func (m *ScheduledPublished) encode(e *encoder) {
	e.seq(m.Sequence)
	e.seq(m.NewSequence)
	e.time(m.EnqueuedAt)
	e.copies(m.Copies)
}

func (m *ScheduledPublished) decode(d *decoder) {
	m.Sequence = d.seq()
	m.NewSequence = d.seq()
	m.EnqueuedAt = d.time()
	m.Copies = d.copies()
}

// What follows in a copy's entry; most copies have nothing but a number.
const (
	copyOwnTTL = 1 << iota
	copyExpires
	copyInSession
	copyRule
	copyChanges
	copyDead
	copyFlags = 1<<iota - 1
)

func (e *encoder) copies(cs []Copy) {
	e.count(len(cs))
	for i := range cs {
		c := &cs[i]
		var flags byte
		for _, f := range [...]struct {
			set bool
			bit byte
		}{
			{c.OwnTTL, copyOwnTTL}, {c.ExpiresAt != 0, copyExpires}, {c.InSession, copyInSession}, {c.Rule != "", copyRule},
			{len(c.Changes.Data) > 0, copyChanges}, {c.Cause != 0, copyDead},
		} {
			if f.set {
				flags |= f.bit
			}
		}
		e.uvarint(uint64(c.Subscription))
		e.seq(c.Sequence)
		e.byte(flags)
		if flags&copyExpires != 0 {
			e.time(c.ExpiresAt)
		}
		if flags&copyInSession != 0 {
			e.bytes(c.SessionID)
		}
		if flags&copyRule != 0 {
			e.text(c.Rule)
		}
		if flags&copyChanges != 0 {
			e.blob(&c.Changes)
		} else {
			c.Changes = Blob{}
		}
		if flags&copyDead != 0 {
			e.byte(byte(c.Cause))
			e.text(c.Reason)
			e.text(c.Description)
		}
	}
}

func (d *decoder) copies() []Copy {
	n := d.count(3)
	if n == 0 {
		return nil
	}
	cs := make([]Copy, 0, n)
	for range n {
		c := Copy{Subscription: EntityID(d.uint32())}
		c.Sequence = d.seq()
		flags := d.byte()
		if flags > copyFlags {
			d.fail("flags %#x of a copy", flags)
		}
		c.OwnTTL = flags&copyOwnTTL != 0
		if flags&copyExpires != 0 {
			c.ExpiresAt = d.time()
		}
		if c.InSession = flags&copyInSession != 0; c.InSession {
			c.SessionID = d.bytes()
		}
		if flags&copyRule != 0 {
			c.Rule = d.text()
		}
		if flags&copyChanges != 0 {
			d.blob(&c.Changes)
		}
		if flags&copyDead != 0 {
			c.Cause = Cause(d.among("cause", byte(CauseApplication), byte(CauseFilter)))
			c.Reason = d.text()
			c.Description = d.text()
		}
		cs = append(cs, c)
	}
	return cs
}

// AppendProperties appends the binary form of properties, as it stands in events of the newest version.
func AppendProperties(dst []byte, p *Properties) []byte {
	e := encoder{dst: dst}
	p.encode(&e)
	return e.dst
}

// ReadProperties reads what [AppendProperties] wrote and returns what follows it.
func ReadProperties(src []byte) (p Properties, rest []byte, err error) {
	d := decoder{src: src, version: schemaVersion(KindEntityCreated)}
	p.decode(&d)
	return p, d.src, d.err
}

// AppendRule appends the binary form of a rule.
func AppendRule(dst []byte, r *Rule) []byte {
	e := encoder{dst: dst}
	r.encode(&e)
	return e.dst
}

// ReadRule reads what [AppendRule] wrote and returns what follows it.
func ReadRule(src []byte) (r Rule, rest []byte, err error) {
	d := decoder{src: src}
	r.decode(&d)
	return r, d.src, d.err
}
