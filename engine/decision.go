package engine

import (
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// decision collects the results of one command. It reads the state, which stays as it is until an
// outcome is applied, and the rules fill it. Its contents are valid until the next decision.
//
// A rule checks, and then enacts. A check looks and may refuse; it adds nothing. It returns overdue
// locks and messages as [overdueItems], and the rule ends them, whether it refuses or not. An
// enactment adds events and the answer; it cannot refuse. So nothing that was added is ever taken
// back, and the events of several rules can be one record.
type decision struct {
	now      event.Time
	index    *index.Index // read only, as are settings and origins
	settings *settings
	origins  *origins

	events []event.Event // one record
	named  []newOrigin   // each has its definition among the events
	early  bool          // the reply may leave once the events are written, before they are durable
	reply  Reply
	again  bool    // see [Outcome.Again]
	rest   Command // see [Outcome.Rest]
	looks  int     // see [Outcome.Looks]
	lazy   bool    // see [Outcome.Lazy]
	note   *Note   // see [Outcome.Note]

	scratch      scratch
	transactions *transactions // read only
	committing   *transaction  // the transaction whose operations these are; nil: none
	// an operation that becomes part of a transaction once the decision is adopted
	staging stagingPlan
	// what else the decision does to the transactions once it is adopted
	adopt func()

	// Memory that the next decision reuses.
	pool     event.Pool
	fan      fanOut
	slab     []Delivery // not yet used: used ones belong to the receivers
	arrivals []event.Arrival
}

// begin prepares the decision for a command at a time.
func (d *decision) begin(now event.Time) {
	d.pool.Reset()
	d.now, d.events, d.named = now, d.events[:0], d.named[:0]
	d.early, d.reply, d.again, d.rest, d.looks = false, Reply{}, false, nil, 0
	d.lazy, d.note = false, nil
	d.scratch.reset()
	d.arrivals = d.arrivals[:0]
	d.fan.reset()
	d.committing, d.adopt = nil, nil
	if d.staging.operation.cmd != nil {
		d.staging = stagingPlan{}
	}
}

// outcome returns the decision as the caller gets it; a refusal replaces the answer.
func (d *decision) outcome(refusal *Error) Outcome {
	out := Outcome{Events: d.events, Reply: d.reply, Again: d.again, Rest: d.rest, Looks: d.looks, Lazy: d.lazy, Note: d.note}
	if refusal != nil {
		out.Reply = Reply{Err: refusal}
	}
	if len(d.events) > 0 && !d.early && !d.lazy {
		out.Level = log.Durable
	}
	return out
}

// goOn leaves the rest of a command to another decision.
func (d *decision) goOn(rest Command) { d.again, d.rest = true, rest }

// add adds an event of a kind, whose type is E, to the record. The caller fills it in.
func add[E event.Event](d *decision, kind event.Kind) E {
	ev := d.pool.New(kind)
	d.events = append(d.events, ev)
	return ev.(E)
}

// origin returns the number of an origin in this log; its first use adds its definition to the
// record.
func (d *decision) origin(o *Origin) event.OriginID { return d.originAs(o, 0) }

// originAs returns the number of an origin: the given one, unless that is 0. The cache may have
// lost the origin since the number was assigned.
func (d *decision) originAs(o *Origin, given event.OriginID) event.OriginID {
	if o == nil {
		return 0
	}
	known, again := d.origins.numbers[o]
	if given != 0 && known.id != given {
		known, again = loggedOrigin{id: given, chapter: d.origins.chapter - 1}, true
	}
	if again && known.chapter == d.origins.chapter {
		return known.id
	}
	id := d.index.NextOrigin()
	for _, n := range d.named {
		if n.origin == o {
			return n.id
		}
		id = max(id, n.id+1)
	}
	if again {
		id = known.id
	}
	def := add[*event.OriginDefined](d, event.KindOriginDefined)
	def.ID, def.Origin = id, clipOrigin(o)
	d.named = append(d.named, newOrigin{o, id})
	return id
}

// newOrigin is an origin that a decision defines.
type newOrigin struct {
	origin *Origin
	id     event.OriginID
}

// slice returns the slice of an entity. It refuses with NotFound.
func (d *decision) slice(id event.Slice) (slice, *Error) {
	e, err := d.settings.of(id)
	return slice{d, id, e}, err
}

// formerSlice returns a slice even of a deleted entity. Then only the settings that ending a lock
// needs are in force.
func (d *decision) formerSlice(id event.Slice) slice {
	e := d.settings.entities[id.Entity]
	if e == nil {
		e = &Entity{Properties: event.Properties{MaxDeliveryCount: ^uint32(0)}}
	}
	return slice{d, id, e}
}

// deliver answers with a message. Its description lives as long as the protocol side needs it
// ([Delivery.Recycle]).
func (d *decision) deliver(m *index.Message) *Delivery {
	given := d.newDelivery()
	*given = describe(m)
	d.reply = Reply{Kind: ReplyDelivery, Answer: given}
	return given
}

// slice is one slice as a decision finds it, with the settings in force for it.
type slice struct {
	*decision
	id     event.Slice
	entity *Entity
}

// envelope returns the envelope of every event about the slice that an origin asked for.
func (s *slice) envelope(o event.OriginID) event.Envelope {
	return event.Envelope{Slice: s.id, Origin: o}
}

// sendable refuses if the entity's status forbids sending (semantics.md 16.1).
func (s *slice) sendable() *Error {
	if st := s.entity.Properties.Status; st == event.Disabled || st == event.SendDisabled {
		return Refuse(Disabled, "The messaging entity '%s' is disabled for sending.", s.entity.Path)
	}
	return nil
}

// receivable refuses if the entity's status forbids receiving (semantics.md 16.1).
func (s *slice) receivable() *Error {
	if st := s.entity.Properties.Status; st == event.Disabled || st == event.ReceiveDisabled {
		return Refuse(Disabled, "The messaging entity '%s' is disabled for receiving.", s.entity.Path)
	}
	return nil
}

// room refuses more bytes than the slice's quota allows (semantics.md 16.3). The bytes of a
// subscription count with its topic.
func (s *slice) room(more int64) *Error {
	e, id := s.storingEntity()
	if e == nil {
		return nil // it is being deleted
	}
	quota := e.quota()
	added, _ := s.scratch.bytes.get(id)
	if stored := s.index.Bytes(id) + added + s.transactions.reserved(id, s.committing); more > 0 && stored+more > quota {
		return Refuse(EntityFull, "The maximum entity size has been reached or exceeded for %s: '%s'. "+
			"Size of entity in bytes:%d, Max entity size in bytes: %d.", e.Kind, e.Path, stored, quota)
	}
	return nil
}

// quota returns how many bytes each partition of an entity may store: an equal part of the entity's
// quota. An entity that does not come from the catalogue has no hosts.
func (e *Entity) quota() int64 {
	return int64(e.Properties.MaxSizeMegabytes) << 20 / int64(max(1, len(e.Hosts)))
}

// storingEntity returns the entity whose quota the slice's bytes count toward, and its slice. The
// entity is nil while it is being deleted.
func (s *slice) storingEntity() (*Entity, event.Slice) {
	e, id := s.settings.storingEntity(s.entity), s.id
	if e != nil {
		id.Entity = e.ID
	}
	return e, id
}
