package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// Texts of what a transaction on a partitioned entity cannot have (semantics.md 10.7).
const (
	keylessText  = "A message that is sent in a transaction to a partitioned entity needs a SessionId, a PartitionKey or, where the entity detects duplicates, a MessageId."
	spreadText   = "All messages of a transaction on a partitioned entity must be in one partition: they need the same SessionId or PartitionKey."
	sessionsText = "A transaction on a partitioned entity cannot have messages of different sessions."
)

// oneKey decides, beside the partition, whether operations on a partitioned entity can be in one transaction. Two keys cannot, even if they
// are in one partition: a client has no way to know whether they are (S4-49, S4-54, semantics.md 10.7).
type oneKey struct {
	none    bool // a send without a key: it would go to any partition, and the next one to another
	known   bool
	key     string
	session bool // it is a session id
}

// keyOfSend is the key of the messages of a send, of which there is at least one. It is the key of the entity that they are for: one with a
// single partition asks for none. A via partition key is the key of the transaction, and leaves the one at the destination free.
func keyOfSend(cmd *engine.Send) oneKey {
	m, to := &cmd.Messages[0], cmd.Destination
	via := to != nil && len(m.ViaPartitionKey) > 0
	switch {
	case len(cmd.Entity.Hosts) <= 1:
		return oneKey{}
	case cmd.Others > 0:
		return oneKey{none: true}
	case to != nil && len(to.Hosts) <= 1 && !via:
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

// spreads returns why an operation on a partitioned entity cannot share a partition, or a key, with those before it in the transaction;
// "": it can.
func (x *transaction) spreads(s *staged) string {
	switch {
	case s.key.none:
		return keylessText
	case x.entity != 0 && (x.slice.Partition != s.partition || x.host != s.on.Host(s.partition)):
		return spreadText
	case !x.one.known || !s.key.known || x.one.key == s.key.key:
		return ""
	case x.one.session && s.key.session:
		return sessionsText
	}
	return spreadText
}
