package engine

import (
	"time"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// maxHistory bounds the duplicate history of one slice: about 80 bytes each. Ids cannot be forgotten before their window is
// over, so a full history refuses sends (reliability.md P23).
const maxHistory = 8 << 20

// fresh tells which messages of one send were accepted before, in the history or earlier in the same send (semantics.md 11).
type fresh struct {
	x      *index.Index
	slice  event.Slice
	now    event.Time
	window time.Duration // 0: the entity keeps no history
	until  event.Time    // when ids of this send are forgotten
	here   map[sentID]event.SequenceNumber
}

type sentID struct {
	t  event.IDType
	id string
}

// duplicates is to tell which of so many messages were accepted before.
func (s *slice) duplicates(messages int) fresh {
	f := fresh{x: s.index, slice: s.id, now: s.now}
	if s.entity.Properties.RequiresDuplicateDetection {
		f.window = s.entity.Properties.DuplicateDetectionWindow
		f.until = f.now.Add(f.window)
		if messages > 1 {
			f.here = make(map[sentID]event.SequenceNumber, messages)
		}
	}
	return f
}

// original is the message that was accepted under the same id within the window.
func (f *fresh) original(m *Message) (event.SequenceNumber, bool) {
	if f.window == 0 {
		return 0, false
	}
	if seq, ok := f.here[sentID{m.IDType, string(m.ID)}]; ok {
		return seq, true
	}
	return f.x.Duplicate(f.slice, f.now, m.IDType, m.ID)
}

// remember notes a message that is stored, and says until when its id is in the history; 0 when there is none.
func (f *fresh) remember(m *Message, seq event.SequenceNumber) event.Time {
	if f.here != nil {
		f.here[sentID{m.IDType, string(m.ID)}] = seq
	}
	return f.until
}

// drop adds the event of a message whose id was accepted before.
func (s *sending) drop(m *Message, original event.SequenceNumber) {
	ev := add[*event.DuplicateDropped](s.decision, event.KindDuplicateDropped)
	ev.Envelope, ev.MessageID, ev.IDType, ev.Original = s.envelope(s.from), m.ID, m.IDType, original
}

// stillScheduled is the number a second schedule of one id is answered with: that of the first, if it waits still, else 0.
func (s *sending) stillScheduled(seq event.SequenceNumber) event.SequenceNumber {
	if m, ok := s.index.Message(s.id, seq); ok && m.State == index.Scheduled {
		return seq
	}
	for _, ev := range s.events { // of this very send
		if ev, ok := ev.(*event.MessageScheduled); ok && ev.Sequence == seq {
			return seq
		}
	}
	return 0
}
