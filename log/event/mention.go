package event

// What an index of history wants to know of an event: which messages it is about, and by which id they were sent.

// Named calls each with every slice that an event names, and the sequence number of every message in it that the event is about; with 0
// where it is about the slice itself. Where a message came from, in another slice, is not among them.
func Named(ev Event, each func(Slice, SequenceNumber)) {
	s := ev.Common().Slice
	copies := func(list []Copy) {
		for i := range list {
			each(Slice{Entity: list[i].Subscription, Partition: s.Partition}, list[i].Sequence)
		}
	}
	switch ev := ev.(type) {
	case *MessageEnqueued:
		each(s, ev.Sequence)
	case *MessageScheduled:
		each(s, ev.Sequence)
	case *ScheduledActivated:
		each(s, ev.Sequence)
		each(s, ev.NewSequence)
	case *ScheduleCancelled:
		each(s, ev.Sequence)
	case *DuplicateDropped:
		each(s, ev.Original)
	case *MessageLocked:
		each(s, ev.Sequence)
	case *LockRenewed:
		each(s, ev.Sequence)
	case *LockExpired:
		each(s, ev.Sequence)
	case *MessageReleased:
		each(s, ev.Sequence)
	case *MessageAbandoned:
		each(s, ev.Sequence)
	case *MessageCompleted:
		each(s, ev.Sequence)
	case *MessageReceivedAndDeleted:
		each(s, ev.Sequence)
	case *MessageDeferred:
		each(s, ev.Sequence)
	case *MessageDeadLettered:
		each(s, ev.Sequence)
	case *MessageExpired:
		each(s, ev.Sequence)
	case *SettlementRefused:
		each(s, ev.Sequence)
	case *TransferFailed:
		each(s, ev.Sequence)
	case *MessageHandedOver:
		each(s, ev.Sequence)
	case *MessagePublished:
		each(s, ev.Sequence)
		copies(ev.Copies)
	case *ScheduledPublished:
		each(s, ev.Sequence)
		each(s, ev.NewSequence)
		copies(ev.Copies)
	case *NumbersReserved:
		each(s, ev.First)
		each(s, ev.First+SequenceNumber(ev.Count)-1)
	case *SessionReleased:
		each(s, 0)
		for i := range ev.Returned {
			each(s, ev.Returned[i].Sequence)
		}
	case *MessagesBatchDeleted:
		eachOf(s, ev.Sequences, each)
	case *TransferStarted:
		eachOf(s, ev.Sequences, each)
	default:
		each(s, 0)
		namedAsWell(ev, each)
	}
}

// namedAsWell is Named for the numbers in events of a base, and in those that name their slice as well.
func namedAsWell(ev Event, each func(Slice, SequenceNumber)) {
	s := ev.Common().Slice
	switch ev := ev.(type) {
	case *BodyErased:
		each(s, ev.Sequence)
	case *ErasureFinished:
		each(s, ev.Sequence)
	case *SliceRestored:
		each(s, ev.Last)
	case *RowsRestored:
		for i := range ev.Rows {
			each(s, ev.Rows[i].Sequence)
		}
	case *HistoryRestored:
		for i := range ev.IDs {
			each(s, ev.IDs[i].Original)
		}
	}
}

func eachOf(s Slice, numbers []SequenceNumber, each func(Slice, SequenceNumber)) {
	each(s, 0)
	for _, n := range numbers {
		each(s, n)
	}
}

// MessageIDOf is the id, as text, of the message that an event stores, or drops as a duplicate; nil of any other event.
func MessageIDOf(ev Event) []byte {
	switch ev := ev.(type) {
	case *MessageEnqueued:
		return ev.MessageID
	case *MessageScheduled:
		return ev.MessageID
	case *MessagePublished:
		return ev.MessageID
	case *MessageHandedOver:
		return ev.MessageID
	case *DuplicateDropped:
		return ev.MessageID
	}
	return nil
}
