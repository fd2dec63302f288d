package host

import (
	"context"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Receiving implements [engine.Live]. A partition that is behind its disk takes no requests, so
// what can be seen from outside is returned even if the partition does not answer. Receiving never
// waits for room in a mailbox.
func (ps *partitions) Receiving(ctx context.Context, of engine.Target) []engine.PartitionNow {
	hosts := slices.Compact(slices.Sorted(slices.Values(of.Entity.Hosts)))
	all := make([]engine.PartitionNow, len(hosts))
	replies := make(answer, 2*len(hosts))
	left := 0
	conditions := ps.Conditions()
	for i, id := range hosts {
		all[i] = engine.PartitionNow{ID: id, State: ps.status(id).State}
		for _, c := range conditions {
			if c.Partition < 0 || c.Partition == int(id) {
				all[i].Conditions = append(all[i].Conditions, c.State)
			}
		}
		l := ps.loop(id)
		if l == nil {
			continue
		}
		all[i].Mail, all[i].MaxMail, _ = l.Backlog()
		if took, _ := l.SubmitNow([]engine.Request{
			{Command: loop.Look(of), Sink: replies, Tag: uint64(i)},
			{Command: countStates(of), Sink: replies, Tag: uint64(i)},
		}); took {
			left += 2
		}
	}
	for ; left > 0; left-- {
		select {
		case r := <-replies:
			switch said := r.Answer.(type) {
			case loop.LookAnswer:
				now := &all[r.Tag]
				now.Answered, now.Late, now.Attached, now.MaxAttached, now.Ports = true, said.Late, said.Attached, said.MaxAttached, said.Ports
			case stateCounts:
				all[r.Tag].Messages = &said.MessagesNow
			}
		case <-ctx.Done():
			left = 1 // the remaining answers are not waited for
		}
	}
	for i := range all {
		if l := ps.loop(all[i].ID); l != nil && !all[i].Answered {
			all[i].Mail, _, all[i].Turn = l.Backlog()
		}
	}
	return all
}

// stateCounts is the answer to [countStates].
type stateCounts struct {
	engine.Internal
	engine.MessagesNow
}

// countStates returns the command that counts the messages of a sub-queue in a partition. For a
// main queue it counts those of the whole entity. The answer waits until
// everything it shows is durable.
func countStates(of engine.Target) engine.Command {
	return loop.Do(func(part *engine.Partition) engine.Reply {
		x, n := part.Index(), engine.MessagesNow{}
		for i, h := range of.Entity.Hosts {
			if h != part.ID() {
				continue
			}
			id := event.Slice{Entity: of.Entity.ID, Partition: uint8(i)}
			count := func(st index.State) int { return x.Count(id, of.SubQueue, st) }
			n.Available += count(index.Active)
			n.Locked += count(index.Locked) + count(index.DeferredLocked)
			n.Deferred += count(index.Deferred) + count(index.DeferredLocked)
			n.AddQueue(x, id, of.SubQueue)
		}
		return engine.Reply{Answer: stateCounts{MessagesNow: n}}
	})
}
