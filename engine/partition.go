package engine

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Partition is the state machine of one partition: single-threaded, no clock, no I/O, no goroutine, no randomness.
type Partition struct {
	id       PartitionID
	width    int    // partitions of the namespace, for placement
	avoid    []bool // by partition: no new entity is placed there; nil: on all. An input: see Avoid
	history  int    // ids in the duplicate history of a slice, at most
	index    *index.Index
	entities map[event.EntityID]*Entity // settings in force, an input: see Configure

	events event.Pool
	out    []event.Event                  // scratch of the decision being made
	slab   []Delivery                     // deliveries not yet given out
	topics map[event.EntityID]*filter.Set // rules in force, an input: see Configure; by topic
	fan    fanOut
	plan   []planned
	// numbers of messages just stored, for a sender that asked
	numbers Numbers

	origins origins
	named   []*Origin // by the decision being made: each has its definition among the events, and the next number

	// turn counts decisions, the taking over of them, and changes: an outcome is good in its own turn only.
	turn uint64
}

// NewPartition is a state machine over a recovered index, in a namespace of width partitions.
func NewPartition(id PartitionID, width int, x *index.Index) *Partition {
	return &Partition{id: id, width: width, history: maxHistory, index: x, entities: map[event.EntityID]*Entity{},
		topics: map[event.EntityID]*filter.Set{},
		fan:    fanOut{given: map[event.EntityID]event.SequenceNumber{}}}
}

// Outcome is what a decision leads to. It is good until the partition decides again or changes: see [Partition.Adopt].
type Outcome struct {
	Events []event.Event  // one record
	Level  log.Durability // when the reply may leave
	Reply  Reply
	// Again asks to decide the same command once more after applying: the events cleared something out of the
	// way (an expired message), or there is more to look at than one decision should, and the command itself is not answered yet.
	Again bool
	Looks int // entries of the index looked at, of commands that say nothing of how many

	turn uint64 // of the partition that decided
}

// lookStep is how many entries of the index one decision looks at; a command that has to see more is decided again.
const lookStep = 2048

// Configure gives the settings of an entity in force from now on. They decide what follows; what was decided stands in
// the events (semantics.md 4.3 R5).
func (p *Partition) Configure(e *Entity) { p.entities[e.ID] = e }

