package event

import "encoding/binary"

// The parts of the encoding of a base's events that structs cannot express: see doc.go.

// The first byte of a CatalogueRestored lists its contents besides rules.
const (
	restoredNumbers = 1 << 0
	restoredEntity  = 1 << 1
)

func (c *CatalogueRestored) encode(e *encoder) {
	var has byte
	if c.NextOrigin != 0 {
		has |= restoredNumbers
	}
	if c.Path != "" {
		has |= restoredEntity
	}
	e.byte(has)
	if has&restoredNumbers != 0 {
		e.uvarint(uint64(c.LastEntity))
		e.uvarint(uint64(c.NextOrigin))
		e.uvarint(c.ClockNumber)
		e.distance(c.ClockShift, 0)
	}
	if has&restoredEntity != 0 {
		e.byte(byte(c.EntityKind))
		e.text(c.Path)
		e.byte(c.HashVersion)
		e.bytes(c.Hosts)
		if len(c.Hosts) > 1 {
			e.byte(c.KeyHash)
		}
		e.byte(kinds[KindEntityUpdated].version)
		c.Properties.encode(e)
		e.uvarint(uint64(c.Topic))
		e.time(c.CreatedAt)
		e.time(c.UpdatedAt)
		e.time(c.AccessedAt)
	}
	e.count(len(c.Rules))
	for i := range c.Rules {
		c.Rules[i].encode(e)
	}
}

func (c *CatalogueRestored) decode(d *decoder) {
	has := d.among("part of a catalogue", 0, restoredNumbers|restoredEntity)
	if has&restoredNumbers != 0 {
		c.LastEntity = EntityID(d.uint32())
		if c.NextOrigin = OriginID(d.uint32()); c.NextOrigin == 0 {
			d.fail("next origin 0")
		}
		c.ClockNumber = d.uvarint()
		c.ClockShift = d.distance(0)
	}
	if has&restoredEntity != 0 {
		c.entity(d)
	}
	for range d.count(8) {
		var r Rule
		r.decode(d)
		c.Rules = append(c.Rules, r)
	}
}

// entity reads an entity. Its version is that of an EntityUpdated, as its properties are read in
// the same way.
func (c *CatalogueRestored) entity(d *decoder) {
	c.EntityKind = EntityKind(d.among("kind of entity", byte(Queue), byte(Subscription)))
	if c.Path = d.text(); c.Path == "" {
		d.fail("entity without a path")
	}
	c.HashVersion = d.byte()
	if c.Hosts = d.bytes(); len(c.Hosts) > 1 {
		d.severalHosts(c.Hosts)
		c.KeyHash = d.among("key hash", 1, KeyHash)
	}
	of := *d
	of.version = d.among("version of properties", 1, kinds[KindEntityUpdated].version)
	of.src, of.err = d.src, d.err
	c.Properties.decode(&of)
	d.src, d.err = of.src, of.err
	c.Topic = EntityID(d.uint32())
	c.CreatedAt = d.time()
	c.UpdatedAt = d.time()
	c.AccessedAt = d.time()
}

// Flags for contents that only some sessions or messages have.
const (
	restoredLock = 1 << iota
	restoredState
	restoredOwnTTL
	restoredWasScheduled
	restoredStays
	restoredWay
	restoredSession
	restoredSchedule
	restoredTransfer
	restoredChanges
)

// minRestoredSession is the smallest size of a session, bytes.
const minRestoredSession = 3

func (x *RestoredSession) encode(e *encoder) {
	var has uint64
	if x.Lock != (RestoredLock{}) {
		has |= restoredLock
	}
	if x.Set {
		has |= restoredState
	}
	e.bytes(x.ID)
	e.uvarint(has)
	e.uvarint(x.Ticket)
	if has&restoredLock != 0 {
		x.Lock.encode(e)
	}
	if has&restoredState != 0 {
		x.State.encode(e, 0)
		e.time(x.SetAt)
	}
}

func (x *RestoredSession) decode(d *decoder) {
	x.ID = d.bytes()
	has := d.flags(restoredLock | restoredState)
	x.Ticket = d.uvarint()
	if has&restoredLock != 0 {
		x.Lock.decode(d)
	}
	if x.Set = has&restoredState != 0; x.Set {
		x.State.decode(d, 0)
		x.SetAt = d.time()
	}
}

func (r *RowsRestored) encode(e *encoder) {
	e.count(len(r.Rows))
	before := new(RestoredRow)
	for i := range r.Rows {
		r.Rows[i].encode(e, before)
		before = &r.Rows[i]
	}
}

func (r *RowsRestored) decode(d *decoder) {
	var before RestoredRow
	for range d.count(minRow) {
		var x RestoredRow
		x.decode(d, &before)
		r.Rows = append(r.Rows, x)
		before = x
	}
}

