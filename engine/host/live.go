package host

import (
	"context"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Receiving implements [engine.Live]. What others can see of a partition is told even where the partition does not
// answer: it takes no request while it is behind its disk. Nothing here waits for room in a mailbox.
func (ps *partitions) Receiving(ctx context.Context, of engine.Target) []engine.PartitionNow {
	hosts := slices.Compact(slices.Sorted(slices.Values(of.Entity.Hosts)))
	all := make([]engine.PartitionNow, len(hosts))
	replies := make(answer, 2*len(hosts))
	left := 0
	conditions := ps.Conditions()
	for i, id := range hosts {
		all[i] = engine.PartitionNow{ID: id, State: ps.status(id).State, MaxMail: maxMail}
		for _, c := range conditions {
			if c.Partition < 0 || c.Partition == int(id) {
				all[i].Conditions = append(all[i].Conditions, c.State)
			}
		}
		l := ps.loop(id)
		if l == nil {
			continue
		}
		all[i].Mail = l.mail.waiting()
		look := &look{of: of}
		if took, _ := l.mail.offer([]engine.Request{
			{Command: look, Sink: replies, Tag: uint64(i)},
			{Command: &countStates{look}, Sink: replies, Tag: uint64(i)},
		}); took {
			left += 2
		}
	}
	for ; left > 0; left-- {
		select {
		case r := <-replies:
			switch said := r.Answer.(type) {
			case looked:
				now := &all[r.Tag]
				now.Answered, now.Late, now.Attached, now.MaxAttached, now.Ports = true, said.late, said.attached, said.maxAttached, said.ports
			case statesCounted:
				all[r.Tag].Messages = &said.MessagesNow
			}
		case <-ctx.Done():
			left = 1 // the others are not waited for, either
		}
	}
	for i := range all {
		if l := ps.loop(all[i].ID); l != nil && !all[i].Answered {
			all[i].Mail, all[i].Turn = l.mail.waiting(), l.turn.lasts()
		}
	}
	return all
}

// waiting is how many requests the loop has not taken.
func (m *mailbox) waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mail)
}

// look asks a loop for the receivers of a sub-queue. Its answer leaves at once: what it tells is in no log.
type look struct {
	engine.Internal
	of engine.Target
}

// looked is the answer to a look.
type looked struct {
	engine.Internal
	late                  int
	attached, maxAttached int
	ports                 []engine.PortNow
}

// countStates asks a loop for the messages of a sub-queue. Its answer waits, as others do, until all that it shows is
// durable.
type countStates struct{ *look }

// statesCounted is the answer to it.
type statesCounted struct {
	engine.Internal
	engine.MessagesNow
}

// tell returns what a loop knows of the receivers of the sub-queue.
func (k *look) tell(l *Loop) engine.Reply {
	w := &l.waiting
	counted := k.of.Entity.Topic
	if counted == 0 {
		counted = k.of.Entity.ID
	}
	said := looked{late: l.late.count, attached: w.counts[counted], maxAttached: w.limit}
	unwritten := map[*receiver]int{}
	for i := range l.replies.grants {
		if h := &l.replies.grants[i]; h.receiver != nil && h.reply.Kind == engine.ReplyDelivery {
			unwritten[h.receiver]++
		}
	}
	places := map[*receiverQueue]map[*receiver]int{}
	for _, r := range w.attached {
		if r.Entity.ID != k.of.Entity.ID || r.SubQueue != k.of.SubQueue {
			continue
		}
		p := engine.PortNow{Receiver: r.Receiver, Credit: r.credit(), Queued: r.queued, Unwritten: unwritten[r]}
		if q := l.late.of[r.Sink]; q != nil {
			p.Late = len(q.requests)
		}
		if q := r.queue; q != nil {
			if places[q] == nil {
				places[q] = q.places()
			}
			p.Before = places[q][r]
			if q.holder != nil {
				p.HasSession, p.Session, p.SessionFull = true, string(r.sessionID), w.atLimit(q)
			}
		}
		said.ports = append(said.ports, p)
	}
	return engine.Reply{Answer: said}
}

// places is how many receivers' credit comes before that of each receiver that has some here.
func (q *receiverQueue) places() map[*receiver]int {
	places := map[*receiver]int{}
	for _, g := range q.grants.all() {
		if _, known := places[g.receiver]; !known {
			places[g.receiver] = len(places)
		}
	}
	return places
}

// tell counts the messages of the sub-queue, and those of its entity's other ones.
func (k *countStates) tell(l *Loop) engine.Reply {
	x, n := l.part.Index(), engine.MessagesNow{}
	for i, h := range k.of.Entity.Hosts {
		if h != l.part.ID() {
			continue
		}
		id := event.Slice{Entity: k.of.Entity.ID, Partition: uint8(i)}
		count := func(st index.State) int { return x.Count(id, k.of.SubQueue, st) }
		n.Active += count(index.Active)
		n.Locked += count(index.Locked) + count(index.DeferredLocked)
		n.Deferred += count(index.Deferred)
		n.Scheduled += count(index.Scheduled)
		n.Transferring += count(index.Transferring)
		if k.of.SubQueue != event.Main {
			continue
		}
		var t index.Tally
		t.Add(x, id)
		n.DeadLettered, n.TransferDeadLettered = n.DeadLettered+t.DeadLetter, n.TransferDeadLettered+t.TransferDeadLetter
	}
	return engine.Reply{Answer: statesCounted{MessagesNow: n}}
}
