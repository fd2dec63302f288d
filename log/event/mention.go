package event

// What an index of history needs to know about an event: which messages it is about, and with which
// id they were sent.

// Named calls each with every slice that an event names, and the sequence number of every message
// in it that the event is about; with 0 if it is about the slice itself. It does not name the slice
// and number that a message came from.
func Named(ev Event, each func(Slice, SequenceNumber)) {
	named(ev, each)
	if n, ok := ev.(*NumbersReserved); ok { // the last one; the others are not named
		each(n.Slice, n.First+SequenceNumber(n.Count)-1)
	}
}

// slice returns the slice with a subscription's copy of a message, from the slice of the topic.
func (c *Copy) slice(topic Slice) Slice {
	return Slice{Entity: c.Subscription, Partition: topic.Partition}
}
