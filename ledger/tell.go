package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/ledger/address"
	"github.com/ledgerbus/ledgerbus/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// fate is how a message stands at the end of what is known of it.
type fate struct {
	words   string // in capitals
	at      *moment
	number  node // the number that it has, or had last
	dead    bool
	over    bool
	lost    int             // locks that ended by time
	late    []time.Duration // by how much settlements came after the end of their lock
	work    []time.Duration // from a lock to the settlement, whether it came in time or not
	held    time.Duration   // how long the newest lock was given for
	tries   int
	renewed bool
	refused int
}

// states are the words, in capitals, for the states that verbs lead to.
var states = map[string]string{
	"sent": "WAITING", "arrived": "WAITING", "activated": "WAITING", "copied": "WAITING", "lost": "WAITING", "released": "WAITING", "abandoned": "WAITING",
	"session-released": "WAITING", "session-lost": "WAITING", "scheduled": "SCHEDULED", "locked": "LOCKED", "deferred": "DEFERRED", "dead": "DEAD-LETTERED",
	"completed": "COMPLETED", "received": "RECEIVED AND DELETED", "expired": "EXPIRED", "cancelled": "CANCELLED", "purged": "PURGED", "moving": "MOVING",
	"handed-over": "MOVING", "moved": "MOVED", "move-failed": "DEAD-LETTERED", "duplicate": "DROPPED AS A DUPLICATE", "published": "PUBLISHED",
}

// fate follows the message that was asked for, under whatever number it went on.
func (s *story) fate() fate {
	f := fate{words: "UNKNOWN"}
	locked := make(map[event.LockToken]*moment)
	arrived := make(map[move]bool)
	for i := range s.moments {
		m := &s.moments[i]
		if m.move != (move{}) && m.step == arrives {
			arrived[m.move] = true
		}
		if m.verb == "moved" && arrived[m.move] { // what it has become says more: the source may be told late
			continue
		}
		if w := states[m.verb]; w != "" && (m.verb != "duplicate" || len(s.moments) == 1 || m.node != s.first) {
			f.words, f.at, f.number = w, m, m.node
			f.dead = m.verb == "dead" || m.verb == "move-failed"
			f.over = slices.Contains([]string{"completed", "received", "expired", "cancelled", "purged"}, m.verb)
		}
		switch m.verb {
		case "locked":
			f.tries++
			locked[m.token] = m
			if m.until != 0 {
				f.held = m.until.Sub(m.at)
			}
		case "renewed":
			f.renewed = true
		case "lost":
			f.lost++
		case "completed", "abandoned", "deferred":
			if k := last(s.moments[:i], m.node); k != nil {
				f.work = append(f.work, m.since(k.tick))
			}
		case "refused":
			f.refused++
			if k := locked[m.token]; k != nil && k.until != 0 && m.since(tick{k.until, k.clock}) > 0 {
				f.late, f.work = append(f.late, m.since(tick{k.until, k.clock})), append(f.work, m.since(k.tick))
			}
		}
	}
	return f
}

// last is the newest lock of a message.
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

// tellHead says what the message is and what became of it.
func (s *story) tellHead(ctx context.Context) error {
	f := s.fate()
	about := ""
	for i := range s.moments {
		if about = s.moments[i].about; about != "" {
			break
		}
	}
	if about == "" {
		if err := s.l.note("history no longer has how it was sent"); err != nil {
			return err
		}
		if err := s.l.horizons(ctx, s.moments[0].book); err != nil {
			return err
		}
		about = "sent before history begins"
	}
	words := f.words
	if gone := s.gone(f); gone != "" {
		words = gone
	}
	name := s.n.message(s.first.slice, s.first.number)
	if f.number != s.first && f.number.number != 0 {
		words += " as " + s.n.message(f.number.slice, f.number.number)
	}
	if f.tries > 0 {
		words += ", " + plural(f.tries, "attempt")
	}
	return s.l.answer(print.Object{print.Named("Message", name), print.Named("State", strings.ToLower(f.words)), print.Named("Attempts", uint64(f.tries)), print.Named("About", about)},
		"%s · %s · %s", name, about, words)
}

