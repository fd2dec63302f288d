package engine

import (
	"fmt"
	"iter"
	"maps"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Partition is the state machine of one partition: single-threaded, no clock, no I/O, no goroutine,
// no randomness.
type Partition struct {
	id    PartitionID
	width int // partitions of the namespace, for placement
	// by partition: no new entity is placed there; nil: on all. An input: see Avoid
	avoid     []bool
	split     int // an input: see Split
	mostSplit int // see SplitAtMost

	index        *index.Index
	settings     settings
	origins      origins
	transactions transactions
	decision     decision // the last one

	// turn counts decisions, adoptions and changes: an outcome is valid in its own turn only.
	turn uint64
}

// NewPartition is a state machine over a recovered index, in a namespace of width partitions.
func NewPartition(id PartitionID, width int, x *index.Index) *Partition {
	p := &Partition{id: id, width: width, index: x, settings: settings{entities: map[event.EntityID]*Entity{},
		topics: map[event.EntityID]*filter.Set{}, history: maxHistory}, transactions: newTransactions(x)}
	p.decision = decision{index: x, settings: &p.settings, origins: &p.origins, transactions: &p.transactions}
	return p
}

// Outcome is what a decision leads to. It is valid until the partition decides again or changes:
// see [Partition.Adopt].
type Outcome struct {
	Events []event.Event  // one record
	Level  log.Durability // when the reply may leave
	Reply  Reply
	// Again asks to decide once more after applying, for the command is not answered yet: the
	// events cleared something out of its way (an expired message), or there is more to look at
	// than one decision should.
	Again bool
	// Rest is, with Again, the command to decide then: what is left of one that was carried out in
	// part. Nil: the same one.
	Rest  Command
	Looks int // entries of the index looked at, for commands that do not say how many they need
	// Lazy says that the events are facts: they change nothing, no reply waits for them, and they
	// may wait for other records to share a frame with.
	Lazy bool
	// Note is, with a refusal that belongs in the log, the command that puts it there: behind the
	// events, or not at all where there are too many of them.
	Note *Note

	turn uint64 // of the partition that decided
}

// lookStep is how many entries of the index one decision looks at; a command that has to see more
// is decided again.
const lookStep = 2048

// Configure puts the settings of an entity in force. They decide what follows; what was decided
// stands in the events (semantics.md 4.3 R5).
func (p *Partition) Configure(e *Entity) { p.settings.entities[e.ID] = e }

// ConfigureRules puts the rules of a subscription in force, instead of those it had. An error says
// which of them cannot be compiled; that one is left out.
func (p *Partition) ConfigureRules(sub *Entity, rules []event.Rule) error {
	return p.settings.replaceRules(sub, rules)
}

// ConfigureRule puts one rule of a subscription in force, new or changed. An error says why it
// cannot be compiled.
func (p *Partition) ConfigureRule(sub *Entity, r event.Rule) error {
	return p.settings.rulesOf(sub.Topic).Put(sub.ID, r)
}

// ForgetRule takes the rule with a name out of force.
func (p *Partition) ForgetRule(sub *Entity, name string) {
	p.settings.rulesOf(sub.Topic).Remove(sub.ID, name)
}

// Forget takes back the settings and the rules of an entity that is no more.
func (p *Partition) Forget(id event.EntityID) { p.settings.forget(id) }

// Avoid names the partitions on which no new entity is placed, by their numbers. Only the
// catalogue's partition is told.
func (p *Partition) Avoid(partitions []bool) { p.avoid = partitions }

// Split says how many partitions a queue or topic gets that is created to be partitioned; 1 or
// less: one, as all others. Only the catalogue's partition is told.
func (p *Partition) Split(partitions int) { p.split = min(partitions, event.MaxEntityPartitions) }

// SplitAtMost says how many partitioned queues and topics a namespace may have; 0: 100. Only the
// catalogue's partition is told.
func (p *Partition) SplitAtMost(entities int) { p.mostSplit = entities }

// DrawIDs sets the random source of newid() in rules. What was drawn stands in the events. Only a
// rule that calls newid() draws from it, once for each call.
func (p *Partition) DrawIDs(from func() [16]byte) { p.settings.newID = from }

// RefuseSends has every send refused from now on; nil: none any more.
func (p *Partition) RefuseSends(with *Error) { p.settings.noSends = with }

// RefuseHandOvers has every send refused from now on whose messages are for another entity; nil:
// none any more.
func (p *Partition) RefuseHandOvers(with *Error) { p.settings.noHandOvers = with }

// Splits reports whether an entity that is created to be partitioned gets several partitions.
func (p *Partition) Splits() bool { return p.split > 1 }

// RefuseSplits has every entity refused from now on that would have several partitions; nil: none
// any more.
func (p *Partition) RefuseSplits(with *Error) { p.settings.noSplits = with }

// RefuseTransactions has every operation of a transaction refused from now on; nil: none any more.
// Those that are open can be discharged.
func (p *Partition) RefuseTransactions(with *Error) { p.transactions.none = with }

// ID is the number of the partition.
func (p *Partition) ID() PartitionID { return p.id }

// Entity is the version of an entity that is in force for a slice of it. It refuses with NotFound.
func (p *Partition) Entity(id event.Slice) (*Entity, *Error) { return p.settings.of(id) }

// Entities yields the entities with settings in force, in no order.
func (p *Partition) Entities() iter.Seq[*Entity] { return maps.Values(p.settings.entities) }

// Index is the partition's state, to be read.
func (p *Partition) Index() *index.Index { return p.index }

// NextDeadline is when the partition next wants a [Tick]; 0 is never.
func (p *Partition) NextDeadline() event.Time {
	at, tx := p.index.NextDeadline(), p.transactions.deadline()
	if at == 0 || tx != 0 && tx < at {
		return tx
	}
	return at
}

// Apply changes the state by an event. It touches, it does not decide, and nothing but the event
// counts: which decision it came from, or that there was none, makes no difference.
func (p *Partition) Apply(at event.Time, ev event.Event) {
	p.turn++
	p.index.Apply(at, ev)
}

// Adopt says that the events of an outcome become the next record of the log: they are written and
// applied before anything else is. From here on the origins that they define have their numbers. An
// outcome belongs to the state that it was decided on, and its events are valid until the next
// decision. To adopt one that was overtaken, by a decision, by an event or by having been adopted,
// is a bug of the caller, who has to decide again: Adopt panics before anything of it can get into
// the log.
func (p *Partition) Adopt(out *Outcome) {
	if out.turn != p.turn {
		panic(fmt.Sprintf("engine: partition %d: an outcome of turn %d in turn %d", p.id, out.turn, p.turn))
	}
	p.turn++
	for _, n := range p.decision.named {
		p.origins.learn(n.origin, n.id)
	}
	if p.decision.staging.in != nil {
		p.transactions.adopt(&p.decision.staging, &p.decision.scratch)
	}
	if p.decision.adopt != nil {
		p.decision.adopt()
	}
}

// BeginChapter says that what is decided from here on stands in another chapter of the log, which
// has to define the origins that its events name: those that are known already keep their numbers.
// An outcome that was not adopted before is overtaken.
func (p *Partition) BeginChapter() {
	p.turn++
	p.origins.chapter++
}

// Decide looks at a command and answers what follows from it at the given broker time. It does not
// touch the state: the caller writes the events and applies them. A refusal is in the reply; it can
// come with events, when looking showed that the time of something has passed.
func (p *Partition) Decide(now event.Time, cmd Command) Outcome {
	p.turn++
	p.decision.begin(now)
	out := p.decision.outcome(p.decide(&p.decision, cmd))
	out.turn = p.turn
	return out
}

// decide has the rule for a command fill in a decision.
func (p *Partition) decide(d *decision, cmd Command) *Error {
	switch cmd := cmd.(type) {
	case *Send:
		return send(d, cmd)
	case *Receive:
		return receive(d, cmd)
	case *Settle:
		return settle(d, cmd)
	case *Renew:
		return renew(d, cmd)
	case *Peek:
		return peek(d, cmd)
	case *Tick:
		tick(d, cmd)
	case *ReceiveDeferred:
		return receiveDeferred(d, cmd)
	case *CancelScheduled:
		return cancelScheduled(d, cmd)
	case *BatchDelete:
		return batchDelete(d, cmd)
	case *acceptSession:
		return accept(d, cmd)
	case *releaseSession:
		release(d, cmd)
	case *releaseAll:
		releaseSome(d)
	case *RenewSession:
		return renewSession(d, cmd)
	case *SetSessionState:
		return setSessionState(d, cmd)
	case *GetSessionState:
		return getSessionState(d, cmd)
	case *ListSessions:
		return listSessions(d, cmd)
	case *sweep:
		sweepSome(d, cmd)
	case *dropSlice:
		drop(d, cmd)
	case *Note:
		note(d, cmd)
	case *Stage:
		return p.stage(d, cmd)
	case *Commit:
		return p.commit(d, cmd)
	case *Rollback:
		return p.rollback(d, cmd)
	case *Forward:
		return forward(d, cmd)
	case *Import:
		return take(d, cmd)
	case *FinishTransfers:
		finishTransfers(d, cmd)
	case *FailTransfer:
		failTransfer(d, cmd)
	case *ForgetSource:
		forgetSource(d, cmd)
	default:
		return p.catalogue().decide(cmd)
	}
	return nil
}
