package engine

import (
	"bytes"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The messages of an entity are spread over its partitions (decision 28), each a slice in the log
// partition that hosts it. The functions here say which of them a token, a sequence number or a
// session id is about. One that names a partition the entity does not have goes to the first, which
// refuses it as unknown. A send goes by the key of its messages (keys.go).

// Slice is the slice of an entity partition.
func (t Target) Slice(partition uint8) event.Slice {
	return event.Slice{Entity: t.Entity.ID, Partition: partition}
}

// Host is the log partition of an entity partition.
func (t Target) Host(partition uint8) PartitionID { return t.Entity.Hosts[partition] }

// OfToken is the entity partition of the lock, of a message or a session, that a token stands for.
func (t Target) OfToken(token event.LockToken) uint8 { return t.known(token.Partition()) }

// OfSequence is the entity partition of a message, or the one in which a look goes on from there.
func (t Target) OfSequence(n event.SequenceNumber) uint8 { return t.known(n.Partition()) }

// OfSession is the entity partition that has all messages of a session, and its state.
func (t Target) OfSession(id []byte) uint8 { return t.Entity.ofKey(id) }

// OfMoved is the entity partition of a message that moves here from another slice: that of its key,
// else one that follows from the number of its transfer and the partition it leaves, so that what
// is offered again meets the slice that may know it already (decision 35). It is the same for ever.
func (t Target) OfMoved(m *Message, from event.Slice, n event.TransferNumber) uint8 {
	if len(t.Entity.Hosts) <= 1 {
		return onlyPartition
	}
	if key, ok := t.Entity.key(m, false); ok {
		return t.Entity.ofKey(key)
	}
	return uint8((uint64(n) + uint64(from.Partition)) % uint64(len(t.Entity.Hosts)))
}

// Place fills in the slice of a send: the entity partition in which its messages are stored, all of
// them. It is that of the key that they have. Without a key any will do, and it is the next in
// turn. Messages with different keys are refused: one decision is in one log. What is a key depends
// on the entity that the messages are for, if that is partitioned, and not on the one that hands
// them over.
func (t Target) Place(cmd *Send) *Error {
	partition := onlyPartition
	if len(t.Entity.Hosts) > 1 {
		judge, handedOver := t.Entity, cmd.Destination != nil
		if handedOver && len(cmd.Destination.Hosts) > 1 {
			judge = cmd.Destination
		}
		key, keyed := judge.key(&cmd.Messages[0], handedOver)
		for i := range cmd.Messages[1:] {
			other, too := judge.key(&cmd.Messages[1+i], handedOver)
			if too != keyed || !bytes.Equal(other, key) {
				return Refuse(NotAllowed, "Batching brokered messages with distinct SessionId or PartitionKey is not supported for an entity with partitioning enabled.")
			}
		}
		if keyed {
			cmd.Key, partition = key, t.Entity.ofKey(key)
		} else {
			partition = t.Entity.nextInTurn()
			cmd.Others = uint16(1<<len(t.Entity.Hosts)-1) &^ (1 << partition)
		}
	}
	cmd.Slice = t.Slice(partition)
	return nil
}

// Elsewhere sends messages without a key to another partition, one that is served and was not tried
// before; ok is false where there is none, or the messages have a key. It is only for a command
// that no partition has looked at or will look at: messages of one that may have been carried out
// would be stored twice.
func (cmd *Send) Elsewhere(served func(PartitionID) bool) (to PartitionID, ok bool) {
	if cmd.Others == 0 {
		return 0, false
	}
	var room [event.MaxEntityPartitions]uint8
	left := room[:0]
	for at, host := range cmd.Entity.Hosts {
		if cmd.Others>>at&1 == 1 && served(host) {
			left = append(left, uint8(at))
		}
	}
	if len(left) == 0 {
		return 0, false
	}
	at := left[cmd.Entity.nextElsewhere()%uint32(len(left))]
	cmd.Others &^= 1 << at
	cmd.Slice.Partition = at
	return cmd.Entity.Hosts[at], true
}

// Partitions are the first and the last of the entity partitions in which there may be messages
// with a sequence number or higher ones. The last is before the first where no partition has such
// numbers.
func (t Target) Partitions(from event.SequenceNumber) (first, last uint8) {
	last = uint8(max(1, len(t.Entity.Hosts)) - 1)
	if last == onlyPartition {
		return onlyPartition, last
	}
	return uint8(min(from>>48, event.SequenceNumber(last)+1)), last
}

// onlyPartition is that of an entity with one.
const onlyPartition uint8 = 0

func (t Target) known(partition uint8) uint8 {
	if int(partition) < len(t.Entity.Hosts) {
		return partition
	}
	return onlyPartition
}

// Hosts are the log partitions that a receiver's commands go to, each once. The first counts the
// entity's receivers, this one too even if it receives nothing from there: it is the one that hosts
// the entity's first partition, unless that is away. A receiver of one partition needs that one to
// serve; a receiver of several needs at least one.
func (r *Receiver) Hosts() []PartitionID {
	all := r.Entity.Hosts
	if len(all) <= 1 {
		return all
	}
	var hosts []PartitionID
	for i, h := range all {
		needed := r.Slice.Entity != 0 && r.receivesFrom(i)
		if (i == 0 || r.receivesFrom(i)) && !slices.Contains(hosts, h) && (needed || !slices.Contains(r.Away, h)) {
			hosts = append(hosts, h)
		}
	}
	if hosts == nil {
		return all[:1] // whose answer is that it is away
	}
	return hosts
}

// At is the entity partitions that a receiver receives from and a log partition hosts, as a set: a
// bit for each.
func (r *Receiver) At(host PartitionID) (partitions uint16) {
	if len(r.Entity.Hosts) <= 1 {
		return 1 << r.Slice.Partition
	}
	for i, h := range r.Entity.Hosts {
		if h == host && r.receivesFrom(i) {
			partitions |= 1 << i
		}
	}
	return partitions
}

func (r *Receiver) receivesFrom(partition int) bool {
	return r.Slice.Entity == 0 || int(r.Slice.Partition) == partition
}
