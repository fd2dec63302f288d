// Package replay rebuilds the state of a partition from its log. It is where log and index meet: a
// start of the broker, log verify, log dump, the simulation, and all that looks at the history of a
// partition use it to get from stored bytes to records and to a state. It never changes what it
// reads, and knows no rule, clock or goroutine.
//
// [Records] yields the records of a log, decoded. A [State] is an index with the place in the log
// that it stands at. It begins at the first byte ([Begin]) or at a checkpoint ([Newest]), and
// [State.Run] takes it to the end of the log:
//
//	s := replay.Newest(part, 0, nil)
//	err := s.Run(ctx, replay.Watch{})
//
// Whoever wants to see what happens on the way, or to stop there, takes the records one by one and
// applies each, or leaves it. So this is the state in front of an LSN:
//
//	s := replay.Newest(part, lsn, nil)
//	for rec, err := range s.Records(ctx) {
//		if err != nil || rec.LSN >= lsn {
//			return s, err
//		}
//		if err := s.Apply(rec); err != nil { // s.Index is the state before the record, and from here on the one behind it
//			return s, err
//		}
//	}
//
// For an instant, take the newest checkpoint whose newest record, [index.Index.LastAt], is not
// later, and stop in front of the first record that is. Where a clock was set back
// ([event.ClockSet]), the log has an instant twice, and the caller has to decide which of the two
// is meant.
//
// A record is decided whole, so between its events there is no state that a client ever saw;
// [State.Step] shows those, too.
//
// In memory are the state, a window of the log, and the events of one record, which the next record
// takes over: nothing is allocated per event. Errors of the log come as they are. What is wrong
// with a record whose frame is sound is an [*Error], which names the place.
package replay
