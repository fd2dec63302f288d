package engine

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func (s *script) at(t event.Time) string {
	if t == 0 {
		return "-"
	}
	if t < s.base { // the clock was set back
		return t.Sub(s.base).String()
	}
	return "+" + t.Sub(s.base).String()
}

func name(t event.LockToken) string {
	if t == (event.LockToken{}) {
		return "-"
	}
	if t[14] != 0 {
		return fmt.Sprintf("s%d", t[14])
	}
	return fmt.Sprintf("t%d", t[15])
}

func (s *script) delivery(d *Delivery) string {
	out := fmt.Sprintf("%d count=%d", d.Sequence, d.DeliveryCount)
	if d.EnqueuedSequence != 0 {
		out += fmt.Sprintf(" from=%d", d.EnqueuedSequence)
	}
	if d.Token != (event.LockToken{}) {
		out += fmt.Sprintf(" token=%s until=%s", name(d.Token), s.at(d.LockedUntil))
	}
	if d.ExpiresAt != 0 {
		out += " expires=" + s.at(d.ExpiresAt)
	}
	if d.TimeToLive != 0 {
		out += " ttl=" + d.TimeToLive.String()
	}
	out += [...]string{"", " deferred", " scheduled"}[d.State]
	if d.WasScheduled {
		out += " was-scheduled"
	}
	for _, c := range d.Changes {
		out += fmt.Sprintf(" changes=%q", s.frame.blobs[c.Position:c.Position+event.Position(c.Size)])
	}
	return out
}

