package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// Rules come from a small pool. The model knows what each does; here they are written as the broker
// takes them.

var colors = []string{"", "red", "blue"}

// numbersUpTo is how large the application property n gets.
const numbersUpTo = 5

// someRules is a list of rules with different names, maybe empty.
func someRules(rng *rand.Rand, sessions []string) []model.Rule {
	rules := []model.Rule{}
	for range rng.IntN(4) {
		if r := someRule(rng, sessions); ruleNamed(rules, r.Name) < 0 {
			rules = append(rules, r)
		}
	}
	return rules
}

func someRule(rng *rand.Rand, sessions []string) model.Rule {
	r := model.Rule{Name: pick(rng, "$Default", "one", "two", "three")}
	f := &r.Filter
	f.Kind = model.FilterKind(rng.IntN(model.FilterKinds))
	if f.Kind == model.UnheardOf && rng.IntN(3) != 0 { // else most dead letters are of this kind
		f.Kind = model.Everything
	}
	switch f.Kind {
	case model.Everything, model.Nothing:
		f.N = rng.Int64N(2)
	case model.NumberIs, model.NumberOver:
		f.N = rng.Int64N(numbersUpTo)
	case model.EveryThird:
		f.N = rng.Int64N(3)
	case model.ColorIs, model.ColorIn:
		f.Text = pick(rng, colors[1:]...)
	case model.SessionIs:
		f.Text = pick(rng, sessions...)
	}
	if rng.IntN(2) == 0 {
		for range 1 + rng.IntN(2) {
			s := model.Step{Kind: model.StepKind(rng.IntN(model.StepKinds))}
			switch s.Kind {
			case model.Paint:
				s.Text = pick(rng, "gold", "red")
			case model.JoinGroup:
				s.Text = pick(rng, sessions...)
			case model.SetUnheard:
				if rng.IntN(2) == 0 {
					s.Kind = model.Mark
				}
			}
			r.Action = append(r.Action, s)
		}
	}
	return r
}

func rulesOf(rules []model.Rule) []event.Rule {
	all := []event.Rule{}
	for _, r := range rules {
		all = append(all, ruleOf(r))
	}
	return all
}

// ruleOf writes a rule in the language of rules.
func ruleOf(r model.Rule) event.Rule {
	out := event.Rule{Name: r.Name}
	f, sql := &out.Filter, ""
	switch f.Kind = event.SQLFilter; r.Filter.Kind {
	case model.Everything:
		if f.Kind = event.TrueFilter; r.Filter.N > 0 {
			f.Kind, sql = event.SQLFilter, "1=1"
		}
	case model.Nothing:
		if f.Kind = event.FalseFilter; r.Filter.N > 0 {
			f.Kind, sql = event.SQLFilter, "1 = 0"
		}
	case model.ColorIs:
		f.Kind = event.CorrelationFilter
		f.Properties = []event.Property{{Name: "Color", Value: event.Value{Type: event.String, Text: r.Filter.Text}}}
	case model.NumberIs:
		f.Kind = event.CorrelationFilter
		f.Properties = []event.Property{{Name: "n", Value: event.Value{Type: event.Int, Bits: uint64(r.Filter.N)}}}
	case model.SessionIs:
		f.Kind = event.CorrelationFilter
		f.Conditions = []event.Condition{{Field: event.FieldSessionID, Text: r.Filter.Text}}
	case model.NumberOver:
		sql = fmt.Sprintf("n > %d", r.Filter.N)
	case model.ColorIn:
		sql = "color IS NULL OR user.Color IN ('" + r.Filter.Text + "')"
	case model.ByZero:
		sql = "n / 0 = 1"
	case model.UnheardOf:
		sql = "sys.unheard = 1"
	case model.EveryThird:
		sql = fmt.Sprintf("sys.EnqueuedSequenceNumber %% 3 = %d", r.Filter.N)
	}
	f.Text = sql
	for _, s := range r.Action {
		out.Action.Text += statement(s) + ";"
	}
	return out
}

func statement(s model.Step) string {
	return [...]string{model.Mark: "SET mark = 7", model.AddOne: "SET N = n + 1", model.Paint: "SET Color = '" + s.Text + "'",
		model.Strip: "REMOVE color", model.JoinGroup: "SET sys.SessionId = '" + s.Text + "'", model.LeaveGroup: "REMOVE sys.SessionId",
		model.SetUnheard: "SET sys.unheard = 1", model.MarkByZero: "SET mark = n / 0",
		model.Stamp: "SET id = newid()"}[s.Kind]
}

// A body for a topic begins with the number of the message, 8 bytes, and what filters see of it, a
// byte each: the place of the color in colors, 1 + n, and 1 + the place of the session; 0: not
// there. Then comes what it has beside its body, 4 bytes. A shorter body has nothing of it.
const (
	colorAt = 8 + iota
	numberAt
	sessionAt
	headerAt
	seenBytes = headerAt + 4
)

// Where messages move, bodies say all that has to be read back: behind what filters see the time to
// live, the message-id (a digit, as there are no more) and its type, and when it is scheduled for.
const (
	ttlAt      = seenBytes
	nameAt     = ttlAt + 4
	typeAt     = nameAt + 1
	dueAt      = typeAt + 1
	movesBytes = dueAt + 8
)

// describe writes what filters see of a message into its body.
func (w *world) describe(m *sent) {
	if len(m.body) < seenBytes {
		return
	}
	binary.BigEndian.PutUint64(m.body, m.id)
	m.body[colorAt], m.body[numberAt], m.body[sessionAt] = 0, 0, 0
	binary.BigEndian.PutUint32(m.body[headerAt:], uint32(m.header))
	for i, c := range colors {
		if c == m.color {
			m.body[colorAt] = byte(i)
		}
	}
	if m.n != nil {
		m.body[numberAt] = 1 + byte(*m.n)
	}
	for i, id := range w.o.sessions {
		if m.hasSession && id == m.session {
			m.body[sessionAt] = 1 + byte(i)
		}
	}
	if w.o.moves {
		binary.BigEndian.PutUint32(m.body[ttlAt:], uint32(m.ttl))
		m.body[nameAt], m.body[typeAt] = m.name[1], byte(m.idType)
		binary.BigEndian.PutUint64(m.body[dueAt:], uint64(m.due))
	}
}

// see finds what filters see of a body: [loop.Options.Properties].
func (w *world) see(body []byte, into *filter.Message) (header int, err error) {
	into.Reset()
	if len(body) < seenBytes {
		return 0, nil
	}
	if c := body[colorAt]; c > 0 {
		into.User = append(into.User, event.Property{Name: "color", Value: event.Value{Type: event.String, Text: colors[c]}})
	}
	if n := body[numberAt]; n > 0 {
		into.User = append(into.User, event.Property{Name: "n", Value: event.Value{Type: event.Long, Bits: uint64(n - 1)}})
	}
	if s := body[sessionAt]; s > 0 {
		into.System[filter.SessionID] = event.Value{Type: event.String, Text: w.o.sessions[s-1]}
	}
	return int(binary.BigEndian.Uint32(body[headerAt:])), nil
}