// minRow is the smallest size of a row, bytes.
const minRow = 12

func (r *RestoredRow) has() (has uint64) {
	mark := func(flag uint64, is bool) {
		if is {
			has |= flag
		}
	}
	mark(restoredLock, r.Lock != (RestoredLock{}))
	mark(restoredOwnTTL, r.OwnTTL)
	mark(restoredWasScheduled, r.WasScheduled)
	mark(restoredStays, r.Stays)
	mark(restoredWay, r.Way != (RestoredWay{}))
	mark(restoredSession, r.Session != 0)
	mark(restoredSchedule, r.ScheduledFor != 0 || r.TimeToLive != 0)
	mark(restoredTransfer, r.Transfer != (RestoredTransfer{}))
	mark(restoredChanges, len(r.Changes) > 0)
	return has
}

// encode stores a row. Numbers that mostly grow from row to row are stored as differences from the
// previous row.
func (r *RestoredRow) encode(e *encoder, before *RestoredRow) {
	has := r.has()
	e.uvarint(uint64(r.Sequence - before.Sequence))
	e.byte(byte(r.State))
	e.byte(byte(r.SubQueue))
	e.uvarint(has)
	r.Body.encode(e, before.Body.Position)
	e.distance(uint64(r.EnqueuedAt), uint64(before.EnqueuedAt))
	e.distance(uint64(r.ExpiresAt), uint64(before.ExpiresAt))
	e.uvarint(uint64(r.DeliveryCount))
	if has&restoredWay != 0 {
		r.Way.encode(e)
	}
	if has&restoredSession != 0 {
		e.uvarint(uint64(r.Session))
	}
	if has&restoredLock != 0 {
		r.Lock.encode(e)
	}
	if has&restoredSchedule != 0 {
		e.time(r.ScheduledFor)
		e.span(r.TimeToLive)
	}
	if has&restoredTransfer != 0 {
		r.Transfer.encode(e)
	}
	if has&restoredChanges != 0 {
		e.count(len(r.Changes))
		for i := range r.Changes {
			r.Changes[i].encode(e, 0)
		}
	}
}

func (r *RestoredRow) decode(d *decoder, before *RestoredRow) {
	r.Sequence = before.Sequence + d.seq()
	r.State = RowState(d.among("state of a message", byte(firstRowState), byte(lastRowState)))
	r.SubQueue = SubQueue(d.among("sub-queue", byte(Main), byte(TransferDeadLetter)))
	has := d.flags(restoredChanges<<1 - 1)
	r.OwnTTL, r.WasScheduled, r.Stays = has&restoredOwnTTL != 0, has&restoredWasScheduled != 0, has&restoredStays != 0
	r.Body.decode(d, before.Body.Position)
	r.EnqueuedAt = d.timeFrom(before.EnqueuedAt)
	r.ExpiresAt = d.timeFrom(before.ExpiresAt)
	r.DeliveryCount = d.uint32()
	if has&restoredWay != 0 {
		r.Way.decode(d)
	}
	if has&restoredSession != 0 {
		r.Session = d.uint32()
	}
	if has&restoredLock != 0 {
		r.Lock.decode(d)
	}
	if has&restoredSchedule != 0 {
		r.ScheduledFor, r.TimeToLive = d.time(), d.span()
	}
	if has&restoredTransfer != 0 {
		r.Transfer.decode(d)
	}
	if has&restoredChanges != 0 {
		for range d.count(6) {
			var b BodyRef
			b.decode(d, 0)
			r.Changes = append(r.Changes, b)
		}
	}
}

func (b *BodyRef) encode(e *encoder, before Position) {
	e.distance(uint64(b.Position), uint64(before))
	e.uvarint(uint64(b.Size))
	e.dst = binary.LittleEndian.AppendUint32(e.dst, b.Sum)
}

func (b *BodyRef) decode(d *decoder, before Position) {
	b.Position = Position(d.distance(uint64(before)))
	b.Size = d.uint32()
	if p := d.take(4); p != nil {
		b.Sum = binary.LittleEndian.Uint32(p)
	}
}

// distance stores the difference between a number and another one, which may be negative.
func (e *encoder) distance(n, from uint64) { e.dst = binary.AppendVarint(e.dst, int64(n-from)) }

func (d *decoder) distance(from uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Varint(d.src)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.src = d.src[n:]
	return from + uint64(v)
}

func (d *decoder) timeFrom(before Time) Time {
	t := d.distance(uint64(before))
	if t > uint64(EndOfTime) {
		d.fail("time %d is after year 9999", t)
		return 0
	}
	return Time(t)
}

// flags reads a set of flags, all of which must be among the known ones.
func (d *decoder) flags(known uint64) uint64 {
	has := d.uvarint()
	if has&^known != 0 {
		d.fail("flags %#x", has)
	}
	return has
}
