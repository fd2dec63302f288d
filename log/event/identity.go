package event

// Identity identifies duplicates: two messages with the same identity are duplicates. It has the id
// and, in an entity with several partitions, the key that belongs to it.
type Identity struct {
	Type  IDType
	ID    []byte
	Keyed bool
	Key   []byte // the session id or, without one, the partition key; nil unless Keyed
}

func identity(t IDType, id []byte, keyed, hasSession bool, sessionID, partitionKey []byte) Identity {
	i := Identity{Type: t, ID: id, Keyed: keyed}
	switch {
	case keyed && hasSession:
		i.Key = sessionID
	case keyed:
		i.Key = partitionKey
	}
	return i
}

// Identity returns the identity with which duplicates of the message are detected.
func (m *MessageEnqueued) Identity() Identity {
	return identity(m.IDType, m.MessageID, m.Keyed, m.HasSession, m.SessionID, m.PartitionKey)
}

// Identity returns the identity with which duplicates of the message are detected.
func (m *MessageScheduled) Identity() Identity {
	return identity(m.IDType, m.MessageID, m.Keyed, m.HasSession, m.SessionID, m.PartitionKey)
}

// Identity returns the identity with which duplicates of the message are detected.
func (m *MessagePublished) Identity() Identity {
	return identity(m.IDType, m.MessageID, m.Keyed, m.HasSession, m.SessionID, m.PartitionKey)
}
