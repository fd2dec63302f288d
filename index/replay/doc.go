// Package replay rebuilds the state of a partition from its log. It connects log and index: a start
// of the broker, log verify, log dump, the simulation, and all readers of a partition's history use
// it to get from stored bytes to records and to a state. It never changes what it reads, and knows
// no rule, clock or goroutine.
//
// [Records] yields the decoded records of a log. A [State] is an index with its place in the log.
// It begins at the first byte ([Begin]) or at a checkpoint ([Newest]), and [State.Run] takes it to
// the end of the log:
//
//	s := replay.Newest(part, 0, nil)
//	err := s.Run(ctx, replay.Watch{})
//
// To see what happens on the way, or to stop there, a caller takes the records one by one and
// applies or skips each. This returns the state before an LSN:
//
//	s := replay.Newest(part, lsn, nil)
//	for rec, err := range s.Records(ctx) {
//		if err != nil || rec.LSN >= lsn {
//			return s, err
//		}
//		if err := s.Apply(rec); err != nil { // s.Index is the state before the record, and from here on the one after it
//			return s, err
//		}
//	}
//
// For an instant, take the newest checkpoint whose newest record, [index.Index.LastAt], is not
// later, and stop before the first later record. If a clock was set back ([event.ClockSet]), the
// log has an instant twice, and the caller must decide which of the two is meant.
//
// A record is decided as a whole, so no client ever saw a state between its events; [State.Step]
// shows those states as well.
//
// Memory holds the state, a window of the log, and the events of one record, whose memory the next
// record reuses: nothing is allocated per event. Errors of the log are returned unchanged. An error
// in a record of a sound frame is an [*Error], which names the place.
package replay
