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

	// turn counts decisions, adoptions and changes: an outcome is valid only in its own turn.
	turn uint64
}

// NewPartition returns a state machine over a recovered index, in a namespace of width partitions.
func NewPartition(id PartitionID, width int, x *index.Index) *Partition {
	p := &Partition{id: id, width: width, index: x, settings: settings{entities: map[event.EntityID]*Entity{},
		topics: map[event.EntityID]*filter.Set{}, history: maxHistory}, transactions: newTransactions(x)}
	p.decision = decision{index: x, settings: &p.settings, origins: &p.origins, transactions: &p.transactions}
	return p
}

// Outcome is the result of a decision. It is valid until the partition decides again or changes:
// see [Partition.Adopt].
type Outcome struct {
	Events []event.Event  // one record
	Level  log.Durability // when the reply may leave
	Reply  Reply
	// Again asks to decide once more after applying, because the command is not answered yet: the
	// events removed an obstacle (an expired message), or there is more to look at than one
	// decision should.
	Again bool
	// Rest is, with Again, the command to decide next: the remainder of a command that was carried
	// out in part. Nil: the same command.
	Rest  Command
	Looks int // entries of the index looked at, for commands that do not tell how many they need
	// Lazy means that the events are facts: they change nothing, no reply waits for them, and they
	// may wait for other records to share a frame with.
	Lazy bool
	// Note is, with a refusal that belongs in the log, the command that writes it there: after the
	// events, or not at all if there are too many such notes.
	Note *Note

	turn uint64 // of the partition that decided
}

// lookStep is the number of entries of the index that one decision looks at. A command that has to
// see more is decided again.
const lookStep = 2048

// Configure puts the settings of an entity in force. They apply to later decisions; the events hold
// the earlier ones (semantics.md 4.3 R5).
func (p *Partition) Configure(e *Entity) { p.settings.entities[e.ID] = e }

// ConfigureRules puts the rules of a subscription in force, instead of its previous ones. An error
// tells which rules cannot be compiled; those are left out.
func (p *Partition) ConfigureRules(sub *Entity, rules []event.Rule) error {
	return p.settings.replaceRules(sub, rules)
}

// ConfigureRule puts one new or changed rule of a subscription in force. An error tells why it
// cannot be compiled.
func (p *Partition) ConfigureRule(sub *Entity, r event.Rule) error {
	return p.settings.rulesOf(sub.Topic).Put(sub.ID, r)
}

// ForgetRule takes the rule with a name out of force.
func (p *Partition) ForgetRule(sub *Entity, name string) {
	p.settings.rulesOf(sub.Topic).Remove(sub.ID, name)
}

// Forget removes the settings and the rules of a deleted entity.
func (p *Partition) Forget(id event.EntityID) { p.settings.forget(id) }

// Avoid names the partitions on which no new entity is placed, by their numbers. Only the
// catalogue's partition is told.
func (p *Partition) Avoid(partitions []bool) { p.avoid = partitions }

// Split sets how many partitions a new partitioned queue or topic gets; 1 or less: one, as all
// others. Only the catalogue's partition is told.
func (p *Partition) Split(partitions int) { p.split = min(partitions, event.MaxEntityPartitions) }

// SplitAtMost sets how many partitioned queues and topics a namespace may have; 0: 100. Only the
// catalogue's partition is told.
func (p *Partition) SplitAtMost(entities int) { p.mostSplit = entities }

// DrawIDs sets the random source of newid() in rules. The events hold the values drawn. Only a rule
// that calls newid() draws from it, once for each call.
func (p *Partition) DrawIDs(from func() [16]byte) { p.settings.newID = from }

// RefuseSends refuses every send from now on; nil ends that.
func (p *Partition) RefuseSends(with *Error) { p.settings.noSends = with }

// RefuseHandOvers refuses every send from now on whose messages are for another entity; nil ends
// that.
func (p *Partition) RefuseHandOvers(with *Error) { p.settings.noHandOvers = with }

// Splits reports whether an entity that is created to be partitioned gets several partitions.
func (p *Partition) Splits() bool { return p.split > 1 }

// RefuseSplits refuses every new entity from now on that would have several partitions; nil ends
// that.
func (p *Partition) RefuseSplits(with *Error) { p.settings.noSplits = with }

// RefuseTransactions refuses every operation of a transaction from now on; nil ends that. Open
// transactions can be discharged.
func (p *Partition) RefuseTransactions(with *Error) { p.transactions.none = with }

// ID returns the number of the partition.
func (p *Partition) ID() PartitionID { return p.id }

// Entity returns the version of an entity that is in force for a slice of it. It refuses with
// NotFound.
func (p *Partition) Entity(id event.Slice) (*Entity, *Error) { return p.settings.of(id) }

// Entities yields the entities with settings in force, in no order.
func (p *Partition) Entities() iter.Seq[*Entity] { return maps.Values(p.settings.entities) }

// Index returns the partition's state, read only.
func (p *Partition) Index() *index.Index { return p.index }

// NextDeadline returns when the partition next wants a [Tick]; 0 is never.
func (p *Partition) NextDeadline() event.Time {
	at, tx := p.index.NextDeadline(), p.transactions.deadline()
	if at == 0 || tx != 0 && tx < at {
		return tx
	}
	return at
}

// Apply changes the state by an event. It does not decide, and only the event counts: it makes no
// difference which decision the event came from, or that there was none.
func (p *Partition) Apply(at event.Time, ev event.Event) {
	p.turn++
	p.index.Apply(at, ev)
}

// Adopt makes the events of an outcome the next record of the log: they are written and applied
// before anything else is. From here on the origins that they define have their numbers. An outcome
// belongs to the state that it was decided on, and its events are valid until the next decision. It
// is a bug of the caller to adopt an outcome after another decision, after an event, or twice.
// Adopt then panics before any of it can get into the log; the caller has to decide again.
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

// BeginChapter begins another chapter of the log: later decisions have to define the origins that
// their events name. Known origins keep their numbers. An outcome that was not adopted before is
// invalid.
func (p *Partition) BeginChapter() {
	p.turn++
	p.origins.chapter++
}

// Decide looks at a command and returns what follows from it at the given broker time. It does not
// touch the state: the caller writes the events and applies them. A refusal is in the reply. It can
// come with events, for overdue items that the decision found.
func (p *Partition) Decide(now event.Time, cmd Command) Outcome {
	p.turn++
	p.decision.begin(now)
	out := p.decision.outcome(p.decide(&p.decision, cmd))
	out.turn = p.turn
	return out
}

// decide runs the rule for a command, which fills a decision.
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
