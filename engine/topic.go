package engine

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Bounds of what one send to a topic may make, however many subscriptions there are, because all of
// it is one record. One message alone cannot make more copies, because a topic has no more filters.
// A choice.
const (
	maxCopies      = 1 << 18
	maxCopyChanges = 32 << 20 // bytes; a copy beyond that is dead-lettered
	// bytes of bodies and copies: what fits into a frame of the log with other contents
	maxPublish = 116 << 20
	// larger numbers are added up before they are written, and their memory is not kept
	manyCopies = 1 << 14
)

// fanOut holds the copies that one decision makes, and the plan of its last send. All of it is
// valid until the next decision.
type fanOut struct {
	plan    []messagePlan // by message
	copies  []event.Copy
	changes []byte // changes by the rules, in the form that the log has
	change  filter.Changes
	values  event.RuleChanges // scratch
	add     []event.Property  // scratch
	blank   filter.Message
}

func (f *fanOut) reset() {
	if cap(f.copies) > manyCopies {
		f.copies = nil
	}
	if cap(f.changes) > 1<<20 {
		f.changes = nil
	}
	f.copies, f.changes, f.plan = f.copies[:0], f.changes[:0], f.plan[:0]
}

// size returns how many bytes of log the copies take, or a little more.
func (f *fanOut) size() (n int) {
	const numbers = 32
	for i := range f.copies {
		c := &f.copies[i]
		n += numbers + len(c.SessionID) + len(c.Rule) + len(c.Changes.Data) + len(c.Reason) + len(c.Description)
	}
	return n
}

// publishedMessage is a message on its way to the subscriptions of a topic.
type publishedMessage struct {
	sequence  event.SequenceNumber
	ttl       time.Duration // the sender's, cut to the topic's ceiling; 0: none
	session   []byte
	inSession bool // it has a session id
	size      int  // bytes of the body
	carried   int  // bytes of changes that it came with, which each copy has
	header    int  // bytes of the message as sent, without its body
	see       *filter.Message
}

// messagePlan is the plan for one message of a send.
type messagePlan struct {
	twice    bool                 // it is a duplicate
	original event.SequenceNumber // of this one
	sequence event.SequenceNumber
	until    event.Time // its id is in the duplicate history
	from, to int        // its copies
	ttl      time.Duration
	later    bool // it is scheduled
}

// publishDecision finds the subscriptions that get copies of messages of a topic. The fan-out holds
// the result.
type publishDecision struct {
	slice
	fan   *fanOut
	bytes int64 // bytes that the copies add to the topic's size
	// arrival tells where the message comes from; nil: it was sent here.
	arrival *event.Arrival
	// earlier counts the copies, and bytes of changes, that belong to other messages that arrive in
	// the same decision: each message has the bounds of a send for itself.
	earlier struct{ copies, changes int }
}

// check plans a send to a topic: the rules in force decide which subscriptions get copies
// (semantics.md 5.1, 15.2). It refuses a send that makes too much.
func (p *publishDecision) check(cmd *Send) *Error {
	before := p.savepoint()
	err := p.makePlan(cmd)
	if err != nil {
		p.rollbackTo(before, p.id.Partition)
	}
	return err
}

