package engine

import (
	"bytes"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The messages of an entity are spread over its partitions (decision 28). Each is a slice in the
// log partition that hosts it. The functions here find the partition that a token, a sequence
// number or a session id belongs to. A partition that the entity does not have maps to the first
// one, which refuses it as unknown. The key of its messages routes a send (keys.go).

// Slice returns the slice of an entity partition.
func (t Target) Slice(partition uint8) event.Slice {
	return event.Slice{Entity: t.Entity.ID, Partition: partition}
}

// Host returns the log partition of an entity partition.
func (t Target) Host(partition uint8) PartitionID { return t.Entity.Hosts[partition] }

// OfToken returns the entity partition of the lock, of a message or a session, that a token
// identifies.
func (t Target) OfToken(token event.LockToken) uint8 { return t.known(token.Partition()) }

// OfSequence returns the entity partition of a message, or the one in which a peek from that number
// continues.
func (t Target) OfSequence(n event.SequenceNumber) uint8 { return t.known(n.Partition()) }

// OfSession returns the entity partition that has all messages of a session, and its state.
func (t Target) OfSession(id []byte) uint8 { return t.Entity.ofKey(id) }

// OfMoved returns the entity partition of a message that moves here from another slice: that of its
// key, else one computed from the number of its transfer and the partition it leaves. So a message
// that is offered again reaches the slice that may already know it (decision 35). The result never
// changes.
func (t Target) OfMoved(m *Message, from event.Slice, n event.TransferNumber) uint8 {
	if len(t.Entity.Hosts) <= 1 {
		return onlyPartition
	}
	if key, ok := t.Entity.key(m, false); ok {
		return t.Entity.ofKey(key)
	}
	return uint8((uint64(n) + uint64(from.Partition)) % uint64(len(t.Entity.Hosts)))
}

// Place sets the slice of a send: the entity partition that stores all its messages. The key of the
// messages chooses it. Without a key any partition will do, and the next in turn is used. Messages
// with different keys are refused, because one decision is in one log. Which property is the key
// depends on the entity that the messages are for, if that is partitioned, and not on the one that
// hands them over.
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

// Elsewhere routes messages without a key to another partition that serves and was not tried
// before. ok is false if there is none, or if the messages have a key. Use it only for a command
// that no partition has looked at or will look at: messages of a command that may have been carried
// out would be stored twice.
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

// Partitions returns the first and the last of the entity partitions that may have messages with a
// sequence number or higher ones. The last is before the first if no partition has such numbers.
func (t Target) Partitions(from event.SequenceNumber) (first, last uint8) {
	last = uint8(max(1, len(t.Entity.Hosts)) - 1)
	if last == onlyPartition {
		return onlyPartition, last
	}
	return uint8(min(from>>48, event.SequenceNumber(last)+1)), last
}

// onlyPartition is the partition of an entity that has one.
const onlyPartition uint8 = 0

func (t Target) known(partition uint8) uint8 {
	if int(partition) < len(t.Entity.Hosts) {
		return partition
	}
	return onlyPartition
}

// Hosts returns the log partitions that a receiver's commands are sent to, each once. The first one
// counts the entity's receivers, this one included, even if it receives nothing from there. It is
// the host of the entity's first partition, unless that is away. A receiver of one partition needs
// that one to serve; a receiver of several needs at least one.
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
		return all[:1] // it answers that it is away
	}
	return hosts
}

// At returns the entity partitions that a log partition hosts and the receiver receives from, as a
// set: a bit for each.
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
