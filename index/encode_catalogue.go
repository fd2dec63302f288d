package index

import (
	"encoding/binary"
	"math"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func (e *stateEncoder) catalogue() {
	e.number(uint64(e.lastEntity))
	all := sortedEntities(&e.entities)
	e.number(uint64(len(all)))
	for i := range all {
		e.entity(&all[i])
	}
}

func (e *stateEncoder) entity(x *Entity) {
	dst := binary.AppendUvarint(e.dst, uint64(x.ID))
	dst = append(dst, byte(x.Kind), x.HashVersion)
	dst = appendText(dst, x.Path)
	dst = appendText(dst, string(x.Hosts))
	if len(x.Hosts) > 1 {
		dst = append(dst, x.KeyHash)
	}
	dst = event.AppendProperties(dst, &x.Properties)
	dst = binary.AppendUvarint(dst, uint64(x.Topic))
	for _, t := range [...]event.Time{x.CreatedAt, x.UpdatedAt, x.AccessedAt} {
		dst = binary.AppendUvarint(dst, uint64(t))
	}
	e.dst = dst
	e.piece()
	if x.Kind == event.Subscription {
		e.rules(x.added)
	}
}

func (e *stateEncoder) rules(added []*event.Rule) {
	e.number(uint64(len(added)))
	for _, r := range added {
		e.dst = event.AppendRule(e.dst, r)
		e.piece()
	}
}

func (d *stateDecoder) catalogue(c *Catalogue) {
	c.last = event.EntityID(d.number(math.MaxUint32))
	var before event.EntityID
	for n := d.number(uint64(len(d.src))); n > 0 && d.err == nil; n-- {
		e := new(Entity)
		e.ID = event.EntityID(d.number(uint64(c.last)))
		e.Kind, e.HashVersion = event.EntityKind(d.byte()), d.byte()
		e.Path = d.text()
		e.Hosts = []byte(d.text())
		if n := len(e.Hosts); n > 1 {
			if e.KeyHash = d.byte(); n > event.MaxEntityPartitions || e.KeyHash < 1 || e.KeyHash > event.KeyHash {
				d.fail("%d partitions with key hash %d", n, e.KeyHash)
			}
		}
		e.Properties = readValue(d, event.ReadProperties)
		e.Topic = event.EntityID(d.number(math.MaxUint32))
		for _, t := range [...]*event.Time{&e.CreatedAt, &e.UpdatedAt, &e.AccessedAt} {
			*t = event.Time(d.number(uint64(event.EndOfTime)))
		}
		if d.err == nil && e.ID <= before {
			d.fail("invalid entity %d", e.ID)
		}
		if d.err != nil {
			return
		}
		before = e.ID
		d.check(c.restoreEntity(e))
		if e.Kind == event.Subscription {
			d.rules(c, e)
		}
	}
}

// rules reads the rules of a subscription.
func (d *stateDecoder) rules(c *Catalogue, e *Entity) {
	for n := d.number(uint64(len(d.src))); n > 0 && d.err == nil; n-- {
		if r := readValue(d, event.ReadRule); d.err == nil {
			d.check(c.restoreRule(e, r))
		}
	}
}