func (p *publishDecision) makePlan(cmd *Send) *Error {
	p.fan.plan = p.fan.plan[:0]
	if p.arrival != nil {
		p.earlier.copies, p.earlier.changes = len(p.fan.copies), len(p.fan.changes)
	}
	fresh := p.duplicates(len(cmd.Messages))
	seq := p.next(p.id)
	var own int64
	bodies := 0
	for i := range cmd.Messages {
		m := &cmd.Messages[i]
		bodies += len(m.Body) + len(m.Tail)
		if original, twice := fresh.original(cmd, i); twice {
			p.fan.plan = append(p.fan.plan, messagePlan{twice: true, original: original})
			continue
		}
		number := cmd.found(i).number
		pl := messagePlan{sequence: number, later: m.ScheduledFor > p.now || number != 0, from: len(p.fan.copies)}
		if number == 0 {
			pl.sequence = seq
			seq++
		}
		pl.until = fresh.remember(m, pl.sequence)
		if pl.later {
			own += int64(len(m.Body)+len(m.Tail)) + int64(p.carriedSize())
		} else {
			pl.ttl, _ = timeToLive(p.now, m.TimeToLive, p.entity.Properties.DefaultMessageTimeToLive)
			err := p.copiesOf(&publishedMessage{sequence: pl.sequence, ttl: pl.ttl, session: m.SessionID, inSession: m.HasSession,
				size: len(m.Body) + len(m.Tail), carried: p.carriedSize(), header: m.Header, see: m.Properties}, p.entity.Properties.FilteringBeforePublishing)
			if err != nil {
				return err
			}
		}
		pl.to = len(p.fan.copies)
		p.fan.plan = append(p.fan.plan, pl)
	}
	if len(p.fan.copies) > manyCopies && bodies+p.fan.size() > maxPublish {
		return Refuse(MessageTooLarge, "The copies of the messages would take more than %d bytes.", maxPublish)
	}
	p.bytes += own
	return p.room(p.bytes)
}

// carriedSize returns how many bytes a moved message brings in addition to its own.
func (p *publishDecision) carriedSize() int {
	if p.arrival == nil {
		return 0
	}
	return len(p.arrival.Changes.Data)
}

// publish adds the events of a plan, one for each message with all its copies, and returns their
// numbers if the command asks for them.
func (s *sendDecision) publish(plan []messagePlan) (numbers Numbers) {
	next := s.next(s.id)
	for i := range s.cmd.Messages {
		m, pl := &s.cmd.Messages[i], &plan[i]
		number := pl.sequence
		next = max(next, number+1)
		switch {
		case pl.twice:
			s.drop(m, pl.original)
			if number = 0; s.cmd.Numbers {
				number = s.stillScheduled(pl.original)
			}
		case pl.later:
			s.schedule(i, pl.sequence, pl.until)
		default:
			s.publishOne(m, pl)
		}
		if s.cmd.Numbers {
			numbers = append(numbers, number)
		}
	}
	s.noteNext(s.id, next)
	return numbers
}

// publishOne adds the event of a message with its copies.
func (s *sendDecision) publishOne(m *Message, pl *messagePlan) {
	ev := add[*event.MessagePublished](s.decision, event.KindMessagePublished)
	ev.Envelope, ev.Sequence = s.envelope(s.from), pl.sequence
	ev.MessageID, ev.SessionID, ev.HasSession, ev.PartitionKey = m.ID, m.SessionID, m.HasSession, m.PartitionKey
	ev.TimeToLive, ev.EnqueuedAt, ev.Batch = pl.ttl, s.now, s.batch
	ev.IDType, ev.DuplicateUntil, ev.Details, ev.Arrival = m.IDType, pl.until, m.Details, s.arrival
	ev.Keyed = s.entity.keyed(m)
	// else it will never be read
	if ev.Copies = s.fan.copies[pl.from:pl.to:pl.to]; len(ev.Copies) > 0 {
		ev.Body.Data, ev.Body.Tail = m.Body, m.Tail
	}
}

// activate gives a scheduled message to the subscriptions, as if it were sent now: the rules in
// force now decide (semantics.md 7.6, SM-292).
func (p *publishDecision) activate(next index.ScheduledMessage, cmd *Tick) {
	m, _ := p.index.Message(p.id, next.Sequence)
	number := p.next(p.id)
	ttl, _ := timeToLive(p.now, next.TimeToLive, p.entity.Properties.DefaultMessageTimeToLive)
	see := cmd.Properties
	if see == nil {
		see = &p.fan.blank
	}
	session := see.System[filter.SessionID]
	if m.Hops > 0 { // it moved here, and waited
		p.arrival = &event.Arrival{First: m.EnqueuedSequence, DeadLetterSource: m.DeadLetterSource}
	}
	p.copiesOf(&publishedMessage{sequence: number, ttl: ttl, session: []byte(session.Text), inSession: session.Type != event.Null,
		size: int(m.Body.Size), header: cmd.Header, see: see}, false)
	ev := add[*event.ScheduledPublished](p.decision, event.KindScheduledPublished)
	ev.Envelope, ev.Sequence, ev.NewSequence, ev.EnqueuedAt = p.envelope(0), next.Sequence, number, p.now
	ev.Copies = p.fan.copies[:len(p.fan.copies):len(p.fan.copies)]
}

