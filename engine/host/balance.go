package host

import (
	"maps"
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Producers wait for consumers (docs/decisions/0076). Where a queue's consumers settle nearly as fast as its producers send, the two share processors and
// disk, and whoever is a little faster decides whether messages wait a millisecond or ever longer. So when messages begin to wait behind such consumers,
// answers to sends leave a sync or two later than they could, and producers that wait for answers send less. Nothing but the time of these answers changes.
//
// Consumers that are slower than that, or behind for long, are not waited for: a queue is there to hold what they have not come to yet.

const (
	// mostSyncs bounds for how many syncs an answer waits, besides its own.
	mostSyncs = 4
	// mostBehind bounds how far behind consumers are waited for, in groups of what they settle: some tenths of a second.
	mostBehind = 256
	// maxRest bounds how long an answer waits for these syncs.
	maxRest = 20 * time.Millisecond
	// parts of a sync, and of a message, in which a balance counts.
	syncParts, messageParts = 256, 16
	// smoothing is how many groups an average is about.
	smoothing = 4
)

// balance is how messages of a queue or subscription come and go while somebody receives from it, by groups of frames that are synced together.
type balance struct {
	counted    bool // is among balances.moved
	came, gone int  // messages, in the group being filled
	comes      int  // on average of the groups before, in messageParts
	goes       int
	syncs      int // for how many an answer to a send waits, in syncParts
	owed       int // of that, what is less than one sync and was not waited for yet
}

// group begins the next group, with so many messages waiting that nobody has a lock on. It reports whether there is anything left to count.
func (b *balance) group(waiting int) bool {
	b.comes += (b.came*messageParts - b.comes) / smoothing
	b.goes += (b.gone*messageParts - b.goes) / smoothing
	b.came, b.gone, b.syncs = 0, 0, 0
	if settled := b.goes / messageParts; settled >= largeGroup && 2*b.goes >= b.comes && waiting < mostBehind*settled {
		b.syncs = min(mostSyncs*syncParts, syncParts*waiting/settled)
	}
	return b.comes >= messageParts || b.goes >= messageParts
}

// next is for how many syncs the answer to the next send waits.
func (b *balance) next() int {
	b.owed += b.syncs
	n := b.owed / syncParts
	b.owed %= syncParts
	return n
}

// balances are those of the queues and subscriptions that somebody receives from.
type balances struct {
	moved  []*entityReceivers          // whose messages came or went lately
	topics map[event.EntityID]*balance // of those, the ones whose producers wait: for how many syncs
	forced func() int                  // see [LoopOptions].Syncs
}

// count counts messages that came or went; nil: nobody receives them.
func (b *balances) count(e *entityReceivers, came, gone int) {
	if e == nil {
		return
	}
	e.balance.came += came
	e.balance.gone += gone
	if !e.balance.counted {
		e.balance.counted = true
		b.moved = append(b.moved, e)
	}
}

// sealed is called when a group has been handed over.
func (b *balances) sealed(x *index.Index) {
	for _, t := range b.topics {
		t.syncs = 0
	}
	kept := b.moved[:0]
	for _, e := range b.moved {
		if e.balance.group(e.active(x)) {
			kept = append(kept, e)
		} else {
			e.balance = balance{}
		}
		if e.topic != 0 && e.balance.syncs > 0 {
			b.publishers(e.topic, e.balance.syncs)
		}
	}
	clear(b.moved[len(kept):])
	b.moved = kept
	maps.DeleteFunc(b.topics, func(_ event.EntityID, t *balance) bool { return t.syncs == 0 })
}

// publishers has answers to sends to a topic wait as one of its subscriptions needs.
func (b *balances) publishers(topic event.EntityID, syncs int) {
	t := b.topics[topic]
	if t == nil {
		t = new(balance)
		b.topics[topic] = t
	}
	t.syncs = max(t.syncs, syncs)
}

// syncs is for how many syncs the answer to a send to an entity waits, besides its own, where these are all that receive.
func (b *balances) syncs(entity event.EntityID, of map[event.EntityID]*entityReceivers) int {
	switch {
	case b.forced != nil:
		return b.forced()
	case len(b.moved) == 0: // nothing comes or goes where somebody receives
		return 0
	}
	if e := of[entity]; e != nil {
		return e.balance.next()
	}
	if t := b.topics[entity]; t != nil {
		return t.next()
	}
	return 0
}

// active is how many messages of an entity wait for receivers without a session. Without such receivers it is 0.
func (e *entityReceivers) active(x *index.Index) (n int) {
	if len(e.queues) == 0 || e.queues[0].subQueue != event.Main {
		return 0
	}
	for partition := range e.queues[0].local.all() {
		n += x.Count(event.Slice{Entity: e.entity, Partition: partition}, event.Main, index.Active)
	}
	return n
}
