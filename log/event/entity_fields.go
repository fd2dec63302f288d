package event

// The parts of the encoding of entities, rules and copies that structs cannot express: see doc.go.

// decoded sets the fields that version 1 lacks, which knew only queues.
func (p *Properties) decoded(d *decoder) {
	if d.version < 2 {
		p.SupportOrdering = !p.EnablePartitioning
	}
}

// decoded refuses a key hash of an entity with one partition.
func (c *EntityCreated) decoded(d *decoder) {
	if d.version >= 3 {
		d.severalHosts(c.Hosts)
	}
}

// severalHosts checks the hosts of an entity with a key hash.
func (d *decoder) severalHosts(hosts []byte) {
	if n := len(hosts); n < 2 || n > MaxEntityPartitions {
		d.fail("entity with %d partitions and a key hash", n)
	}
}

// decoded sets the fields that version 1 lacks, which knew only queues.
func (x *EntityDeleted) decoded(d *decoder) {
	if d.version < 2 {
		x.EntityKind = Queue
	}
}

// Flags for the contents of a copy's entry; most copies have only a number.
const (
	copyOwnTTL = 1 << iota
	copyExpires
	copyInSession
	copyRule
	copyChanges
	copyDead
	copyFlags = 1<<iota - 1
)

// minCopy is the smallest size of a copy, bytes.
const minCopy = 3

func (c *Copy) encode(e *encoder) {
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
	e.uint32(uint32(c.Subscription))
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

func (c *Copy) decode(d *decoder) {
	c.Subscription = EntityID(d.uint32())
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
}

// AppendProperties appends the binary form of properties, as in events of the newest version.
func AppendProperties(dst []byte, p *Properties) []byte {
	e := encoder{dst: dst}
	p.encode(&e)
	return e.dst
}

// ReadProperties reads properties as [AppendProperties] wrote them, and returns the rest of src.
func ReadProperties(src []byte) (p Properties, rest []byte, err error) {
	d := decoder{src: src, version: kinds[KindEntityCreated].version}
	p.decode(&d)
	return p, d.src, d.err
}

// AppendRule appends the binary form of a rule.
func AppendRule(dst []byte, r *Rule) []byte {
	e := encoder{dst: dst}
	r.encode(&e)
	return e.dst
}

// ReadRule reads a rule as [AppendRule] wrote it, and returns the rest of src.
func ReadRule(src []byte) (r Rule, rest []byte, err error) {
	d := decoder{src: src}
	r.decode(&d)
	return r, d.src, d.err
}
