package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// verb returns the type of an event, in a word that questions and answers share: events --where
// "type IN ('lost', 'dead')".
func verb(ev event.Event) string {
	switch ev := ev.(type) {
	case *event.SessionReleased:
		if ev.Cause == event.ReleaseExpired {
			return "session-lost"
		}
	case *event.LinkClosed:
		if ev.Cause == event.ClosedConnection {
			return "link-lost"
		}
	case *event.MessageEnqueued, *event.MessageScheduled, *event.MessagePublished:
		if event.ArrivalOf(ev) != nil {
			return "arrived"
		}
	}
	if v := ev.Kind().Verb(); v != "" {
		return v
	}
	return strings.ToLower(ev.Kind().String())
}

// detail returns a description of an event, in addition to its verb and its message. Nothing in it
// can control a terminal.
func (n *names) detail(at event.Time, ev event.Event) string {
	return string(n.appendDetail(nil, at, ev))
}

// appendDetail appends the result of detail. Its first cases are the most frequent events.
func (n *names) appendDetail(dst []byte, at event.Time, ev event.Event) []byte {
	switch ev := ev.(type) {
	case *event.MessageEnqueued:
		return append(appendSent(dst, ev.MessageID, &ev.Details, ev.Body.Size), n.from(ev.Arrival)...)
	case *event.MessageCompleted:
		return dst
	case *event.MessageLocked:
		dst = strconv.AppendUint(append(dst, "attempt "...), uint64(ev.DeliveryCount)+1, 10)
		if ev.LockedUntil == 0 {
			return append(dst, ", with its session"...)
		}
		dst = append(appendSpan(append(dst, ", for "...), ev.LockedUntil.Sub(at)), ", until "...)
		return appendClock(dst, ev.LockedUntil)
	case *event.LockRenewed:
		return appendClock(append(dst, "until "...), ev.LockedUntil)
	}
	return append(dst, n.rareDetail(ev)...)
}

// rareDetail is detail for the other events.
func (n *names) rareDetail(ev event.Event) string {
	switch ev := ev.(type) {
	case *event.MessageScheduled:
		return sent(ev.MessageID, &ev.Details, ev.Body.Size) + ", for " + ev.ScheduledFor.String() + n.from(ev.Arrival)
	case *event.MessagePublished:
		return sent(ev.MessageID, &ev.Details, ev.Body.Size) + ", " + n.copies(ev.Slice, ev.Copies) + n.from(ev.Arrival)
	case *event.MessageHandedOver:
		return sent(ev.MessageID, &ev.Details, ev.Body.Size) + ", for " + n.path(ev.Destination)
	case *event.ScheduledActivated:
		return fmt.Sprintf("as %s", n.message(ev.Slice, ev.NewSequence))
	case *event.ScheduledPublished:
		return fmt.Sprintf("as %s, %s", n.message(ev.Slice, ev.NewSequence), n.copies(ev.Slice, ev.Copies))
	case *event.DuplicateDropped:
		return fmt.Sprintf("id %s is that of %s", word(ev.MessageID), n.message(ev.Slice, ev.Original))
	case *event.MessageAbandoned:
		return plural(int(ev.DeliveryCount), "failed attempt")
	case *event.LockExpired:
		return plural(int(ev.DeliveryCount), "failed attempt")
	case *event.MessageDeadLettered:
		return because(ev.Cause.String(), ev.Reason, ev.Description)
	case *event.TransferFailed:
		return because(ev.Why.String(), ev.Reason, ev.Description)
	case *event.TransferStarted:
		return "to " + n.path(ev.Destination)
	case *event.SettlementRefused:
		return fmt.Sprintf("%s: %s", ev.Wanted, ev.Why)
	case *event.SendsRefused:
		return fmt.Sprintf("%s: %s", plural(int(ev.Count), "send"), ev.Why)
	case *event.MessagesBatchDeleted:
		return plural(len(ev.Sequences), "message") + " sent before " + ev.Before.String()
	case *event.SessionAccepted:
		return "session " + word(ev.SessionID)
	case *event.SessionReleased:
		return fmt.Sprintf("session %s: %s", word(ev.SessionID), ev.Cause)
	}
	return n.administeredDetail(ev)
}

// administeredDetail is detail for events that are about no message.
func (n *names) administeredDetail(ev event.Event) string {
	switch ev := ev.(type) {
	case *event.EntityCreated:
		return strings.ToLower(ev.EntityKind.String())
	case *event.EntityUpdated:
		return strings.Join(differences(&ev.Before, &ev.Properties), ", ")
	case *event.EntityDeleted:
		return word(ev.Reason)
	case *event.RuleAdded:
		return "rule " + word(ev.Rule.Name) + ": " + filtered(&ev.Rule.Filter)
	case *event.RuleUpdated:
		return "rule " + word(ev.Rule.Name) + ": " + filtered(&ev.Rule.Filter)
	case *event.RuleRemoved:
		return "rule " + word(ev.Rule.Name)
	case *event.ClockSet:
		return fmt.Sprintf("%v to %v, by %v", ev.From, ev.To, ev.Basis)
	case *event.RunStarted:
		return fmt.Sprintf("version %s, previous run: %v", word(ev.Version), ev.Stop)
	case *event.ReasonGiven:
		return quote(ev.Reason)
	case *event.HistoryPolicySet:
		return keptFor(ev)
	case *event.HistoryCut:
		return fmt.Sprintf("partition %d begins at %d, %d bytes removed (%v)", ev.LogPartition, ev.First, ev.Bytes, ev.Cause)
	case *event.LinkOpened:
		return ev.Role.String()
	case *event.LinkClosed:
		return because(ev.Cause.String(), ev.Condition, ev.Description)
	}
	return ""
}

