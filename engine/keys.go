package engine

// key returns the key that chooses the partition of a message: the first one that it has, in the
// order of docs/decisions/0051. ok is false if it has none. A message that is only handed over has
// its own key for that, the via partition key.
func (e *Entity) key(m *Message, handedOver bool) (key []byte, ok bool) {
	via := len(m.ViaPartitionKey) > 0
	switch {
	case handedOver && via:
		return m.ViaPartitionKey, true
	case m.HasSession:
		return m.SessionID, true
	case len(m.PartitionKey) > 0:
		return m.PartitionKey, true
	case e.Properties.RequiresDuplicateDetection && len(m.ID) > 0:
		return m.ID, true
	case via:
		return m.ViaPartitionKey, true
	}
	return nil, false
}

// keyed reports whether only messages with the same key are duplicates of a message: the entity has
// several partitions, and the message has a key in addition to its id.
func (e *Entity) keyed(m *Message) bool {
	return len(e.Hosts) > 1 && e.Properties.RequiresDuplicateDetection && (m.HasSession || len(m.PartitionKey) > 0)
}

// ofKey returns the entity partition that a key belongs to.
func (e *Entity) ofKey(key []byte) uint8 {
	if len(e.Hosts) <= 1 {
		return onlyPartition
	}
	return uint8(keyHash(key) % uint64(len(e.Hosts)))
}

// keyHash is FNV-1a of 64 bits followed by the finaliser of MurmurHash3. In FNV-1a the low bits
// depend little on the high bits of each byte; the finaliser mixes them (docs/log-format.md,
// section 8, has vectors).
func keyHash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h ^= uint64(b)
		h *= 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// nextInTurn returns the entity partition for a message that any partition may store. The
// partitions take turns, those of one log next to each other. The turn need not survive a restart.
// It is safe for use by several goroutines.
func (e *Entity) nextInTurn() uint8 {
	if len(e.Hosts) <= 1 || e.activity == nil {
		return onlyPartition
	}
	turn := (e.activity.turns.Add(1) - 1) % uint32(len(e.Hosts))
	if len(e.activity.order) == 0 {
		return uint8(turn)
	}
	return e.activity.order[turn]
}

// nextElsewhere counts the sends that went to a partition other than the one whose turn it was, so
// that the remaining partitions take turns as well. It is safe for use by several goroutines.
func (e *Entity) nextElsewhere() uint32 {
	if e.activity == nil {
		return 0
	}
	return e.activity.elsewhere.Add(1) - 1
}
