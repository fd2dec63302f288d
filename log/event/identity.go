package event

// Identity is what makes the second of two messages a duplicate, if both have it: the id, and in an
// entity with several partitions the key that goes with it.
type Identity struct {
	Type  IDType
	ID    []byte
	Keyed bool
	Key   []byte // the session id, or else the partition key; nil unless Keyed
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

// Identity is what duplicates of the message are recognised by.
func (m *MessageEnqueued) Identity() Identity {
	return identity(m.IDType, m.MessageID, m.Keyed, m.HasSession, m.SessionID, m.PartitionKey)
}

// Identity is what duplicates of the message are recognised by.
func (m *MessageScheduled) Identity() Identity {
	return identity(m.IDType, m.MessageID, m.Keyed, m.HasSession, m.SessionID, m.PartitionKey)
}

// Identity is what duplicates of the message are recognised by.
func (m *MessagePublished) Identity() Identity {
	return identity(m.IDType, m.MessageID, m.Keyed, m.HasSession, m.SessionID, m.PartitionKey)
}
