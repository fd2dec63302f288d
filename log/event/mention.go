package event

// What an index of history wants to know of an event: which messages it is about, and by which id
// they were sent.

// Named calls each with every slice that an event names, and the sequence number of every message
// in it that the event is about; with 0 where it is about the slice itself. Where a message came
// from, in another slice, is not among them.
func Named(ev Event, each func(Slice, SequenceNumber)) {
	named(ev, each)
	if n, ok := ev.(*NumbersReserved); ok { // the last one; those between are not named
		each(n.Slice, n.First+SequenceNumber(n.Count)-1)
	}
}

// slice is the one that has the copy of a message in the slice of a topic.
func (c *Copy) slice(topic Slice) Slice {
	return Slice{Entity: c.Subscription, Partition: topic.Partition}
}
