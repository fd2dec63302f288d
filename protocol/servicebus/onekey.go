package servicebus

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
)

// Texts that refuse a transaction on a partitioned entity (semantics.md 10.7).
const (
	keylessText  = "A message that is sent in a transaction to a partitioned entity needs a SessionId, a PartitionKey or, where the entity detects duplicates, a MessageId."
	spreadText   = "All messages of a transaction on a partitioned entity must be in one partition: they need the same SessionId or PartitionKey."
	sessionsText = "A transaction on a partitioned entity cannot have messages of different sessions."
	firstText    = "A message without a key cannot be the first operation of a transaction that goes through a partitioned entity: settle a message first, or give it a TransactionPartitionKey."
)

// oneKey decides, in addition to the partition, whether operations on a partitioned entity can be
// in one transaction. Operations with two keys cannot, even in one partition: a client cannot know
// whether two keys share one (S4-49, S4-54, semantics.md 10.7).
type oneKey struct {
	// why a send without a key is refused: each would go to an arbitrary partition
	none    string
	known   bool
	key     string
	session bool // the key is a session id
}

// place chooses the partition of a send; x is nil if the send is not part of a transaction. If a
// transaction sends through a partitioned entity to one that is not partitioned, the send uses the
// partition of the transaction: at its destination nothing depends on the partition it came
// through. A via partition key still decides.
func (x *transaction) place(on engine.Target, cmd *engine.Send) *engine.Error {
	viaKey := func(m engine.Message) bool { return len(m.ViaPartitionKey) > 0 }
	if x == nil || x.entity != topLevel(on.Entity) || !leavesPartitions(cmd) || slices.ContainsFunc(cmd.Messages, viaKey) {
		return on.Place(cmd)
	}
	cmd.Slice = on.Slice(x.slice.Partition)
	return nil
}

// leavesPartitions reports whether a send goes through a partitioned entity to one that is not
// partitioned.
func leavesPartitions(cmd *engine.Send) bool {
	return len(cmd.Entity.Hosts) > 1 && cmd.Destination != nil && len(cmd.Destination.Hosts) <= 1
}

// keyOfSend returns the key of a send's messages, of which there is at least one. It is the key of
// their destination: an entity with a single partition needs none. A via partition key is the key
// of the transaction, and does not restrict the key at the destination.
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

// keyOfGrant returns the key of a message that was received in a session; a nil grant: in none.
func keyOfGrant(g *engine.SessionGrant) oneKey {
	if g == nil {
		return oneKey{}
	}
	return oneKey{known: true, key: g.ID, session: true}
}

// join notes the key of an operation that joins the earlier ones.
func (k *oneKey) join(other *oneKey) {
	if other.known {
		*k = *other
	}
}

// spreads returns why an operation on a partitioned entity cannot share a partition, or a key, with
// the earlier ones of the transaction; "": it can.
func (x *transaction) spreads(s *stagedOperation) string {
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
