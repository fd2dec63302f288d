package event

import "time"

// sent is what the events that store a message all begin with: its number, and what its sender gave that the rules of an entity ask for.
type sent struct {
	sequence                           *SequenceNumber
	messageID, sessionID, partitionKey *[]byte
	hasSession                         *bool
	timeToLive                         *time.Duration
}

func (m *MessageEnqueued) sent() sent {
	return sent{&m.Sequence, &m.MessageID, &m.SessionID, &m.PartitionKey, &m.HasSession, &m.TimeToLive}
}

func (m *MessageScheduled) sent() sent {
	return sent{&m.Sequence, &m.MessageID, &m.SessionID, &m.PartitionKey, &m.HasSession, &m.TimeToLive}
}

func (m *MessagePublished) sent() sent {
	return sent{&m.Sequence, &m.MessageID, &m.SessionID, &m.PartitionKey, &m.HasSession, &m.TimeToLive}
}

func (m *MessageHandedOver) sent() sent {
	return sent{&m.Sequence, &m.MessageID, &m.SessionID, &m.PartitionKey, &m.HasSession, &m.TimeToLive}
}

func (e *encoder) sent(s sent) {
	e.seq(*s.sequence)
	e.bytes(*s.messageID)
	e.bool(*s.hasSession)
	e.bytes(*s.sessionID)
	e.bytes(*s.partitionKey)
	e.span(*s.timeToLive)
}

func (d *decoder) sent(s sent) {
	*s.sequence = d.seq()
	*s.messageID = d.bytes()
	*s.hasSession = d.bool()
	*s.sessionID = d.bytes()
	*s.partitionKey = d.bytes()
	*s.timeToLive = d.span()
}

// Identity is what makes the second of two messages a duplicate, if both have it: the id, and in an entity with several partitions the key that goes with it.
type Identity struct {
	Type  IDType
	ID    []byte
	Keyed bool
	Key   []byte // the session id, or else the partition key; nil unless Keyed
}

func (s *sent) identity(t IDType, keyed bool) Identity {
	id := Identity{Type: t, ID: *s.messageID, Keyed: keyed}
	switch {
	case keyed && *s.hasSession:
		id.Key = *s.sessionID
	case keyed:
		id.Key = *s.partitionKey
	}
	return id
}

// Identity is what duplicates of the message are recognised by.
func (m *MessageEnqueued) Identity() Identity { s := m.sent(); return s.identity(m.IDType, m.Keyed) }

// Identity is what duplicates of the message are recognised by.
func (m *MessageScheduled) Identity() Identity { s := m.sent(); return s.identity(m.IDType, m.Keyed) }

// Identity is what duplicates of the message are recognised by.
func (m *MessagePublished) Identity() Identity { s := m.sent(); return s.identity(m.IDType, m.Keyed) }
