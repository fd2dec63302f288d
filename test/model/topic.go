package model

// Copy is a message that a subscription got.
type Copy struct {
	Queue   *Queue
	Message *Message
}

// publish sends messages to a topic. The rules in force decide who gets copies (5.1, 15.2); all of
// it is one record. When a topic filters first, a message that no rule matches, or that one fails
// for, refuses them all (15.6).
func (p *Partition) publish(now int64, t *Queue, drafts []Draft) (numbers []uint64, r Refusal) {
	var size int64
	before := map[string]bool{} // ids of this send
	all := make([][]Copy, len(drafts))
	number := t.Last
	for i := range drafts {
		d := &drafts[i]
		if _, twice := t.twice(now, d); twice || t.Settings.Window > 0 && before[d.ID] {
			continue
		}
		before[d.ID] = true
		if d.number == 0 {
			number++
		}
		if d.For > now || d.number != 0 {
			size += int64(len(d.Body))
			continue
		}
		if all[i], r = p.copies(now, t, d, number, t.Settings.FilterFirst); r != Accepted {
			return nil, r
		}
		for _, c := range all[i] {
			size += c.Message.bytes()
		}
	}
	if !p.fits(t, size) {
		return nil, QuotaExceeded
	}
	p.record(now, true)
	p.added(t, size)
	if p.committing == nil {
		p.Copies = nil
	}
	for i := range drafts {
		d := &drafts[i]
		if first, twice := t.twice(now, d); twice {
			numbers = append(numbers, t.stillScheduled(first))
			continue
		}
		number := t.Last + 1
		if d.number != 0 {
			number = d.number
		}
		p.remember(now, t, d.ID, number)
		numbers = append(numbers, number)
		if d.For > now || d.number != 0 {
			p.store(t, &Message{Seq: number, Body: d.Body, State: Scheduled, EnqueuedAt: now, OwnTTL: d.TTL, For: d.For, Draft: d})
			continue
		}
		p.passOn(t, number, all[i])
	}
	return numbers, Accepted
}

// publishScheduled hands a scheduled message to the subscriptions as if it were sent now, under a
// new number: the rules in force now decide (7.6).
func (p *Partition) publishScheduled(now int64, t *Queue, old *Message) {
	p.record(now, true)
	p.Copies = nil
	copies, _ := p.copies(now, t, old.Draft, t.Last+1, false)
	for _, c := range copies {
		c.Message.Waited = true
	}
	p.remove(t, old.Seq, Activated)
	p.passOn(t, t.Last+1, copies)
}

// passOn gives a topic's number out, and copies to subscriptions. The topic keeps nothing (1.1).
func (p *Partition) passOn(t *Queue, number uint64, copies []Copy) {
	last, used := t.Last, t.Used
	p.changing(func() { t.Last, t.Used = last, used; delete(t.Gone, number) })
	t.Last, t.Used, t.Gone[number] = number, true, Published
	for _, c := range copies {
		c.Message.Seq = c.Queue.Last + 1
		p.store(c.Queue, c.Message)
	}
	for _, c := range copies {
		p.tell(c.Queue, Returned, c.Message)
	}
	p.Copies = append(p.Copies, copies...)
}

// copies is what the subscriptions of a topic get of a message. When it filters first, one that a
// filter fails for, or that nobody gets, is refused.
func (p *Partition) copies(now int64, t *Queue, d *Draft, number uint64, filterFirst bool) (all []Copy, r Refusal) {
	sent := Message{OwnTTL: d.TTL}
	sent.live(now, t.Settings.TTL)
	for _, sub := range t.Subscriptions {
		if !sub.InForce {
			continue
		}
		first := number
		if d.arrived != nil {
			first = d.arrived.First
		}
		v := sub.judge(d, first)
		if filterFirst && v.reason != "" {
			return nil, Invalid
		}
		for _, m := range p.copiesOf(sub, d, v) {
			m.Body, m.State, m.OwnTTL, m.Draft, m.From = d.Body, Active, sent.OwnTTL, d, number
			if a := d.arrived; a != nil {
				m.arrived(a)
				if len(a.Changes) > 0 {
					m.Changes = append([][]byte{a.Changes}, m.Changes...)
				}
			}
			// the smaller one wins, from one instant (7.1)
			m.live(now, least(t.Settings.TTL, sub.Settings.TTL))
			all = append(all, Copy{sub, m})
		}
	}
	if filterFirst && len(all) == 0 {
		return nil, NoMatch
	}
	return all, Accepted
}

// verdict is what the filters of a subscription say of a message.
type verdict struct {
	plain        bool // a rule without action matches
	actions      []*Rule
	reason, text string // of the first that could not be evaluated
}

func (sub *Queue) judge(d *Draft, number uint64) (v verdict) {
	for i := range sub.Rules {
		r := &sub.Rules[i]
		switch matches, wrong := r.Filter.matches(d, number); {
		case wrong != "" && v.reason == "":
			v.reason, v.text = "FilterException", "Rule '"+r.Name+"': "+wrong
		case !matches:
		case len(r.Action) == 0:
			v.plain = true
		default:
			v.actions = append(v.actions, r)
		}
	}
	return v
}

// copiesOf is what one subscription gets: an unchanged copy if rules without action match, one for
// each rule with action that matches, and a dead letter when a rule fails (15.2, 15.6).
func (p *Partition) copiesOf(sub *Queue, d *Draft, v verdict) (all []*Message) {
	if v.plain {
		all = append(all, p.arrives(sub, d))
	}
	for _, r := range v.actions {
		changed, wrong := r.act(d, p.NewID)
		if wrong == "" {
			all = append(all, p.changed(sub, d, &changed, r.Name))
		} else if v.reason == "" {
			v.reason, v.text = "RuleActionException", "Rule '"+r.Name+"': "+wrong
		}
	}
	if v.reason != "" && sub.Settings.DeadLetterErrors {
		all = append(all, p.dead(d, v.reason, v.text))
	}
	return all
}

const (
	noSession     = "Session id is null."
	noSessionText = "Session enabled entity doesn't allow a message whose session identifier is null."
)

// arrives is an unchanged copy. One without session id cannot be in a subscription with sessions
// (8.1).
func (p *Partition) arrives(sub *Queue, d *Draft) *Message {
	switch {
	case sub.Settings.Sessions && !d.HasSession:
		return p.dead(d, noSession, noSessionText)
	case sub.Settings.Sessions:
		return &Message{Session: d.Session}
	}
	return &Message{}
}

// changed is a copy that a rule's action changed. One whose header that makes too large is a dead
// letter without the changes, whatever the subscription does with errors (9.2).
func (p *Partition) changed(sub *Queue, d *Draft, c *changed, rule string) *Message {
	m := &Message{}
	switch {
	case sub.Settings.Sessions && !c.hasSession:
		m.Dead, m.Loose = true, true
		m.change(c.encoded(rule, "DeadLetterReason", noSession, "DeadLetterErrorDescription", noSessionText))
	case sub.Settings.Sessions:
		m.Session = c.session
		fallthrough
	default:
		m.change(c.encoded(rule))
	}
	if m.room(d.Header) < 0 {
		p.TooLarge++
		return p.dead(d, "HeaderSizeExceeded", "The size quota for this stream has been exceeded.")
	}
	return m
}

func (p *Partition) dead(d *Draft, reason, description string) *Message {
	return &Message{Dead: true, Loose: true, Changes: [][]byte{p.told(MaxHeader-d.Header, reason, description)}}
}

// in reports whether the message belongs to a session.
func (m *Message) in(session string) bool { return m.Session == session && !m.Loose }
