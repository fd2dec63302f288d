package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// fate is the state of a message after its last known event.
type fate struct {
	words   string // in capitals
	at      *moment
	number  node // its present or last number
	dead    bool
	over    bool
	lost    int             // locks that ended by time
	late    []time.Duration // how late settlements came after the end of their lock
	work    []time.Duration // from a lock to the settlement, whether it came in time or not
	held    time.Duration   // length of the newest lock
	back    int             // times it was returned by a receiver
	tries   int             // known attempts
	unused  int             // deliveries that a receiver released, which are not attempts
	earlier int             // failed attempts from before the history
	renewed bool
	counts  map[node]uint32 // failed attempts so far
}

// noteFailed notes how many attempts of a message had failed before an event. The first event with
// such a number also counts those that history does not have.
func (f *fate) noteFailed(of node, before uint32) {
	if _, known := f.counts[of]; !known {
		f.earlier, f.tries = f.earlier+int(before), f.tries+int(before)
	}
	f.counts[of] = before
}

// endAttempt notes the end of an attempt; count is the number of failed ones including it. If the
// attempt began before history does, this is its only event.
func (f *fate) endAttempt(of node, count uint32, into *int) {
	before, known := f.counts[of]
	if !known {
		before = max(count, 1) - 1
		f.noteFailed(of, before)
		f.tries++
	}
	if count > before { // else it does not count as failed, as in a dead-letter queue
		f.counts[of] = count
		*into++
	}
}

// noteReleased notes a delivery that a receiver released, which is not an attempt. If history does
// not have the delivery, none was counted.
func (f *fate) noteReleased(counted bool) {
	if f.unused++; counted {
		f.tries--
	}
}

// states are the words, in capitals, for the states that verbs lead to.
var states = map[string]string{
	"sent": "WAITING", "arrived": "WAITING", "activated": "WAITING", "copied": "WAITING", "lost": "WAITING", "released": "WAITING", "abandoned": "WAITING",
	"session-released": "WAITING", "session-lost": "WAITING", "scheduled": "SCHEDULED", "locked": "LOCKED", "deferred": "DEFERRED", "dead": "DEAD-LETTERED",
	"completed": "COMPLETED", "received": "RECEIVED AND DELETED", "expired": "EXPIRED", "cancelled": "CANCELLED", "purged": "PURGED", "moving": "MOVING",
	"handed-over": "MOVING", "moved": "MOVED", "move-failed": "DEAD-LETTERED", "duplicate": "DROPPED AS A DUPLICATE", "published": "PUBLISHED",
}

// fate follows the message of the question, under all its later numbers.
func (s *story) fate() fate {
	f := fate{words: "UNKNOWN", counts: make(map[node]uint32)}
	locked := make(map[event.LockToken]*moment)
	arrived, begun := make(map[move]bool), make(map[node]bool)
	for i := range s.moments {
		m := &s.moments[i]
		if m.move != (move{}) && m.step == arrives {
			arrived[m.move] = true
		}
		// the message it became tells more: the source may learn of it late
		if m.verb == "moved" && arrived[m.move] {
			continue
		}
		w := states[m.verb]
		if m.row != nil {
			w = stateWord(m.row)
		}
		if w != "" && (m.verb != "duplicate" || m.node != s.first) {
			f.words, f.at, f.number = w, m, m.node
			f.dead = w == "DEAD-LETTERED"
			f.over = slices.Contains([]string{"completed", "received", "expired", "cancelled", "purged"}, m.verb)
		}
		switch m.verb {
		case "known":
			if f.noteFailed(m.node, m.count); w == "LOCKED" && !begun[m.node] {
				f.tries++
				begun[m.node] = true
			}
		case "locked":
			f.noteFailed(m.node, m.count)
			f.tries++
			begun[m.node] = true
			locked[m.token] = m
			if m.until != 0 {
				f.held = m.until.Sub(m.at)
			}
		case "renewed":
			f.renewed = true
		case "lost", "session-lost":
			f.endAttempt(m.node, m.count, &f.lost)
		case "released":
			f.noteReleased(begun[m.node])
		case "session-released":
			if f.noteFailed(m.node, m.count); !begun[m.node] {
				f.tries++
			}
			begun[m.node] = true
		case "completed", "abandoned", "deferred":
			if m.verb != "completed" {
				f.endAttempt(m.node, m.count, &f.back)
			} else if _, known := f.counts[m.node]; !known { // it was locked
				f.tries++
			}
			if k := last(s.moments[:i], m.node); k != nil {
				f.work = append(f.work, m.since(k.tick))
			}
		case "refused":
			if k := locked[m.token]; k != nil && k.until != 0 && m.since(tick{k.until, k.clock}) > 0 {
				f.late, f.work = append(f.late, m.since(tick{k.until, k.clock})), append(f.work, m.since(k.tick))
			}
		}
	}
	if f.at == nil && len(s.cuts) > 0 { // it came and left before history begins
		f.words, f.over = "ENDED BEFORE HISTORY BEGINS", true
	}
	if s.lost != nil && f.words == "MOVING" {
		f.words = "MOVED"
	}
	return f
}

