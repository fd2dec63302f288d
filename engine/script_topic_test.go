package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// What scripts say of topics. A rule is a line of its own:
//
//	rule NAME filter: SQL action: SQL
//	rule NAME correlation: label=blue color=red
//	unrule NAME
//	rules
//
// and belongs to the subscription named last, as everything else does. Messages have the
// application properties that are given as p:name=value, integers where the value is one.

// adjust changes properties by the words of a line.
func (s *script) adjust(t *testing.T, p *event.Properties, opts map[string]string) {
	for k, v := range opts {
		switch k {
		case "lock":
			p.LockDuration = span(t, v)
		case "ttl":
			p.DefaultMessageTimeToLive = span(t, v)
		case "max-delivery":
			p.MaxDeliveryCount = uint32(number(t, v))
		case "max-size":
			p.MaxSizeMegabytes = uint32(number(t, v))
		case "dead-letter-expired":
			p.DeadLetteringOnMessageExpiration = true
		case "sessions":
			p.RequiresSession = true
		case "duplicates":
			p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, span(t, v)
		case "status":
			p.Status = map[string]event.Status{"disabled": event.Disabled, "send-disabled": event.SendDisabled,
				"receive-disabled": event.ReceiveDisabled}[v]
		case "no-dead-letter-errors":
			p.DeadLetteringOnFilterError = false
		case "filtering":
			p.FilteringBeforePublishing = true
		default:
			t.Fatalf("unknown setting %q", k)
		}
	}
}

// put asks for an entity, puts it in force as a namespace does, and makes it the subject of the
// lines below.
func (s *script) put(out *strings.Builder, cmd *PutEntity) {
	s.do(out, cmd)
	if e, ok := s.part.Index().Catalogue.Find(cmd.Path); ok {
		s.configure(nil, e)
		s.slice = event.Slice{Entity: e.ID}
	}
}

func (s *script) configure(t *testing.T, e index.Entity) {
	v := View(e, nil)
	s.part.Configure(v)
	if v.Kind != event.Subscription {
		return
	}
	var rules []event.Rule
	for _, r := range s.part.Index().Catalogue.Rules(e.ID) {
		rules = append(rules, *r)
	}
	if err := s.part.ConfigureRules(v, rules); err != nil && t != nil {
		t.Fatalf("rules: %v; want no error", err)
	}
}

// rules adds a rule to the subscription, removes one, or shows them.
func (s *script) rules(l *line) {
	sub, _ := s.part.Index().Catalogue.Get(s.slice.Entity)
	switch l.verb {
	case "rules":
		o := s.part.Decide(s.now, &ListRules{Subscription: sub.Path, Top: 100})
		for _, r := range o.Reply.Rules() {
			fmt.Fprintf(l.out, "%s\n", showRule(&r))
		}
		return
	case "unrule":
		s.do(l.out, &DeleteRule{Subscription: sub.Path, Name: l.words[0]})
	case "rule":
		cmd := &PutRule{Subscription: sub.Path, Rule: event.Rule{Name: l.words[0]}, Mode: CreateOnly}
		rest := strings.TrimSpace(l.text[strings.Index(l.text, l.words[0])+len(l.words[0]):])
		if strings.HasPrefix(rest, "again") {
			cmd.Mode = UpdateOnly
		}
		text, action, _ := strings.Cut(rest, "action:")
		cmd.Rule.Action.Text = strings.TrimSpace(action)
		if _, conditions, ok := strings.Cut(text, "correlation:"); ok {
			cmd.Rule.Filter = correlation(strings.Fields(conditions))
		} else {
			_, sql, _ := strings.Cut(text, "filter:")
			cmd.Rule.Filter = event.Filter{Kind: event.SQLFilter, Text: strings.TrimSpace(sql)}
		}
		s.do(l.out, cmd)
	}
	if e, ok := s.part.Index().Catalogue.Get(s.slice.Entity); ok {
		s.configure(l.t, e)
	}
}

func correlation(conditions []string) event.Filter {
	f := event.Filter{Kind: event.CorrelationFilter}
	for _, c := range conditions {
		name, value, _ := strings.Cut(c, "=")
		switch name {
		case "label":
			f.Conditions = append(f.Conditions, event.Condition{Field: event.FieldLabel, Text: value})
		case "id":
			f.Conditions = append(f.Conditions, event.Condition{Field: event.FieldMessageID, Text: value})
		default:
			f.Properties = append(f.Properties, event.Property{Name: name, Value: valueOf(value)})
		}
	}
	return f
}

func valueOf(s string) event.Value {
	var n int64
	if _, err := fmt.Sscan(s, &n); err == nil {
		return event.Value{Type: event.Long, Bits: uint64(n)}
	}
	return event.Value{Type: event.String, Text: s}
}