// gone says that the entity in which the message was has been deleted.
func (s *story) gone(f fate) string {
	e := s.n.byID[f.number.slice.Entity]
	if e == nil || e.deleted == 0 || f.over {
		return ""
	}
	return "DELETED WITH ITS ENTITY at " + e.deleted.String()
}

// MomentColumns are the columns of the rows of [Ledger.Story].
var MomentColumns = []string{"Time", "Type", "Message", "Detail", "By", "Place", "Event"}

// tellMoment is the row of something that happened to a message.
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

// sentence says what is the matter, as far as the events show it.
func (s *story) sentence() string {
	f := s.fate()
	switch {
	case f.at == nil:
		return ""
	case f.dead && f.at.cause == event.CauseMaxDelivery && f.lost > 0 && len(f.late) > 0:
		return fmt.Sprintf("the handler takes %s (median of %d), the lock lasts %s%s: the work was done, and repeated", span(median(f.work)), len(f.work), span(f.held), s.lockSince(f))
	case f.dead && f.at.cause == event.CauseMaxDelivery && f.lost == f.tries:
		return fmt.Sprintf("all %s ended with the lock, after %s%s, and nobody settled or renewed it", plural(f.lost, "attempt"), span(f.held), s.lockSince(f))
	case f.dead && f.at.cause == event.CauseMaxDelivery:
		return fmt.Sprintf("%s failed: %d given back, %d with a lock that was lost", plural(f.tries, "attempt"), f.tries-f.lost, f.lost)
	case f.dead && f.at.cause == event.CauseExpired && f.tries == 0:
		return "its time to live ended before anybody received it"
	case f.dead:
		return "it was dead-lettered: " + f.at.reason
	case f.words == "COMPLETED":
		return fmt.Sprintf("it was completed %s after the first of these events, with %s%s", span(f.at.since(s.moments[0].tick)), plural(f.tries, "attempt"), s.waited(f))
	case f.words == "WAITING" && f.tries == 0:
		return "nobody has received it"
	case f.words == "EXPIRED" && f.tries == 0:
		return "its time to live ended before anybody received it, and expired messages of this entity are not kept"
	case f.words == "PURGED":
		return fmt.Sprintf("it was purged at %s%s, with %s", f.at.at, s.by(f.at), f.at.detail)
	case f.words == "PUBLISHED" && strings.Contains(f.at.detail, unmatched):
		return "no subscription has it: " + unmatched
	case f.words == "WAITING":
		return fmt.Sprintf("it is waiting, after %s", plural(f.tries, "attempt"))
	}
	return ""
}

// waited says how long a message waited for a receiver, and how long the work took.
func (s *story) waited(f fate) string {
	for i := len(s.moments) - 1; i >= 0; i-- {
		m := &s.moments[i]
		if m.verb != "locked" || m.compare(f.at.tick) > 0 {
			continue
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

// by names who did something.
func (s *story) by(m *moment) string {
	if who := m.book.who(m.origin); who != "" {
		return " by " + who
	}
	return ""
}

// lockSince says since when locks are as short as they are, if that was changed.
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

// tellEnd says what to type next.
func tellEnd(l *Ledger, s *story) error {
	f := s.fate()
	if s.more {
		if err := l.note("it became more messages than the %d that are followed", maxNodes); err != nil {
			return err
		}
	}
	path := s.n.path(f.number.slice.Entity)
	switch {
	case f.dead:
		return l.next("ledgerbus why '"+path+"/$dlq'", "ledgerbus events '"+path+"' --where \"type IN ('lost','dead','refused')\"")
	case f.at != nil:
		return l.next(fmt.Sprintf("ledgerbus at %s '%s'", address.At(f.at.book.ID(), f.at.lsn), path))
	}
	return nil
}