// copiesOf adds the copies of one message for all subscriptions of its topic. It refuses if there
// would be too many. For a topic that filters before publishing, it also refuses if no rule matches
// or one cannot be evaluated (semantics.md 15.6).
func (p *publishDecision) copiesOf(m *publishedMessage, filtering bool) *Error {
	set := p.settings.topics[p.entity.ID]
	before := len(p.fan.copies)
	if set != nil {
		p.show(m)
		for _, match := range set.Match(m.see, p.settings.newID) {
			sub := p.settings.entities[match.Subscription]
			if sub == nil {
				continue // it is being deleted
			}
			if match.Err != nil && filtering {
				return Refuse(InvalidArgument, "The filter of the rule '%s' of '%s' cannot be evaluated: %v", match.Failed.Name(), sub.Path, match.Err)
			}
			p.copiesFor(m, sub, &match)
			if len(p.fan.copies)-p.earlier.copies > maxCopies {
				return Refuse(MessageTooLarge, "The messages of this batch would make more than %d copies.", maxCopies)
			}
		}
	}
	if len(p.fan.copies) == before && filtering {
		return Refuse(NoMatchingSubscription, "No rule of any subscription of '%s' matches the message.", p.entity.Path)
	}
	return nil
}

// copiesFor adds the copies for one subscription: one plain copy, a changed one for each matching
// rule with an action, and one in its dead-letter queue if a rule could not be evaluated
// (semantics.md 15.2, 15.6).
func (p *publishDecision) copiesFor(m *publishedMessage, sub *Entity, match *filter.Match) {
	var failed *filter.Rule
	reason, text := "FilterException", ""
	if match.Err != nil {
		failed, text = match.Failed, match.Err.Error()
	}
	if match.Plain {
		p.plainCopy(m, sub)
	}
	for _, r := range match.Actions {
		if err := p.changedCopy(m, sub, r); err != nil && failed == nil {
			failed, reason, text = r, "RuleActionException", err.Error()
		}
	}
	if failed != nil && sub.Properties.DeadLetteringOnFilterError {
		p.deadCopy(m, sub, event.CauseFilter, reason, "Rule '"+failed.Name()+"': "+text)
	}
}

// changedCopy adds the copy that a rule's action makes. If the action makes the header too large,
// the copy enters the dead-letter queue as it was sent, whatever the subscription's setting for
// errors: the action could be evaluated (semantics.md 9.2, S2-19).
func (p *publishDecision) changedCopy(m *publishedMessage, sub *Entity, r *filter.Rule) error {
	c := &p.fan.change
	c.Reset()
	if err := r.Run(m.see, p.settings.newID, c); err != nil {
		return err
	}
	session, inSession := m.session, m.inSession
	if v, changed := c.System(filter.SessionID); changed {
		session, inSession = []byte(v.Text), v.Type != event.Null
		if len(session) > maxKey {
			return &filter.EvalError{Text: "the session id it sets is longer than 128 characters"}
		}
	}
	add := append(p.fan.add[:0], textProperty("RuleName", r.Name()))
	noSession := sub.Properties.RequiresSession && !inSession
	if noSession {
		add = append(add, textProperty(reasonKey, noSessionReason), textProperty(descriptionKey, noSessionText))
	}
	p.fan.add = add
	from := len(p.fan.changes)
	c.Values(&p.fan.values, add...)
	p.fan.changes = p.fan.values.Append(p.fan.changes)
	if n := len(p.fan.changes) - from; n+m.header > maxChanges || len(p.fan.changes)-p.earlier.changes > maxCopyChanges {
		p.fan.changes = p.fan.changes[:from]
		p.deadCopy(m, sub, event.CauseHeaderSize, headerReason, headerText)
		return nil
	}
	changes := p.fan.changes[from:len(p.fan.changes):len(p.fan.changes)]
	copied := p.newCopy(m, sub, len(changes))
	copied.Rule, copied.Changes.Data = r.Name(), changes
	if noSession {
		copied.Cause, copied.Reason, copied.Description = event.CauseNoSession, noSessionReason, noSessionText
	} else if sub.Properties.RequiresSession {
		copied.InSession, copied.SessionID = true, session
	}
	return nil
}

