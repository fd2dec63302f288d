package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// Texts of what a transaction on a partitioned entity cannot have (semantics.md 10.7).
const (
	keylessText  = "A message that is sent in a transaction to a partitioned entity needs a SessionId, a PartitionKey or, where the entity detects duplicates, a MessageId."
	spreadText   = "All messages of a transaction on a partitioned entity must be in one partition: they need the same SessionId or PartitionKey."
	sessionsText = "A transaction on a partitioned entity cannot have messages of different sessions."
)

// oneKey decides, beside the partition, whether operations on a partitioned entity can be in one transaction. Two sessions cannot, even if
// they are in one partition: a client has no way to know whether they are (S4-54).
type oneKey struct {
	none      bool // a send without a key: it would go to any partition, and the next one to another
	session   string
	inSession bool
}

// keyOfSend is the key of the messages of a send, of which there is at least one. The session of messages that are handed over counts in their
// destination, not here.
func keyOfSend(cmd *engine.Send) oneKey {
	m := &cmd.Messages[0]
	switch {
	case len(cmd.Entity.Hosts) <= 1:
		return oneKey{}
	case cmd.Others > 0:
		return oneKey{none: true}
	case m.HasSession && cmd.Destination == nil:
		return keyOfSession(m.SessionID)
	}
	return oneKey{}
}

func keyOfSession(id []byte) oneKey { return oneKey{session: string(id), inSession: true} }

// keyOfGrant is the key of a message that was received in a session; a nil grant: in none.
func keyOfGrant(g *engine.SessionGrant) oneKey {
	if g == nil {
		return oneKey{}
	}
	return oneKey{session: g.ID, inSession: true}
}

// join notes the session of an operation that joins those before.
func (k *oneKey) join(other *oneKey) {
	if other.inSession {
		*k = *other
	}
}

// spreads returns why an operation on a partitioned entity cannot share a partition, or a session, with those before it in the transaction;
// "": it can.
func (x *transaction) spreads(s *staged) string {
	switch {
	case s.key.none:
		return keylessText
	case x.entity != 0 && (x.slice.Partition != s.partition || x.host != s.on.Host(s.partition)):
		return spreadText
	case x.one.inSession && s.key.inSession && x.one.session != s.key.session:
		return sessionsText
	}
	return ""
}
