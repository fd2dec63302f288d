package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Question is a question that a [Ledger] answers, as a value. The command line and requests to a
// broker say it in names and texts, which [ParseQuestion] parses and [Question.Values] writes. Only
// the fields of its verb count.
type Question struct {
	Verb string          // one of [Verbs]
	Of   address.Address // story, why: the subject
	// story: in place of Of; audit, events: of messages that were sent with it; "": all
	MessageID string
	Types     []string // audit, events; nil: all
	At, To    *Instant // at: At; diff: both
	// at, diff, audit, events: an entity or sub-queue; none: all. trace: the topic
	Entity    address.Address
	Message   string   // trace: the message, in JSON
	Messages  bool     // at, diff: each message, instead of counts
	Condition string   // when
	Since     *Instant // when, audit, events; nil: the beginning
	Until     *Instant // audit, events; nil: the end
	Where     string   // audit, events
	// events: only those after these places: [FromNow], [FromBeginning], or the [NextField] of the
	// previous answer; "": all
	After     string
	Partition log.PartitionID // log
	From      event.LSN       // log: of the first frame
	Bodies    bool            // log: also messages' bodies
}

// argument is an argument of a question, and the field of the question that has it.
type argument struct {
	name  string
	field any // a pointer to it
}

// Verbs returns the verbs of all questions, in alphabetical order.
func Verbs() []string {
	return []string{"at", "audit", "diff", "events", "log", "story", "trace", "when", "why"}
}

// arguments returns all arguments of a question of its verb. No other code knows the names.
func (q *Question) arguments() []argument {
	of, entity, messages := argument{"of", &q.Of}, argument{"entity", &q.Entity}, argument{"messages", &q.Messages}
	id, types, where := argument{"message-id", &q.MessageID}, argument{"type", &q.Types}, argument{"where", &q.Where}
	since, until := argument{"since", &q.Since}, argument{"until", &q.Until}
	switch q.Verb {
	case "story":
		return []argument{of, id}
	case "why":
		return []argument{of}
	case "at":
		return []argument{{"at", &q.At}, entity, messages}
	case "diff":
		return []argument{{"from", &q.At}, {"to", &q.To}, entity, messages}
	case "when":
		return []argument{{"condition", &q.Condition}, since}
	case "audit":
		return []argument{entity, id, types, since, until, where}
	case "events":
		return []argument{entity, id, types, since, until, where, {"after", &q.After}}
	case "trace":
		return []argument{entity, {"message", &q.Message}}
	case "log":
		return []argument{{"partition", &q.Partition}, {"lsn", &q.From}, {"bodies", &q.Bodies}}
	}
	return nil
}

// Values returns the arguments of the question for [ParseQuestion] to parse. Instants in it are
// absolute, except for a "now" whose state is asked for: the clock of the broker that answers may
// differ.
func (q *Question) Values() url.Values {
	v := url.Values{}
	for _, a := range q.arguments() {
		if text := a.text(); text != "" {
			v.Set(a.name, text)
		}
	}
	return v
}

// ParseQuestion parses a question. It refuses a name that its verb does not have, so that a
// misspelt one is not ignored; an empty text is ignored. Instants that are not absolute are
// relative to now. The error wraps [ErrQuestion].
func ParseQuestion(verb string, v url.Values, now time.Time) (*Question, error) {
	if !slices.Contains(Verbs(), verb) {
		return nil, fmt.Errorf("%w: unknown verb %.20q; the verbs are %v", ErrQuestion, verb, Verbs())
	}
	q := &Question{Verb: verb}
	known := make(map[string]argument)
	var names []string
	for _, a := range q.arguments() {
		known[a.name], names = a, append(names, a.name)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		a, ok := known[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: %s has no argument %.20q; its arguments are %v", ErrQuestion, verb, name, names)
		case len(v[name]) != 1:
			return nil, fmt.Errorf("%w: %s is given %d times", ErrQuestion, name, len(v[name]))
		case v[name][0] == "":
			continue
		}
		if err := a.read(v[name][0], now); errors.Is(err, ErrQuestion) {
			return nil, fmt.Errorf("%s: %w", name, err)
		} else if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrQuestion, name, err)
		}
	}
	return q, q.check()
}

// bound reports whether an instant bounds the search. Of other instants the state is asked for.
func (a argument) bound() bool { return a.name == "since" || a.name == "until" }

// text returns the text that [argument.read] parses; "": the argument is not set.
func (a argument) text() string {
	switch f := a.field.(type) {
	case *string:
		return *f
	case *[]string:
		return strings.Join(*f, ",")
	case *bool:
		if *f {
			return "true"
		}
	case *address.Address:
		return f.String()
	case **Instant:
		switch {
		case *f == nil:
		case (*f).now && !a.bound():
			return "now"
		default:
			return (*f).String()
		}
	case *log.PartitionID:
		return strconv.FormatUint(uint64(*f), 10)
	case *event.LSN:
		return strconv.FormatUint(uint64(*f), 10)
	}
	return ""
}