// The dead-letter reason and description of a copy without a session id for a subscription with
// sessions (semantics.md 8.1).
const (
	noSessionReason = "Session id is null."
	noSessionText   = "Session enabled entity doesn't allow a message whose session identifier is null."
)

// plainCopy adds a copy as the message was sent.
func (p *publishDecision) plainCopy(m *publishedMessage, sub *Entity) {
	if sub.Properties.RequiresSession && !m.inSession {
		p.deadCopy(m, sub, event.CauseNoSession, noSessionReason, noSessionText)
		return
	}
	c := p.newCopy(m, sub, 0)
	if sub.Properties.RequiresSession {
		c.InSession, c.SessionID = true, m.session
	}
}

// deadCopy adds a copy in the dead-letter queue of a subscription.
func (p *publishDecision) deadCopy(m *publishedMessage, sub *Entity, cause event.Cause, reason, description string) {
	cause, reason, description, changes := fitReason(m.header, cause, reason, clip(description))
	c := p.newCopy(m, sub, len(changes))
	c.Cause, c.Reason, c.Description, c.Changes.Data = cause, reason, description, changes
}

// newCopy adds a copy with a subscription's next number. Its time to live is cut once more, to the
// subscription's ceiling, and counts from the same instant (semantics.md 7.1).
func (p *publishDecision) newCopy(m *publishedMessage, sub *Entity, changes int) *event.Copy {
	id := event.Slice{Entity: sub.ID, Partition: p.id.Partition}
	ceiling := min(p.entity.Properties.DefaultMessageTimeToLive, sub.ceiling())
	own, expires := timeToLive(p.now, m.ttl, ceiling)
	p.fan.copies = append(p.fan.copies, event.Copy{Subscription: sub.ID, Sequence: p.take(id), OwnTTL: own != 0, ExpiresAt: expires})
	p.bytes += int64(m.size + m.carried + changes)
	return &p.fan.copies[len(p.fan.copies)-1]
}

// show sets the properties of a message that filters see and only the broker knows.
func (p *publishDecision) show(m *publishedMessage) {
	number := func(v int64) event.Value { return event.Value{Type: event.Long, Bits: uint64(v)} }
	if m.see == nil {
		m.see = &p.fan.blank
	}
	s := &m.see.System
	s[filter.SequenceNumber] = number(int64(m.sequence))
	s[filter.EnqueuedSequenceNumber] = number(int64(m.sequence))
	if p.arrival != nil {
		s[filter.EnqueuedSequenceNumber] = number(int64(p.arrival.First))
		s[filter.DeadLetterSource] = event.Value{}
		if from := p.arrival.DeadLetterSource; from != "" {
			s[filter.DeadLetterSource] = event.Value{Type: event.String, Text: from}
		}
	}
	s[filter.EnqueuedTimeUtc] = event.InstantOf(p.now)
	s[filter.Size] = number(int64(m.size))
	s[filter.DeliveryCount] = number(0)
	s[filter.State] = number(int64(MessageActive))
	s[filter.ForcePersistence] = event.Value{Type: event.Bool}
	own, expires := timeToLive(p.now, m.ttl, p.entity.Properties.DefaultMessageTimeToLive)
	s[filter.ExpiresAtUtc], s[filter.TimeToLive] = event.Value{}, event.Value{}
	if expires != 0 {
		s[filter.ExpiresAtUtc] = event.InstantOf(expires)
	}
	if own != 0 {
		s[filter.TimeToLive] = event.Value{Type: event.Span, Bits: uint64(own / event.Tick)}
	}
}