// ConfigureRules gives the rules of a subscription in force from now on, instead of those it had. An error says which of
// them cannot be compiled; that one is left out.
func (p *Partition) ConfigureRules(sub *Entity, rules []event.Rule) error {
	set := p.rulesOf(sub.Topic)
	set.Drop(sub.ID)
	var errs []error
	for _, r := range rules {
		if err := set.Put(sub.ID, r); err != nil {
			errs = append(errs, fmt.Errorf("engine: rule %q of %s: %w", r.Name, sub.Path, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Partition) rulesOf(topic event.EntityID) *filter.Set {
	set := p.topics[topic]
	if set == nil {
		set = filter.NewSet()
		p.topics[topic] = set
	}
	return set
}

// Forget takes back the settings and the rules of an entity that is no more.
func (p *Partition) Forget(id event.EntityID) {
	if e := p.entities[id]; e != nil && e.Kind == event.Subscription {
		if set := p.topics[e.Topic]; set != nil {
			set.Drop(id)
		}
	}
	delete(p.entities, id)
	delete(p.topics, id)
}

// ConfigureRule gives one rule of a subscription in force, new or changed. An error says why it cannot be compiled.
func (p *Partition) ConfigureRule(sub *Entity, r event.Rule) error {
	return p.rulesOf(sub.Topic).Put(sub.ID, r)
}

// ForgetRule takes the rule of a name out of force.
func (p *Partition) ForgetRule(sub *Entity, name string) { p.rulesOf(sub.Topic).Remove(sub.ID, name) }

// Avoid names the partitions on which no new entity is placed, by their numbers. Only the catalogue's partition is told.
func (p *Partition) Avoid(partitions []bool) { p.avoid = partitions }

// ID is the number of the partition.
func (p *Partition) ID() PartitionID { return p.id }

// Entity is the version of an entity that is in force for a slice of it. It refuses with NotFound.
func (p *Partition) Entity(id event.Slice) (*Entity, *Error) {
	if e := p.entities[id.Entity]; e != nil {
		return e, nil
	}
	return nil, Refuse(NotFound, "The messaging entity with id %d could not be found.", id.Entity)
}

// Entities yields the entities with settings in force, in no order.
func (p *Partition) Entities() iter.Seq[*Entity] { return maps.Values(p.entities) }

// Index is the partition's state, to be read.
func (p *Partition) Index() *index.Index { return p.index }

// NextDeadline is when the partition next wants a [Tick]; 0 is never.
func (p *Partition) NextDeadline() event.Time { return p.index.NextDeadline() }

// Apply changes the state by an event. It touches, it does not decide, and nothing but the event counts: which decision it came
// from, or that there was none, makes no difference.
func (p *Partition) Apply(at event.Time, ev event.Event) {
	p.turn++
	p.index.Apply(at, ev)
}

// Adopt tells that the events of an outcome become the next record of the log: they are written and applied before anything else is.
// From here on the origins that they define have their numbers. An outcome was found on the state as it was, with numbers that come
// next, and its events are lent until the next decision. One that was overtaken, by a decision, by an event or by having been
// adopted, is a bug of the caller, who has to decide again: Adopt panics before anything of it can get into the log.
func (p *Partition) Adopt(out *Outcome) {
	if out.turn != p.turn {
		panic(fmt.Sprintf("engine: partition %d: an outcome of turn %d in turn %d", p.id, out.turn, p.turn))
	}
	p.turn++
	for i, o := range p.named {
		p.origins.learn(o, p.index.NextOrigin()+event.OriginID(i))
	}
}

// Decide looks at a command and answers what follows from it at the given broker time. It does not touch the state: the
// caller writes the events and applies them. A refusal is in the reply; it can come with events, when looking showed that
// the time of something has passed.
func (p *Partition) Decide(now event.Time, cmd Command) Outcome {
	p.events.Reset()
	p.turn++
	p.out, p.named = p.out[:0], p.named[:0]
	out := p.decide(now, cmd)
	out.turn = p.turn
	return out
}

func (p *Partition) decide(now event.Time, cmd Command) Outcome {
	switch cmd := cmd.(type) {
	case *Send:
		return p.send(now, cmd)
	case *Receive:
		return p.receive(now, cmd)
	case *Settle:
		return p.settle(now, cmd)
	case *Renew:
		return p.renew(now, cmd)
	case *Peek:
		return p.peek(cmd)
	case *Tick:
		return p.tick(now, cmd)
	case *PutEntity:
		return p.putEntity(now, cmd)
	case *DeleteEntity:
		return p.deleteEntity(cmd)
	case *PutRule:
		return p.putRule(now, cmd)
	case *DeleteRule:
		return p.deleteRule(cmd)
	case *ListRules:
		return p.listRules(cmd)
	case *ReceiveDeferred:
		return p.receiveDeferred(now, cmd)
	case *CancelScheduled:
		return p.cancelScheduled(cmd)
	case *BatchDelete:
		return p.batchDelete(now, cmd)
	case *acceptSession:
		return p.acceptSession(now, cmd)
	case *releaseSession:
		return p.releaseSession(now, cmd)
	case *releaseAll:
		return p.releaseAll(now)
	case *RenewSession:
		return p.renewSession(now, cmd)
	case *SetSessionState:
		return p.setSessionState(now, cmd)
	case *GetSessionState:
		return p.getSessionState(cmd)
	case *ListSessions:
		return p.listSessions(cmd)
	case *sweep:
		return p.sweep(now, cmd)
	case *dropSlice:
		return p.dropSlice(cmd)
	case *touch:
		return p.touch(cmd)
	}
	panic(fmt.Sprintf("engine: partition asked to decide %T", cmd))
}

func (p *Partition) refused(err *Error) Outcome {
	return Outcome{Events: p.out, Level: level(p.out), Reply: Reply{Err: err}}
}

// refusedWhole is a refusal that takes everything back that this decision has written down so far.
func (p *Partition) refusedWhole(err *Error) Outcome {
	p.out, p.named = p.out[:0], p.named[:0]
	return p.refused(err)
}

func (p *Partition) done(l log.Durability) Outcome { return Outcome{Events: p.out, Level: l} }

// level is Durable as soon as there is an event at all.
func level(events []event.Event) log.Durability {
	if len(events) == 0 {
		return log.Ordered
	}
	return log.Durable
}

// origin is the number of an origin in this log; the first use of one adds its definition to the record.
func (p *Partition) origin(o *Origin) event.OriginID {
	if o == nil {
		return 0
	}
	if id, ok := p.origins.numbers[o]; ok {
		return id
	}
	next := p.index.NextOrigin()
	if i := slices.Index(p.named, o); i >= 0 {
		return next + event.OriginID(i)
	}
	def := p.events.New(event.KindOriginDefined).(*event.OriginDefined)
	def.ID, def.Origin = next+event.OriginID(len(p.named)), clipped(o)
	p.named = append(p.named, o)
	p.out = append(p.out, def)
	return def.ID
}

func envelope(id event.Slice, o event.OriginID) event.Envelope {
	return event.Envelope{Slice: id, Origin: o}
}