func (s *script) show(ev event.Event) string {
	switch ev := ev.(type) {
	case *event.EntityCreated:
		out := fmt.Sprintf("EntityCreated %d %s hosts=%v", ev.Slice.Entity, ev.Path, ev.Hosts)
		if ev.Topic != 0 {
			out += fmt.Sprintf(" topic=%d", ev.Topic)
		}
		return out
	case *event.EntityUpdated:
		return fmt.Sprintf("EntityUpdated %d", ev.Slice.Entity)
	case *event.MessageEnqueued:
		return fmt.Sprintf("MessageEnqueued %d id=%s ttl=%v expires=%s batch=%d", ev.Sequence, ev.MessageID, ev.TimeToLive, s.at(ev.ExpiresAt), ev.Batch) +
			s.place(ev.InSession, ev.SessionID, ev.IDType, ev.DuplicateUntil)
	case *event.MessageScheduled:
		return fmt.Sprintf("MessageScheduled %d id=%s ttl=%v for=%s batch=%d", ev.Sequence, ev.MessageID, ev.TimeToLive, s.at(ev.ScheduledFor), ev.Batch) +
			s.place(ev.InSession, ev.SessionID, ev.IDType, ev.DuplicateUntil) + map[bool]string{true: " reserved"}[ev.Reserved]
	case *event.ScheduledActivated:
		return fmt.Sprintf("ScheduledActivated %d new=%d ttl=%v enqueued=%s expires=%s", ev.Sequence, ev.NewSequence, ev.TimeToLive, s.at(ev.EnqueuedAt), s.at(ev.ExpiresAt))
	case *event.ScheduleCancelled:
		return fmt.Sprintf("ScheduleCancelled %d", ev.Sequence)
	case *event.DuplicateDropped:
		return fmt.Sprintf("DuplicateDropped id=%s original=%d", ev.MessageID, ev.Original) + s.place(false, nil, ev.IDType, 0)
	case *event.SessionAccepted:
		return fmt.Sprintf("SessionAccepted %q %s until=%s", ev.SessionID, name(ev.Token), s.at(ev.LockedUntil))
	case *event.SessionLockRenewed:
		return fmt.Sprintf("SessionLockRenewed %q until=%s", ev.SessionID, s.at(ev.LockedUntil))
	case *event.SessionReleased:
		out := fmt.Sprintf("SessionReleased %q cause=%v", ev.SessionID, ev.Cause)
		for _, r := range ev.Returned {
			out += fmt.Sprintf(" %d:count=%d", r.Sequence, r.DeliveryCount)
		}
		return out
	case *event.SessionStateSet:
		return fmt.Sprintf("SessionStateSet %q size=%d cleared=%t", ev.SessionID, ev.State.Size, ev.Cleared)
	case *event.MessagesBatchDeleted:
		return fmt.Sprintf("MessagesBatchDeleted before=%s %v", s.at(ev.Before), ev.Sequences)
	case *event.EntityDeleted:
		return fmt.Sprintf("EntityDeleted %d reason=%s", ev.Slice.Entity, ev.Reason)
	case *event.ClockSet:
		return fmt.Sprintf("ClockSet %d %v from=%s to=%s", ev.Number, ev.Basis, s.at(ev.From), s.at(ev.To))
	case *event.SliceDropped:
		return fmt.Sprintf("SliceDropped %v", ev.Slice)
	case *event.MessageLocked:
		return fmt.Sprintf("MessageLocked %d %s until=%s count=%d", ev.Sequence, name(ev.Token), s.at(ev.LockedUntil), ev.DeliveryCount)
	case *event.LockRenewed:
		return fmt.Sprintf("LockRenewed %d %s until=%s", ev.Sequence, name(ev.Token), s.at(ev.LockedUntil))
	case *event.LockExpired:
		return fmt.Sprintf("LockExpired %d %s count=%d", ev.Sequence, name(ev.Token), ev.DeliveryCount)
	case *event.MessageReleased:
		return fmt.Sprintf("MessageReleased %d %s", ev.Sequence, name(ev.Token))
	case *event.MessageAbandoned:
		return fmt.Sprintf("MessageAbandoned %d %s count=%d", ev.Sequence, name(ev.Token), ev.DeliveryCount)
	case *event.MessageCompleted:
		return fmt.Sprintf("MessageCompleted %d %s", ev.Sequence, name(ev.Token))
	case *event.MessageReceivedAndDeleted:
		return fmt.Sprintf("MessageReceivedAndDeleted %d", ev.Sequence)
	case *event.MessageDeferred:
		return fmt.Sprintf("MessageDeferred %d %s count=%d", ev.Sequence, name(ev.Token), ev.DeliveryCount)
	case *event.MessageDeadLettered:
		return fmt.Sprintf("MessageDeadLettered %d %s cause=%v reason=%q description=%q", ev.Sequence, name(ev.Token), ev.Cause, ev.Reason, ev.Description)
	case *event.MessageExpired:
		return fmt.Sprintf("MessageExpired %d expired=%s", ev.Sequence, s.at(ev.ExpiresAt))
	}
	if out := s.showTopic(ev); out != "" {
		return out
	}
	return showFact(ev)
}

func showFact(ev event.Event) string {
	switch ev := ev.(type) {
	case *event.SettlementRefused:
		return fmt.Sprintf("SettlementRefused %d %s %v %v", ev.Sequence, name(ev.Token), ev.Wanted, ev.Why)
	case *event.SendsRefused:
		return fmt.Sprintf("SendsRefused %d %v", ev.Count, ev.Why)
	case *event.TransactionCommitted:
		return fmt.Sprintf("TransactionCommitted %c operations=%d", ev.ID[15], ev.Operations)
	case *event.TransactionAborted:
		return fmt.Sprintf("TransactionAborted %c %v", ev.ID[15], ev.Cause)
	case *event.MessageHandedOver:
		return fmt.Sprintf("MessageHandedOver %d id=%s to=%d number=%d batch=%d", ev.Sequence, ev.MessageID, ev.Destination, ev.Number, ev.Batch)
	case *event.NumbersReserved:
		return fmt.Sprintf("NumbersReserved %d count=%d", ev.First, ev.Count)
	}
	return ev.Kind().String()
}

// place shows those fields of a stored message that only some entities use.
func (s *script) place(in bool, session []byte, id event.IDType, until event.Time) (out string) {
	if in {
		out += fmt.Sprintf(" session=%q", session)
	}
	if id != event.IDString {
		out += fmt.Sprintf(" type=%d", id)
	}
	if until != 0 {
		out += " remembered=" + s.at(until)
	}
	return out
}