// keptFor returns a policy in words.
func keptFor(ev *event.HistoryPolicySet) string {
	of := "of the namespace"
	if ev.Pattern != "" {
		of = "of " + word(ev.Pattern)
	}
	if ev.Removed {
		return of + ": policy removed"
	}
	var words []string
	for _, part := range []struct {
		name string
		kept event.Retention
	}{{"events", ev.Policy.Events}, {"bodies", ev.Policy.Bodies}, {"undo", ev.Policy.Undo}} {
		if part.kept != 0 {
			words = append(words, part.name+" "+part.kept.String())
		}
	}
	if ev.Share > 0 {
		words = append(words, fmt.Sprintf("share %d %%", ev.Share))
	}
	if ev.BeforeSends {
		words = append(words, "before sends")
	}
	if len(words) == 0 {
		words = []string{"the defaults"}
	}
	return of + ": " + strings.Join(words, ", ")
}

// unmatched is the text for a message to a topic of which no subscription got a copy.
const unmatched = "no rule matched"

// filtered returns the condition of a rule.
func filtered(f *event.Filter) string {
	if f.Kind == event.SQLFilter {
		return quote(f.Text)
	}
	return strings.ToLower(f.Kind.String())
}

func because(cause, reason, description string) string {
	s := cause
	if reason != "" {
		s += ": " + word(reason)
	}
	if description != "" {
		s += ": " + quote(description)
	}
	return s
}

func sent(id []byte, d *event.Details, size uint32) string {
	return string(appendSent(nil, id, d, size))
}

func appendSent(dst, id []byte, d *event.Details, size uint32) []byte {
	dst = appendWord(append(dst, "id "...), id)
	if len(d.Subject) > 0 {
		dst = appendWord(append(dst, ", subject "...), d.Subject)
	}
	if len(d.TraceParent) > 0 {
		dst = appendWord(append(dst, ", trace "...), d.TraceParent)
	}
	return append(strconv.AppendUint(append(dst, ", "...), uint64(size), 10), " bytes"...)
}

// from returns where a moved message comes from.
func (n *names) from(a *event.Arrival) string {
	if a == nil {
		return ""
	}
	return ", from " + n.path(a.Source.Entity)
}

func (n *names) copies(topic event.Slice, list []event.Copy) string {
	if len(list) == 0 {
		return unmatched
	}
	var words []string
	for i := range list[:min(len(list), 8)] {
		c := &list[i]
		s := n.message(event.Slice{Entity: c.Subscription, Partition: topic.Partition}, c.Sequence)
		if c.Cause != 0 {
			s += " (dead: " + because(c.Cause.String(), c.Reason, "") + ")"
		}
		words = append(words, s)
	}
	if more := len(list) - 8; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return "copies " + strings.Join(words, ", ")
}

// appendClock appends a time of day, to the millisecond.
func appendClock(dst []byte, t event.Time) []byte {
	const day = 24 * 60 * 60 * 1000
	ms := (t%day + day) % day
	s := ms / 1000
	ms %= 1000
	for _, part := range [...]event.Time{s / 3600, s / 60 % 60, s % 60} {
		dst = append(dst, byte('0'+part/10), byte('0'+part%10), ':')
	}
	dst[len(dst)-1] = '.'
	return append(dst, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
}

// differences returns the settings that differ, as NAME before → now, without keys.
func differences(before, now *event.Properties) (list []string) {
	duration := func(name string, a, b time.Duration) {
		if a != b {
			list = append(list, fmt.Sprintf("%s %s → %s", name, forever(a), forever(b)))
		}
	}
	value := func(name string, a, b any) {
		if a != b {
			list = append(list, fmt.Sprintf("%s %s → %s", name, word(fmt.Sprint(a)), word(fmt.Sprint(b))))
		}
	}
	duration("LockDuration", before.LockDuration, now.LockDuration)
	duration("DefaultMessageTimeToLive", before.DefaultMessageTimeToLive, now.DefaultMessageTimeToLive)
	duration("DuplicateDetectionWindow", before.DuplicateDetectionWindow, now.DuplicateDetectionWindow)
	duration("AutoDeleteOnIdle", before.AutoDeleteOnIdle, now.AutoDeleteOnIdle)
	value("MaxDeliveryCount", before.MaxDeliveryCount, now.MaxDeliveryCount)
	value("MaxSizeMegabytes", before.MaxSizeMegabytes, now.MaxSizeMegabytes)
	value("MaxMessageSizeKilobytes", before.MaxMessageSizeKilobytes, now.MaxMessageSizeKilobytes)
	value("Status", before.Status, now.Status)
	value("DeadLetteringOnMessageExpiration", before.DeadLetteringOnMessageExpiration, now.DeadLetteringOnMessageExpiration)
	value("DeadLetteringOnFilterError", before.DeadLetteringOnFilterError, now.DeadLetteringOnFilterError)
	value("ForwardTo", before.ForwardTo, now.ForwardTo)
	value("ForwardDeadLetteredMessagesTo", before.ForwardDeadLetteredMessagesTo, now.ForwardDeadLetteredMessagesTo)
	value("UserMetadata", before.UserMetadata, now.UserMetadata)
	if len(list) == 0 && !before.Equal(now) {
		list = append(list, "other settings")
	}
	return list
}

func forever(d time.Duration) string {
	switch {
	case d == event.Forever:
		return "forever"
	case d >= time.Minute && d%time.Minute == 0:
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}