// attempts returns how many attempts there were, as far as that is known.
func (s *story) attempts(f fate) string {
	if len(s.cuts) > 0 {
		return "at least " + plural(f.tries, "attempt")
	}
	return plural(f.tries, "attempt")
}

// last returns the newest lock of a message.
func last(before []moment, of node) *moment {
	for i := len(before) - 1; i >= 0; i-- {
		if before[i].verb == "locked" && before[i].node == of {
			return &before[i]
		}
	}
	return nil
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// tellHead tells what the message is and its state.
func (s *story) tellHead(ctx context.Context) error {
	f := s.fate()
	about := ""
	for i := range s.moments {
		if about = s.moments[i].about; about != "" {
			break
		}
	}
	if len(s.cuts) > 0 {
		if err := s.l.note("history no longer has all its events"); err != nil {
			return err
		}
		if err := s.l.horizons(ctx, s.cuts...); err != nil {
			return err
		}
	}
	if about == "" {
		about = "sent before history begins"
	}
	words := f.words
	if gone := s.goneNote(f); gone != "" {
		words = gone
	}
	name := s.n.message(s.first.slice, s.first.number)
	if f.number != s.first && f.number.number != 0 {
		words += " as " + s.n.message(f.number.slice, f.number.number)
	}
	if f.tries > 0 {
		words += ", " + s.attempts(f)
	}
	fields := print.Object{print.Named("Message", name), print.Named("State", strings.ToLower(f.words)), print.Named("Attempts", uint64(f.tries)), print.Named("About", about)}
	if len(s.cuts) > 0 {
		fields = append(fields, print.Named("KnownSince", s.since.at.String()))
	}
	return s.l.answer(fields, "%s · %s · %s", name, about, words)
}

// goneNote returns a note that the entity of the message has been deleted.
func (s *story) goneNote(f fate) string {
	e := s.n.byID[f.number.slice.Entity]
	if e == nil || e.deleted == 0 || f.over {
		return ""
	}
	return "DELETED WITH ITS ENTITY at " + e.deleted.String()
}

// MomentColumns are the columns of the rows of [Ledger.Story].
var MomentColumns = []string{"Time", "Type", "Message", "Detail", "By", "Place", "Event"}

// tellMoment tells the row of an event of a message.
func (l *Ledger) tellMoment(s *story, m *moment) error {
	who, place := m.book.who(m.origin), address.At(m.book.ID(), m.lsn)
	name := s.n.message(m.slice, m.number)
	text := fmt.Sprintf("%s  %-10s", m.at, m.verb)
	if m.node != s.first {
		text += " " + name
	}
	for _, t := range []string{m.detail, who} {
		if t != "" {
			text += "  " + t
		}
	}
	return l.tell(Line{Part: Row, Text: text + "  " + place.String(), Fields: print.Object{
		print.Named("Time", m.at.String()), print.Named("Type", m.verb), print.Named("Message", name), print.Named("Detail", m.detail), print.Named("By", who),
		print.Named("Place", place.String()), print.Named("Event", m.kind.String())}})
}

// sentence returns a summary of the message's state, as far as the events show it.
func (s *story) sentence() string {
	f := s.fate()
	switch {
	case s.lost != nil && f.words == "MOVED":
		return fmt.Sprintf("it arrived in %s before %s; history does not show what happened to it there", s.lost.path, s.since.at)
	case f.at == nil:
		return ""
	case f.dead && f.at.row != nil:
		return fmt.Sprintf("it was dead-lettered before %s; history does not show why, but its properties may", f.at.at)
	case f.dead && f.at.cause == event.CauseMaxDelivery && f.lost > 0 && len(f.late) > 0:
		return fmt.Sprintf("the handler takes %s (median of %d), the lock lasts %s%s: the work was done, and repeated%s", span(median(f.work)), len(f.work), span(f.held), s.lockSince(f), s.earlier(f))
	case f.dead && f.at.cause == event.CauseMaxDelivery && f.lost == f.tries && f.held > 0 && len(s.cuts) == 0:
		renewed := " or renewed"
		if f.renewed {
			renewed = ""
		}
		return fmt.Sprintf("all %s ended when the lock expired after %s%s: no receiver settled%s it", plural(f.lost, "attempt"), span(f.held), s.lockSince(f), renewed)
	case f.dead && f.at.cause == event.CauseMaxDelivery:
		return fmt.Sprintf("%s failed: %d returned, %d with a lost lock%s", plural(f.earlier+f.back+f.lost, "attempt"), f.back, f.lost, s.earlier(f))
	case f.dead && f.at.cause == event.CauseExpired && f.tries == 0:
		return s.unreceived(f, "its time to live ended before it was received", "its time to live ended")
	case f.dead:
		return "it was dead-lettered: " + f.at.reason
	case f.words == "COMPLETED":
		return fmt.Sprintf("it was completed %s after the first of these events, with %s%s", span(f.at.since(s.moments[0].tick)), s.attempts(f), s.waited(f))
	case f.words == "WAITING" && f.tries == 0:
		return s.unreceived(f, "it has not been received", "it is waiting")
	case f.words == "EXPIRED" && f.tries == 0:
		return s.unreceived(f, "its time to live ended before it was received", "its time to live ended") + ", and expired messages of this entity are not kept"
	case f.words == "PURGED":
		return fmt.Sprintf("it was purged at %s%s, with %s", f.at.at, s.by(f.at), f.at.detail)
	case f.words == "PUBLISHED" && strings.Contains(f.at.detail, unmatched):
		return "no subscription has it: " + unmatched
	case f.words == "WAITING":
		return "it is waiting, after " + s.attempts(f)
	}
	return ""
}

// unreceived returns the sentence for a message without a known attempt: never, if its whole life
// is known, else anyhow, with the time since which no receiver had it.
func (s *story) unreceived(f fate, never, anyhow string) string {
	if f.unused > 0 {
		least := ""
		if len(s.cuts) > 0 {
			least = "at least "
		}
		return fmt.Sprintf("%s: it was delivered and released %s%s", anyhow, least, many(f.unused, "time", "times"))
	}
	if len(s.cuts) == 0 {
		return never
	}
	return fmt.Sprintf("%s: it has not been received since %s; whether it was received before that is unknown", anyhow, s.since.at)
}

// earlier returns how many attempts had failed before the history.
func (s *story) earlier(f fate) string {
	if f.earlier == 0 {
		return ""
	}
	return fmt.Sprintf("; history does not show how %d before %s ended", f.earlier, s.since.at)
}

// waited returns how long a message waited for a receiver, and how long the work took.
func (s *story) waited(f fate) string {
	for i := len(s.moments) - 1; i >= 0; i-- {
		m := &s.moments[i]
		if m.verb != "locked" || m.compare(f.at.tick) > 0 {
			continue
		}
		if len(s.cuts) > 0 { // others may have had it before
			return fmt.Sprintf(": the work of the last receiver took %s", span(f.at.since(m.tick)))
		}
		first := s.moments[0].tick
		for j := range s.moments {
			if s.moments[j].verb == "locked" {
				return fmt.Sprintf(": it waited %s for a receiver, whose work took %s", span(s.moments[j].since(first)), span(f.at.since(m.tick)))
			}
		}
	}
	return ""
}

// by returns the origin of an event, as words.
func (s *story) by(m *moment) string {
	if who := m.book.who(m.origin); who != "" {
		return " by " + who
	}
	return ""
}

// lockSince returns the time since which locks are as short as they are, if that was changed.
func (s *story) lockSince(f fate) string {
	e := s.n.byID[f.number.slice.Entity]
	if e == nil {
		return ""
	}
	for i := len(e.changes) - 1; i > 0; i-- {
		c := &e.changes[i]
		if s.l.changed(c).compare(f.at.tick) <= 0 && c.before.LockDuration != c.now.LockDuration {
			return fmt.Sprintf(" since %s, was %s (%s)", c.at, forever(c.before.LockDuration), c.place)
		}
	}
	return ""
}

// tellEnd tells the commands to type next.
func tellEnd(l *Ledger, s *story) error {
	f := s.fate()
	if s.more {
		if err := l.note("it became more than %d messages; the others are not followed", maxNodes); err != nil {
			return err
		}
	}
	path := s.n.path(f.number.slice.Entity)
	switch {
	case f.at != nil && f.at.row != nil:
		if f.dead {
			return l.next("ledgerbus peek '" + address.Address{Entity: path, SubQueue: f.at.row.SubQueue, Number: f.number.number}.String() + "'")
		}
		return l.next(fmt.Sprintf("ledgerbus at %s '%s'", f.at.at, path))
	case f.dead:
		return l.next("ledgerbus why '"+path+"/$dlq'", "ledgerbus events '"+path+"' --where \"type IN ('lost','dead','refused')\"")
	case f.at != nil:
		return l.next(fmt.Sprintf("ledgerbus at %s '%s'", address.At(f.at.book.ID(), f.at.lsn), path))
	}
	return nil
}
