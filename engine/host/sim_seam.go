package host

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What a simulation that drives loops by hand needs of what [Namespace] does.

// Enforce is the command that puts an entity's settings in force where it lives and, if ruled, the rules of a subscription instead
// of those it had. [Namespace] sends it when the change is durable.
func Enforce(e *engine.Entity, ruled bool, rules []event.Rule) engine.Command {
	return &configure{entity: e, ruled: ruled, rules: rules}
}

// EnforceRule is the command that puts a rule of a subscription in force, new or changed, or takes the one named out of force.
func EnforceRule(sub *engine.Entity, put *event.Rule, remove string) engine.Command {
	return &configure{entity: sub, put: put, remove: remove}
}

// DropSlice is the command that has a partition forget a slice of an entity that was deleted, and the entity. [Namespace] sends it
// when the deletion is durable.
func DropSlice(id event.Slice) engine.Command { return &dropSlice{slice: id} }

// Usage is the command that asks a partition which of its entities are in use without anything being asked of them, for
// [engine.NewIdleness]. [InUse] reads the answer.
func Usage() engine.Command { return &usage{} }

// InUse is the answer to a [Usage], else nil.
func InUse(r *engine.Reply) []event.EntityID {
	busy, _ := r.Answer.(inUse)
	return busy.ids
}

// Over is what a courier tells the loop of its log: what became of transfers of a slice.
type Over struct {
	Source  event.Slice
	Arrived []event.TransferNumber
	Failed  []engine.FailTransfer
	Trigger event.Trigger
}

// OverOf is what a [Courier] tells a loop of transfers; false where the command is none of this kind.
func OverOf(cmd engine.Command) (o Over, ok bool) {
	over, ok := cmd.(*loop.TransfersOver)
	if !ok {
		return o, false
	}
	return Over{over.Source, over.Arrived, over.Failed, over.Trigger}, true
}

// GiveOrder gives a loop that does not run yet the standing orders of an entity. [Namespace] does so at a start.
func GiveOrder(l *Loop, e *engine.Entity, find func(lower string) *engine.Entity) {
	l.transfers.order(Order(e, find).(*ordered))
}

// Follow is the event that tells a partition which was not there when the broker started of the decisions about clocks that its state lacks; nil:
// it lacks none. [Namespace] asks when such a one comes back.
func Follow(s *ClockStart, x *index.Index, now event.Time, wall time.Time) *event.ClockSet {
	return s.follow(x, now, wall)
}

// RetryNow has a courier not wait for destinations any longer. [Namespace] does so when a partition is back.
func RetryNow(c *Courier) { c.Post([]engine.Reply{{Answer: &retryNow{}}}) }

// Carried says how many of a loop's transfers a courier has, by the loop's count and in fact; "" when both are none, as they must be when
// nothing is in transfer. A transfer that was counted once too often is never handed over again, and less and less moves.
func Carried(l *Loop, c *Courier) string {
	f, kinds := &l.transfers, 0
	for _, d := range f.sources {
		for _, o := range d.queues {
			kinds += o.count
		}
	}
	if f.outstanding == 0 && kinds == 0 && len(c.streams) == 0 && len(c.inFlight) == 0 && c.bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%d transfers are outstanding, %d of all kinds; the courier has %d streams, %d batches and %d bytes",
		f.outstanding, kinds, len(c.streams), len(c.inFlight), c.bytes)
}

// Admitted is those of some requests to a loop that get into its mailbox: those that its disk keeps from being carried out are turned away before.
// [Loop.Submit] asks.
func Admitted(on log.Writer, requests []engine.Request) []engine.Request {
	kept, refused, why := withoutNew(on, requests)
	turnAway(refused, why)
	return kept
}

// TurnAway answers requests to a partition that nobody there has looked at nor will: what goes to several ports of a receiver counts as said by that
// of the partition.
func TurnAway(requests []engine.Request, err error) { turnAway(requests, err) }

// Ports is what the ports of a receiver share.
type Ports struct {
	Left    int32  // deliveries that it takes
	Flows   uint32 // that are in force, or were
	Owing   uint32 // ports that have not answered its drain
	Looking int32  // ports that have not looked for its session
	Spoken  bool   // its attach has an answer
	Line    uint32 // ports that stand in line for its last credit, a bit for each
	Last    uint8  // port that took the last one that went by the line
	Taken   uint32 // how many were taken
}

// PortsOf is what the ports of a receiver share now.
func PortsOf(r *engine.Receiver) Ports {
	l := linkOf(r)
	s := l.credit.state()
	return Ports{Left: s.left, Flows: s.flows, Owing: s.owing, Looking: l.looking.Load(), Spoken: l.spoken.Load(),
		Line: l.line.ports.Load(), Last: uint8(l.line.last.Load()), Taken: l.line.taken.Load()}
}

// WatchPorts has a function called before each look that a port of a receiver takes at what they share. It reports whether there are several.
func WatchPorts(r *engine.Receiver, look func()) bool {
	l := linkOf(r)
	if l.shared() {
		l.step = look
	}
	return l.shared()
}

// End is the end of a loop that does not run: all who wait for it hear that nobody knows what became of what they asked for. [Loop.Run] does so when
// the log fails, and most of it when an operator fences a partition.
func End(l *Loop) {
	l.recorder.err = cmp.Or(l.recorder.err, engine.ErrUnknown)
	l.abort()
}
