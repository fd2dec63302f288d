package servicebus

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
)

// Texts of what a transaction on a partitioned entity cannot have (semantics.md 10.7).
const (
	keylessText  = "A message that is sent in a transaction to a partitioned entity needs a SessionId, a PartitionKey or, where the entity detects duplicates, a MessageId."
	spreadText   = "All messages of a transaction on a partitioned entity must be in one partition: they need the same SessionId or PartitionKey."
	sessionsText = "A transaction on a partitioned entity cannot have messages of different sessions."
	firstText    = "A message without a key cannot be the first operation of a transaction that goes through a partitioned entity: settle a message first, or give it a TransactionPartitionKey."
)

// oneKey decides, beside the partition, whether operations on a partitioned entity can be in one
// transaction. Two keys cannot, even if they are in one partition: a client has no way to know
// whether they are (S4-49, S4-54, semantics.md 10.7).
type oneKey struct {
	// why a send without a key is refused: it would go to any partition, and the next one to
	// another
	none    string
	known   bool
	key     string
	session bool // it is a session id
}

// place chooses the partition of a send, which may be part of a transaction; a nil transaction: it
// is of none. What a transaction sends through a partitioned entity to one that is not goes into
// the partition that the transaction has: at its destination nothing depends on the partition that
// it came through. A via partition key still decides.
func (x *transaction) place(on engine.Target, cmd *engine.Send) *engine.Error {
	viaKey := func(m engine.Message) bool { return len(m.ViaPartitionKey) > 0 }
	if x == nil || x.entity != topLevel(on.Entity) || !leavesPartitions(cmd) || slices.ContainsFunc(cmd.Messages, viaKey) {
		return on.Place(cmd)
	}
	cmd.Slice = on.Slice(x.slice.Partition)
	return nil
}

// leavesPartitions reports whether a send goes through a partitioned entity to one that is not.
func leavesPartitions(cmd *engine.Send) bool {
	return len(cmd.Entity.Hosts) > 1 && cmd.Destination != nil && len(cmd.Destination.Hosts) <= 1
}

// keyOfSend is the key of the messages of a send, of which there is at least one. It is the key of
// the entity that they are for: one with a single partition asks for none. A via partition key is
// the key of the transaction, and leaves the one at the destination free.
func keyOfSend(cmd *engine.Send) oneKey {
	m := &cmd.Messages[0]
	via := cmd.Destination != nil && len(m.ViaPartitionKey) > 0
	switch {
	case len(cmd.Entity.Hosts) <= 1:
		return oneKey{}
	case cmd.Others > 0 && leavesPartitions(cmd):
		return oneKey{none: firstText}
	case cmd.Others > 0:
		return oneKey{none: keylessText}
	case leavesPartitions(cmd) && !via:
		return oneKey{}
	}
	return oneKey{known: true, key: string(cmd.Key), session: m.HasSession && !via}
}

func keyOfSession(id []byte) oneKey { return oneKey{known: true, key: string(id), session: true} }

// keyOfGrant is the key of a message that was received in a session; a nil grant: in none.
func keyOfGrant(g *engine.SessionGrant) oneKey {
	if g == nil {
		return oneKey{}
	}
	return oneKey{known: true, key: g.ID, session: true}
}

// join notes the key of an operation that joins those before.
func (k *oneKey) join(other *oneKey) {
	if other.known {
		*k = *other
	}
}

// spreads returns why an operation on a partitioned entity cannot share a partition, or a key, with
// those before it in the transaction; "": it can.
func (x *transaction) spreads(s *staged) string {
	switch {
	case s.key.none != "":
		return s.key.none
	case x.entity != 0 && (x.slice.Partition != s.partition || x.host != s.on.Host(s.partition)):
		return spreadText
	case !x.one.known || !s.key.known || x.one.key == s.key.key:
		return ""
	case x.one.session && s.key.session:
		return sessionsText
	}
	return spreadText
}
