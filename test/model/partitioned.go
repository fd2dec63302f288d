package model

import (
	"slices"
)

// Partitioned is an entity with several partitions (10): a queue for each, and the choice between
// them. Clients do not see that there are several. Which log each of them is in does not matter
// here.
type Partitioned struct {
	Queues     []*Queue // by partition; nil: it is not known yet
	Duplicates bool     // the entity detects them
	Turn       []int    // the order in which partitions take turns; nil: by number
	turns      uint64   // messages without a key, so far
	elsewhere  uint64   // of these, the ones that went to another partition
}

// Keys are what the partition of a message is chosen by (10.2).
type Keys struct {
	Session    string
	HasSession bool
	Partition  string
	ID         string // the text of the message-id
	Via        string
}

// key is the first that a message has; false: it has none.
func (e *Partitioned) key(k Keys) (string, bool) {
	switch {
	case k.HasSession:
		return k.Session, true
	case k.Partition != "":
		return k.Partition, true
	case e.Duplicates && k.ID != "":
		return k.ID, true
	}
	return k.Via, k.Via != ""
}

// Route is the partition for messages that are sent together: that of the key they have; with none
// the next in turn, and any other will do as well. Messages with several keys are refused. What is
// a key depends on the entity that they are for, where that is partitioned, too.
func (e *Partitioned) Route(all []Keys, to *Partitioned) (partition int, any bool, _ Refusal) {
	key, keyed := to.key(all[0])
	for _, k := range all[1:] {
		if other, too := to.key(k); other != key || too != keyed {
			return 0, false, NotAllowed
		}
	}
	if keyed {
		return OfKey(key, len(e.Queues)), false, Accepted
	}
	return e.next(), true, Accepted
}

// next is the partition whose turn it is.
func (e *Partitioned) next() int {
	e.turns++
	at := int((e.turns - 1) % uint64(len(e.Queues)))
	if e.Turn != nil {
		return e.Turn[at]
	}
	return at
}

// Restarted: whose turn it is need not survive.
func (e *Partitioned) Restarted() { e.turns, e.elsewhere = 0, 0 }

// Elsewhere is another partition, not tried before, for a message that was refused for reasons of
// health before anybody looked at it: those that are left take turns. False: there is none.
func (e *Partitioned) Elsewhere(tried []int, serves func(partition int) bool) (int, bool) {
	var left []int
	for p := range e.Queues {
		if !slices.Contains(tried, p) && serves(p) {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		return 0, false
	}
	e.elsewhere++
	return left[(e.elsewhere-1)%uint64(len(left))], true
}

// OfKey is the partition of a key, of a number of partitions.
func OfKey(key string, partitions int) int { return int(Hash(key) % uint64(partitions)) }

// Hash is that of keys (log-format.md 8), in two steps, written down as the document says it.
func Hash(key string) uint64 {
	const offset, prime = uint64(0xcbf29ce484222325), uint64(0x100000001b3)
	h := offset
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	for _, factor := range []uint64{0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53} {
		h = (h ^ h>>33) * factor
	}
	return h ^ h>>33
}

// OfNumber is the partition that a sequence number names (10.3).
func OfNumber(seq uint64) int { return int(seq >> 48) }

// First is the number before the first of a partition.
func First(partition int) uint64 { return uint64(partition) << 48 }

// Peek shows messages in the order of their numbers from one on, over all partitions that are
// served (10.5).
func (e *Partitioned) Peek(sub Sub, session *string, from uint64, count int, serves func(partition int) bool) (found []*Message) {
	for p := OfNumber(from); p < len(e.Queues) && len(found) < count; p++ {
		if !serves(p) {
			continue
		}
		some, _ := e.Queues[p].Peek(sub, session, from, count-len(found), 1<<40)
		found = append(found, some...)
	}
	return found
}

// Counts are the sums of what management is told, over the partitions that are served, and whether
// that is all of them (10.6).
func (e *Partitioned) Counts(serves func(partition int) bool) (sum Counts, limited bool) {
	for p, q := range e.Queues {
		if !serves(p) {
			limited = true
			continue
		}
		sum.add(q.Counts())
	}
	return sum, limited
}

// Counts is what management is told of the messages of an entity.
type Counts struct {
	Active, Dead, TransferDead, Transfer, Scheduled int
	Bytes                                           int64
}

func (c *Counts) add(o Counts) {
	c.Active += o.Active
	c.Dead += o.Dead
	c.TransferDead += o.TransferDead
	c.Transfer += o.Transfer
	c.Scheduled += o.Scheduled
	c.Bytes += o.Bytes
}

// Counts are those of a queue (16.2).
func (q *Queue) Counts() (c Counts) {
	for _, m := range q.Live {
		switch {
		case m.TransferDead:
			c.TransferDead++
		case m.Dead:
			c.Dead++
		case m.State == Transferring:
			c.Transfer++
		case m.State == Scheduled:
			c.Scheduled++
		default:
			c.Active++
		}
	}
	c.Bytes = q.Bytes()
	return c
}