// read parses a text into the field.
func (a argument) read(text string, now time.Time) (err error) {
	var n uint64
	switch f := a.field.(type) {
	case *string:
		*f = text
	case *[]string:
		*f = strings.Split(text, ",")
	case *bool:
		*f, err = strconv.ParseBool(text)
	case *address.Address:
		if *f, err = address.Parse(text); err == nil && f.Place {
			err = fmt.Errorf("%s is a place in a log, not an entity", f)
		}
	case **Instant:
		parse := ParsePast
		if a.bound() {
			parse = ParseInstant
		}
		var at Instant
		at, err = parse(text, now)
		*f = &at
	case *log.PartitionID:
		n, err = strconv.ParseUint(text, 10, 16)
		*f = log.PartitionID(n)
	case *event.LSN:
		n, err = strconv.ParseUint(text, 10, 63)
		*f = event.LSN(n)
	}
	return err
}

// check refuses a question with missing or conflicting arguments.
func (q *Question) check() error {
	var wrong string
	switch {
	case q.Verb == "story" && (q.Of.Number == 0) == (q.MessageID == ""):
		if wrong = "name one message, by a number such as orders#88114 or by a message-id"; q.Of.Entity != "" && q.Of.Number == 0 {
			wrong = q.Of.String() + " is not a message; " + wrong
		}
	case q.Verb == "why" && q.Of.Entity == "":
		wrong = "missing entity or message, such as orders/$dlq or orders#88114"
	case q.Verb == "at" && q.At == nil, q.Verb == "diff" && (q.At == nil || q.To == nil):
		wrong = "missing instant: at takes one, diff takes two"
	case q.Verb == "when" && q.Condition == "":
		wrong = "missing condition, such as orders.active > 1000"
	case q.Verb == "trace" && (q.Entity.Entity == "" || q.Message == ""):
		wrong = "missing topic or message; a message is a JSON object"
	case q.Verb == "trace" && (q.Entity.Number != 0 || q.Entity.SubQueue != event.Main):
		wrong = q.Entity.String() + " is not a topic"
	case q.Entity.Number != 0:
		wrong = fmt.Sprintf("%s is a message, not an entity; for one message use ledgerbus story %[1]s", q.Entity)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrQuestion, wrong)
}

// shortAudit is the longest range of a short question. Its second part is for the time that a
// question takes to arrive, and for clocks that differ a little.
const shortAudit = time.Hour + time.Minute

// Short reports whether the answer takes little time, judged by the arguments alone: story, and
// audit of at most an hour. A range without an end ends now.
func (q *Question) Short(now event.Time) bool {
	if q.Verb == "story" {
		return true
	}
	until := now
	if q.Until != nil {
		until = q.Until.At
	}
	timed := q.Since != nil && q.Since.Place == nil && (q.Until == nil || q.Until.Place == nil)
	return q.Verb == "audit" && timed && until.Sub(q.Since.At) <= shortAudit
}

// Put answers a question, with the errors of the method for its verb.
func (l *Ledger) Put(ctx context.Context, q *Question) error {
	if err := q.check(); err != nil {
		return err
	}
	switch q.Verb {
	case "story":
		return l.Story(ctx, q.Of, q.MessageID)
	case "why":
		return l.Why(ctx, q.Of)
	case "at":
		return l.At(ctx, *q.At, q.Entity.String(), q.Messages)
	case "diff":
		return l.Diff(ctx, *q.At, *q.To, q.Entity.String(), q.Messages)
	case "when":
		return l.When(ctx, q.Condition, q.Since)
	case "audit":
		return l.Audit(ctx, q.Range())
	case "events":
		if q.After != "" {
			return l.newer(ctx, q.Range(), q.After)
		}
		return l.Events(ctx, q.Range())
	case "trace":
		return l.Trace(ctx, q.Entity.String(), q.Message)
	case "log":
		return l.Log(ctx, q.Partition, q.From, q.Bodies)
	}
	return fmt.Errorf("%w: unknown verb %q", ErrQuestion, q.Verb)
}

// Range returns which events the question is about.
func (q *Question) Range() Range {
	return Range{Since: q.Since, Until: q.Until, Entity: q.Entity.String(), MessageID: q.MessageID, Types: q.Types, Where: q.Where}
}

// Columns returns the columns of the rows of the answer.
func (q *Question) Columns() []string {
	switch {
	case q.Verb == "story", q.Verb == "why" && q.Of.Number != 0:
		return MomentColumns
	case q.Verb == "why":
		return WhyColumns
	case q.Verb == "trace":
		return TraceColumns
	case q.Verb == "at" && q.Messages:
		return MessageColumns
	case q.Verb == "at":
		return CountColumns
	case q.Verb == "diff" && q.Messages:
		return MessageDiffColumns
	case q.Verb == "diff":
		return DiffColumns
	}
	return EventColumns
}
