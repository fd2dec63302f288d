package servicebus

import "github.com/ledgerbus/ledgerbus/engine"

// Texts of what a transaction on a partitioned entity cannot have (semantics.md 10.7).
const (
	keylessText  = "A message that is sent in a transaction to a partitioned entity needs a SessionId, a PartitionKey or, where the entity detects duplicates, a MessageId."
	spreadText   = "All messages of a transaction on a partitioned entity must be in one partition: they need the same SessionId or PartitionKey."
	sessionsText = "A transaction on a partitioned entity cannot have messages of different sessions."
)

// oneKey is what decides whether operations on a partitioned entity can be in one transaction, beside their partition. Two sessions cannot, though they be in one
// partition: whether they are is nothing that a client could know (S4-54).
type oneKey struct {
	none      bool // a send without a key: any partition would do, and the next one another
	session   string
	inSession bool
}

// keyOfSend is that of the messages of a send, which have one. Of those that are handed over the session is the destination's.
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

// keyOfGrant is that of what was received in a session; nil: in none.
func keyOfGrant(g *engine.SessionGrant) oneKey {
	if g == nil {
		return oneKey{}
	}
	return oneKey{session: g.ID, inSession: true}
}

// join notes the session of an operation that goes with those before.
func (k *oneKey) join(other *oneKey) {
	if other.inSession {
		*k = *other
	}
}

// spreads is why an operation on a partitioned entity cannot be in one partition, or in one session, with those before it; "": it can.
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
