package engine

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// overdueItems are the items that a check found past their time: one lock, or messages. They end
// before the command is answered, even if the answer is a refusal.
type overdueItems struct {
	lock     event.LockToken // of a message or of a session; zero: none
	messages []index.Message // expired, and not locked
}

// any reports whether there are overdue items.
func (w overdueItems) any() bool { return w.lock != event.LockToken{} || len(w.messages) > 0 }

// end adds the end of overdue items of a slice.
func (s *slice) end(w overdueItems) {
	if w.lock != (event.LockToken{}) {
		l, _ := s.index.Lock(w.lock)
		s.endLock(&l)
	}
	for i := range w.messages {
		m := &w.messages[i]
		s.expire(m, changesSize(m))
	}
}

// endLock adds the end of an overdue lock.
func (s *slice) endLock(l *index.Lock) {
	if l.OfSession() {
		s.endSession(l.Session, event.ReleaseExpired)
		return
	}
	m, _ := s.index.Message(s.id, l.Sequence)
	ev := add[*event.LockExpired](s.decision, event.KindLockExpired)
	ev.Envelope, ev.Sequence, ev.Token = s.envelope(0), l.Sequence, l.Token
	ev.DeliveryCount = countAfterFailure(&m)
	s.returnToQueue(&m, ev.DeliveryCount, changesSize(&m))
}

// endSession adds the end of a session lock. Messages locked under it return to the queue. If the
// lock's time had passed, each of them has failed once more (semantics.md 6.3).
func (s *slice) endSession(session string, cause event.ReleaseCause) {
	ev := add[*event.SessionReleased](s.decision, event.KindSessionReleased)
	ev.Envelope, ev.SessionID, ev.Cause = s.envelope(0), []byte(session), cause
	for m := range s.index.LockedOf(s.id, ev.SessionID) {
		count := m.DeliveryCount
		if cause == event.ReleaseExpired {
			count = countAfterFailure(&m)
		}
		ev.Returned = append(ev.Returned, event.Returned{Sequence: m.Sequence, DeliveryCount: count})
		s.returnToQueue(&m, count, changesSize(&m))
	}
}

// countAfterFailure returns the delivery count after one more failure: it does not grow in a
// dead-letter queue (semantics.md 6.3).
func countAfterFailure(m *index.Message) uint32 {
	if m.SubQueue != event.Main {
		return m.DeliveryCount
	}
	return m.DeliveryCount + 1
}

// returnToQueue adds what follows when a message of the main queue returns with a new delivery
// count. It expires at once if its time has passed (semantics.md 7.4), or is dead-lettered if it
// failed too often (6.4). A deferred message stays deferred, expired or not (3.2), unless it failed
// too often: then expiry also comes first (docs/decisions/0009). header is the size of the
// message's header now, in bytes; 0: unknown.
func (s *slice) returnToQueue(m *index.Message, count uint32, header int) {
	if m.SubQueue != event.Main {
		return
	}
	last := count > m.DeliveryCount && count >= s.entity.Properties.MaxDeliveryCount
	switch {
	case expired(m, s.now) && (m.State != index.DeferredLocked || last):
		s.expire(m, header)
	case last:
		s.deadLetter(m.Sequence, header, event.CauseMaxDelivery, "MaxDeliveryCountExceeded",
			fmt.Sprintf("Message could not be consumed after %d delivery attempts.", count))
	}
}

// expired reports whether a message's time to live has ended. Nothing expires in a dead-letter
// queue (semantics.md 7.5).
func expired(m *index.Message, now event.Time) bool {
	return m.SubQueue == event.Main && m.ExpiresAt != 0 && now >= m.ExpiresAt
}

// expire adds the event that ends an expired active message: it is dropped or dead-lettered. header
// is the size of the message's header in bytes; 0: unknown.
func (s *slice) expire(m *index.Message, header int) {
	if s.entity.Properties.DeadLetteringOnMessageExpiration {
		s.deadLetter(m.Sequence, header, event.CauseExpired, "TTLExpiredException", "The message expired and was dead lettered.")
		return
	}
	ev := add[*event.MessageExpired](s.decision, event.KindMessageExpired)
	ev.Envelope, ev.Sequence, ev.ExpiresAt = s.envelope(0), m.Sequence, m.ExpiresAt
}

// deadLetter adds the broker's own dead-lettering of a message that is not locked, or no longer
// locked. header is the size of the message's header in bytes; 0: unknown.
func (s *slice) deadLetter(seq event.SequenceNumber, header int, cause event.Cause, reason, description string) {
	ev := add[*event.MessageDeadLettered](s.decision, event.KindMessageDeadLettered)
	ev.Envelope, ev.Sequence = s.envelope(0), seq
	ev.Cause, ev.Reason, ev.Description, ev.Changes.Data = fitReason(header, cause, reason, description)
}
