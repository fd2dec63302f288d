package event

import "time"

// sent is what the events that store a message all begin with: its number, and what its sender gave that the rules ask for.
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
