package engine

import (
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxHistory bounds the duplicate history of one slice: about 80 bytes each. Ids cannot be
// forgotten before their window ends, so a full history refuses sends (reliability.md P23).
const maxHistory = 8 << 20

// duplicateCheck tells which messages of one send were accepted before, in the history or earlier
// in the same record (semantics.md 11).
type duplicateCheck struct {
	*slice
	window time.Duration // 0: the entity keeps no history
	until  event.Time    // when ids of this send are forgotten
	asked  bool          // this decision may look the ids up again
}

type sentID struct {
	slice   event.Slice
	t       event.IDType
	keyed   bool
	id, key string
}

// identity returns the identity of a message in the entity's duplicate history.
func (e *Entity) identity(m *Message) event.Identity {
	id := event.Identity{Type: m.IDType, ID: m.ID}
	if id.Keyed = e.keyed(m); id.Keyed {
		id.Key, _ = e.key(m, false)
	}
	return id
}

func (f *duplicateCheck) sent(m *Message) sentID {
	id := f.entity.identity(m)
	return sentID{f.id, id.Type, id.Keyed, string(id.ID), string(id.Key)}
}

// duplicates begins the check of that many messages.
func (s *slice) duplicates(messages int) duplicateCheck {
	f := duplicateCheck{slice: s, asked: messages > 1 || s.scratch.several}
	if s.entity.Properties.RequiresDuplicateDetection {
		f.window = s.entity.Properties.DuplicateDetectionWindow
		f.until = f.now.Add(f.window)
	}
	return f
}

// original returns the message that was accepted within the window under the id of message i of a
// send.
func (f *duplicateCheck) original(cmd *Send, i int) (event.SequenceNumber, bool) {
	if f.window == 0 {
		return 0, false
	}
	m, found := &cmd.Messages[i], cmd.found(i)
	if found.dropped {
		return found.original, true
	}
	for at := &f.scratch; at != nil; at = at.before {
		if seq, ok := at.ids[f.sent(m)]; ok {
			return seq, true
		}
	}
	return f.index.Duplicate(f.id, f.now, f.entity.identity(m))
}

// remember notes a stored message, and returns until when its id is in the history; 0 if there is
// no history.
func (f *duplicateCheck) remember(m *Message, seq event.SequenceNumber) event.Time {
	if f.asked && f.window != 0 {
		id := f.sent(m)
		enter(&f.scratch.ids, id, seq)
		f.scratch.entered = append(f.scratch.entered, id)
	}
	return f.until
}

// historySize returns how many ids the history of a slice holds.
func (s *slice) historySize() int { return s.index.Remembered(s.id) + len(s.scratch.entered) }

// drop adds the event of a message whose id was accepted before.
func (s *sendDecision) drop(m *Message, original event.SequenceNumber) {
	ev := add[*event.DuplicateDropped](s.decision, event.KindDuplicateDropped)
	ev.Envelope, ev.MessageID, ev.IDType, ev.Original = s.envelope(s.from), m.ID, m.IDType, original
	ev.Arrival = s.arrival
}

// stillScheduled returns the answer to a second schedule with the same id: the number of the first
// message if it still waits, else 0.
func (s *sendDecision) stillScheduled(seq event.SequenceNumber) event.SequenceNumber {
	if s.scheduled(seq) {
		return seq
	}
	return 0
}
