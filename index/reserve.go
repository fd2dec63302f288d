package index

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// takeReserved uses a sequence number that was reserved before it was certain that the message
// would be sent.
func takeReserved(s *slice, seq event.SequenceNumber) {
	if before, _ := s.id.Numbers(); seq <= before || seq > s.last || s.rows.find(seq).leaf != nil {
		panic(fmt.Sprintf("index: message %d stored in slice %v, where it was not reserved; the newest is %d", seq, s.id, s.last))
	}
}

// reserve gives out sequence numbers for messages that may be sent later.
func reserve(s *slice, ev *event.NumbersReserved) {
	s.takeNumber(ev.First)
	if _, end := s.id.Numbers(); ev.Count == 0 || ev.First > end-event.SequenceNumber(ev.Count-1) {
		panic(fmt.Sprintf("index: %d numbers from %d on reserved in slice %v", ev.Count, ev.First, s.id))
	}
	s.last = max(s.last, ev.First+event.SequenceNumber(ev.Count-1))
}