// visible returns what filters see of a message of a script.
func visible(id string, opts map[string]string) *filter.Message {
	m := new(filter.Message)
	m.System[filter.MessageID] = event.Value{Type: event.String, Text: id}
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		if key, ok := strings.CutPrefix(name, "p:"); ok {
			m.User = append(m.User, event.Property{Name: key, Value: valueOf(opts[name])})
		}
	}
	if label, ok := opts["label"]; ok {
		m.System[filter.Label] = event.Value{Type: event.String, Text: label}
	}
	if session, ok := opts["session"]; ok {
		m.System[filter.SessionID] = event.Value{Type: event.String, Text: session}
	}
	return m
}

// seenBody is the content of a scheduled message's body: what filters see of it, and the bytes
// besides its body.
type seenBody struct {
	filter.Message
	Header int
}

// packed returns a body in which a tick finds a seenBody.
func packed(m *filter.Message, header int) []byte {
	b, err := json.Marshal(seenBody{*m, header})
	if err != nil {
		panic(err)
	}
	return b
}

// readPacked finds what filters see of a body made by packed.
func readPacked(message []byte, into *filter.Message) (int, error) {
	var b seenBody
	err := json.Unmarshal(message, &b)
	*into = b.Message
	return b.Header, err
}

// tick returns the command that the loop makes when something is due: with what filters see of a
// scheduled message of a topic.
func (s *script) tick(t *testing.T) *Tick {
	cmd := &Tick{}
	due, ok := s.part.index.DueScheduled(s.now)
	if e := s.part.settings.entities[due.Slice.Entity]; !ok || e == nil || e.Kind != event.Topic {
		return cmd
	}
	m, _ := s.part.index.Message(due.Slice, due.Sequence)
	cmd.Properties = new(filter.Message)
	var err error
	if cmd.Header, err = readPacked(s.frame.blobs[m.Body.Position:m.Body.Position+event.Position(m.Body.Size)], cmd.Properties); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// start makes a partition from a state.
func (s *script) start(x *index.Index) {
	s.part = NewPartition(0, 1, x)
	s.part.DrawIDs(s.newID)
}

func (s *script) newID() [16]byte {
	s.ids++
	return [16]byte{15: s.ids}
}

func (s *script) showTopic(ev event.Event) string {
	switch ev := ev.(type) {
	case *event.MessagePublished:
		return fmt.Sprintf("MessagePublished %d id=%s body=%d", ev.Sequence, ev.MessageID, ev.Body.Size) +
			s.place(false, nil, ev.IDType, ev.DuplicateUntil) + s.copies(ev.Copies)
	case *event.ScheduledPublished:
		return fmt.Sprintf("ScheduledPublished %d new=%d enqueued=%s", ev.Sequence, ev.NewSequence, s.at(ev.EnqueuedAt)) + s.copies(ev.Copies)
	case *event.RuleAdded:
		return fmt.Sprintf("RuleAdded %d %s", ev.Slice.Entity, showRule(&ev.Rule))
	case *event.RuleUpdated:
		return fmt.Sprintf("RuleUpdated %d %s, was %s", ev.Slice.Entity, showRule(&ev.Rule), showRule(&ev.Before))
	case *event.RuleRemoved:
		return fmt.Sprintf("RuleRemoved %d %s", ev.Slice.Entity, showRule(&ev.Rule))
	}
	return ""
}

func showRule(r *event.Rule) string {
	out := fmt.Sprintf("%s %v", r.Name, r.Filter.Kind)
	if r.Filter.Text != "" {
		out += fmt.Sprintf(" %q", r.Filter.Text)
	}
	for _, c := range r.Filter.Conditions {
		out += fmt.Sprintf(" %v=%s", c.Field, c.Text)
	}
	for _, p := range r.Filter.Properties {
		out += fmt.Sprintf(" %s=%s%d", p.Name, p.Value.Text, int64(p.Value.Bits))
	}
	if r.Action.Text != "" {
		out += fmt.Sprintf(" action %q", r.Action.Text)
	}
	return out
}

func (s *script) copies(copies []event.Copy) (out string) {
	for i := range copies {
		c := &copies[i]
		out += fmt.Sprintf("\n    copy %d/%d", c.Subscription, c.Sequence)
		if c.ExpiresAt != 0 {
			out += " expires=" + s.at(c.ExpiresAt)
		}
		if c.OwnTTL {
			out += " own"
		}
		out += s.place(c.InSession, c.SessionID, 0, 0)
		if c.Rule != "" {
			out += " rule=" + c.Rule
		}
		if c.Cause != 0 {
			out += fmt.Sprintf(" dead cause=%v reason=%q description=%q", c.Cause, c.Reason, c.Description)
		}
		if n := c.Changes.Size; n > 0 {
			out += fmt.Sprintf(" changes=%d bytes", n)
		}
	}
	return out
}
