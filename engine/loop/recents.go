package loop

import "github.com/ledgerbus/ledgerbus/log/event"

// recents knows where in the log the newest event of each message is, while that may not be
// durable. Locks and renewals do not count. Most messages are sent, locked and completed: their
// newest event is the one with their body, and nothing is kept. Only events of other messages, and
// of sessions, are kept until they are durable.
type recents struct {
	at    map[subject]event.LSN // address of the frame
	order []recentEvent         // oldest first
}

// subject is the object of an event.
type subject struct {
	kind     subjectKind
	slice    event.Slice
	sequence event.SequenceNumber // of a message
	session  string               // of a session
}

type subjectKind uint8

const (
	ofMessage subjectKind = iota
	ofSession             // the lock of the session has ended
	// messages at the front of the slice were removed without having been received: the next ones
	// come first now
	ofFront
)

type recentEvent struct {
	subject
	at event.LSN
}

// newest returns an address in the frame with the newest event of a message: when that is durable,
// so is the event.
func (r *recents) newest(id event.Slice, seq event.SequenceNumber, body *event.Blob) (at event.LSN) {
	if body.Size > 0 {
		at = event.LSN(body.Position)
	}
	if len(r.at) > 0 {
		at = max(at, r.at[subject{slice: id, sequence: seq}])
	}
	return at
}

// sessionEnd returns an address in the frame with the newest end of a session's lock.
func (r *recents) sessionEnd(id event.Slice, session string) event.LSN {
	return r.at[subject{kind: ofSession, slice: id, session: session}]
}

// frontCleared returns an address in the frame with the newest removal of messages that expired or
// were deleted in a batch.
func (r *recents) frontCleared(id event.Slice) event.LSN {
	return r.at[subject{kind: ofFront, slice: id}]
}

func (r *recents) note(s subject, at event.LSN) {
	if r.at == nil {
		r.at = map[subject]event.LSN{}
	}
	if r.at[s] != at {
		r.at[s] = at
		r.order = append(r.order, recentEvent{s, at})
	}
}

func (r *recents) noteMessage(id event.Slice, seq event.SequenceNumber, at event.LSN) {
	r.note(subject{slice: id, sequence: seq}, at)
}

// forget drops everything that is durable.
func (r *recents) forget(durable event.LSN) {
	n := 0
	for ; n < len(r.order) && r.order[n].at < durable; n++ {
		if o := r.order[n]; r.at[o.subject] == o.at {
			delete(r.at, o.subject)
		}
	}
	if r.order = r.order[n:]; len(r.order) == 0 {
		r.order = nil
	}
}

// noteEvent takes an event of a frame: one that changes an existing message, or whose body is not
// in this frame.
func (r *recents) noteEvent(ev event.Event, at event.LSN) {
	id := ev.Common().Slice
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		if ev.Body.Size == 0 {
			r.noteMessage(id, ev.Sequence, at)
		}
	case *event.MessageReleased:
		r.noteMessage(id, ev.Sequence, at)
	case *event.MessageAbandoned:
		r.noteMessage(id, ev.Sequence, at)
	case *event.LockExpired:
		r.noteMessage(id, ev.Sequence, at)
	case *event.MessageDeferred:
		r.noteMessage(id, ev.Sequence, at)
	case *event.MessageDeadLettered:
		r.noteMessage(id, ev.Sequence, at)
		// the note on its cause did not fit
		if ev.Cause == event.CauseExpired || ev.Cause == event.CauseHeaderSize && ev.Token == (event.LockToken{}) {
			r.note(subject{kind: ofFront, slice: id}, at)
		}
	case *event.MessageExpired, *event.MessagesBatchDeleted:
		r.note(subject{kind: ofFront, slice: id}, at)
	case *event.ScheduledActivated:
		r.noteMessage(id, ev.NewSequence, at)
	case *event.TransferFailed:
		r.noteMessage(id, ev.Sequence, at)
	case *event.SessionReleased:
		r.note(subject{kind: ofSession, slice: id, session: string(ev.SessionID)}, at)
		for i := range ev.Returned {
			r.noteMessage(id, ev.Returned[i].Sequence, at)
		}
	case *event.MessagePublished:
		if ev.Body.Size == 0 {
			r.noteCopies(id.Partition, ev.Copies, at)
		}
	case *event.ScheduledPublished:
		r.noteCopies(id.Partition, ev.Copies, at)
	}
}

func (r *recents) noteCopies(partition uint8, copies []event.Copy, at event.LSN) {
	for i := range copies {
		r.noteMessage(event.Slice{Entity: copies[i].Subscription, Partition: partition}, copies[i].Sequence, at)
	}
}
