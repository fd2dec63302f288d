package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Question is a question that a [Ledger] answers, as a value: it can be sent to a broker, or put to a directory with [Ledger.Put]. Only the fields of its
// verb count.
type Question struct {
	Verb      string          // story, why, at, diff, when, audit, events, trace or log
	Of        address.Address // story, why: what it is about
	MessageID string          // story: in place of Of; audit, events: of messages that were sent with it; "": all
	Types     []string        // audit, events; nil: all
	Instants  []Instant       // at: one; diff: two
	Entity    string          // at, diff, audit, events: path, or that of a sub-queue; "": all. trace: of the topic
	Message   string          // trace: the message, in JSON
	Messages  bool            // at, diff: each message, instead of counts
	Condition string          // when
	Since     *Instant        // when, audit, events; nil: the beginning
	Until     *Instant        // audit, events; nil: the end
	Where     string          // audit, events
	After     string          // events: only what is behind these places: [FromNow], [FromBeginning], or the [NextField] of the answer before; "": all
	Partition log.PartitionID // log
	From      event.LSN       // log: of the first frame
	Bodies    bool            // log: messages' bodies, too
}

// Names of what a question says besides its verb, as [Question.Values] has them.
const (
	ofName        = "of"
	idName        = "message-id"
	instantName   = "at"
	fromName      = "from"
	toName        = "to"
	entityName    = "entity"
	messageName   = "message"
	messagesName  = "messages"
	conditionName = "condition"
	sinceName     = "since"
	untilName     = "until"
	whereName     = "where"
	typeName      = "type" // several with commas between
	afterName     = "after"
	partitionName = "partition"
	lsnName       = "lsn"
	bodiesName    = "bodies"
)

// questions are the names that a question may have, by verb.
var questions = map[string][]string{
	"story":  {ofName, idName},
	"why":    {ofName},
	"at":     {instantName, entityName, messagesName},
	"diff":   {fromName, toName, entityName, messagesName},
	"when":   {conditionName, sinceName},
	"audit":  {entityName, idName, typeName, sinceName, untilName, whereName},
	"events": {entityName, idName, typeName, sinceName, untilName, whereName, afterName},
	"trace":  {entityName, messageName},
	"log":    {partitionName, lsnName, bodiesName},
}

// Verbs returns the verbs of all questions, in alphabetical order.
func Verbs() []string {
	var list []string
	for verb := range questions {
		list = append(list, verb)
	}
	slices.Sort(list)
	return list
}

// Values is the question as names and texts, which [ParseQuestion] reads. Instants in it are absolute, but for "now": whoever answers may have another clock.
func (q *Question) Values() url.Values {
	v := url.Values{}
	set := func(name, text string) {
		if text != "" {
			v.Set(name, text)
		}
	}
	if q.Of != (address.Address{}) {
		set(ofName, q.Of.String())
	}
	set(idName, q.MessageID)
	for i, at := range q.Instants {
		name := instantName
		if len(q.Instants) > 1 {
			name = []string{fromName, toName}[i]
		}
		if set(name, at.String()); at.now {
			set(name, "now")
		}
	}
	set(entityName, q.Entity)
	set(messageName, q.Message)
	if q.Messages {
		set(messagesName, "true")
	}
	set(conditionName, q.Condition)
	for name, at := range map[string]*Instant{sinceName: q.Since, untilName: q.Until} {
		if at != nil {
			set(name, at.String())
		}
	}
	set(whereName, q.Where)
	set(afterName, q.After)
	set(typeName, strings.Join(q.Types, ","))
	if q.Verb == "log" {
		set(partitionName, strconv.FormatUint(uint64(q.Partition), 10))
		set(lsnName, strconv.FormatUint(uint64(q.From), 10))
		if q.Bodies {
			set(bodiesName, "true")
		}
	}
	return v
}

// maxText bounds what a question says under one name, bytes, and maxMessage a message: more does not fit into a request.
const (
	maxText    = 4 << 10
	maxMessage = 8 << 10
)

// ParseQuestion reads a question. A name that its verb does not have is refused, so that a misspelt one is not ignored. Instants that are not absolute are
// relative to now. The error wraps [ErrQuestion].
func ParseQuestion(verb string, v url.Values, now time.Time) (*Question, error) {
	names, ok := questions[verb]
	if !ok {
		return nil, fmt.Errorf("%w: %.20q; there are %v", ErrQuestion, verb, Verbs())
	}
	for name, texts := range v {
		switch {
		case !slices.Contains(names, name):
			return nil, fmt.Errorf("%w: %s has no %.20q, it has %v", ErrQuestion, verb, name, names)
		case len(texts) != 1:
			return nil, fmt.Errorf("%w: %s is given %d times", ErrQuestion, name, len(texts))
		case len(texts[0]) > maxText && name != messageName, len(texts[0]) > maxMessage:
			return nil, fmt.Errorf("%w: %s has more than %d bytes, or a message more than %d", ErrQuestion, name, maxText, maxMessage)
		}
	}
	r := reading{Values: v, now: now}
	q := &Question{Verb: verb, MessageID: v.Get(idName), Message: v.Get(messageName), Condition: v.Get(conditionName), Where: v.Get(whereName), After: v.Get(afterName), Messages: r.flag(messagesName),
		Partition: log.PartitionID(r.number(partitionName, 16)), From: event.LSN(r.number(lsnName, 63)), Bodies: r.flag(bodiesName),
		Since: r.instant(sinceName, ParseInstant), Until: r.instant(untilName, ParseInstant), Entity: r.entity(verb)}
	if text := v.Get(ofName); text != "" {
		q.Of = r.address(text)
	}
	if text := v.Get(typeName); text != "" {
		q.Types = strings.Split(text, ",")
	}
	for _, name := range []string{instantName, fromName, toName} {
		if at := r.instant(name, ParsePast); at != nil {
			q.Instants = append(q.Instants, *at)
		}
	}
	r.note(q.check())
	return q, r.err
}

// check says what is missing.
func (q *Question) check() error {
	var missing string
	switch {
	case q.Verb == "story" && (q.Of.Number == 0) == (q.MessageID == ""):
		missing = "which message? A number, as in orders#88114, or a message-id"
	case q.Verb == "why" && q.Of.Entity == "":
		missing = "about what? An entity, as in orders/$dlq, or a message"
	case q.Verb == "at" && len(q.Instants) != 1, q.Verb == "diff" && len(q.Instants) != 2:
		missing = "when? at has one instant, diff two"
	case q.Verb == "when" && q.Condition == "":
		missing = "which condition? As in orders.active > 1000"
	case q.Verb == "trace" && (q.Entity == "" || q.Message == ""):
		missing = "which message, to which topic? A message is a JSON object"
	default:
		return nil
	}
	return errors.New(missing)
}

// reading is a question that is being read, with the first error.
type reading struct {
	url.Values
	now time.Time
	err error
}

func (r *reading) note(err error) {
	switch {
	case err == nil || r.err != nil:
	case errors.Is(err, ErrQuestion):
		r.err = err
	default:
		r.err = fmt.Errorf("%w: %w", ErrQuestion, err)
	}
}

func (r *reading) address(text string) address.Address {
	a, err := address.Parse(text)
	if err == nil && a.Place {
		err = fmt.Errorf("%s is a place in a log, not an entity", a)
	}
	r.note(err)
	return a
}

func (r *reading) entity(verb string) string {
	text := r.Get(entityName)
	if text == "" {
		return ""
	}
	a := r.address(text)
	if a.Number != 0 {
		r.note(fmt.Errorf("%s is a message, not an entity", a))
	}
	if verb == "trace" && a.SubQueue != event.Main {
		r.note(fmt.Errorf("%s is a sub-queue, not a topic", a))
	}
	return a.String()
}

func (r *reading) flag(name string) bool {
	text := r.Get(name)
	if text == "" {
		return false
	}
	is, err := strconv.ParseBool(text)
	r.note(err)
	return is
}

func (r *reading) number(name string, bits int) uint64 {
	text := r.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, bits)
	r.note(err)
	return n
}

func (r *reading) instant(name string, parse func(string, time.Time) (Instant, error)) *Instant {
	text := r.Get(name)
	if text == "" {
		return nil
	}
	i, err := parse(text, r.now)
	r.note(err)
	return &i
}

// Put answers a question, with the errors of the method for its verb.
func (l *Ledger) Put(ctx context.Context, q *Question) error {
	if err := q.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	switch q.Verb {
	case "story":
		return l.Story(ctx, q.Of, q.MessageID)
	case "why":
		return l.Why(ctx, q.Of)
	case "at":
		return l.At(ctx, q.Instants[0], q.Entity, q.Messages)
	case "diff":
		return l.Diff(ctx, q.Instants[0], q.Instants[1], q.Entity, q.Messages)
	case "when":
		return l.When(ctx, q.Condition, q.Since)
	case "audit":
		return l.Audit(ctx, q.span())
	case "events":
		if q.After != "" {
			return l.newer(ctx, q.span(), q.After)
		}
		return l.Events(ctx, q.span())
	case "trace":
		return l.Trace(ctx, q.Entity, q.Message)
	case "log":
		return l.Log(ctx, q.Partition, q.From, q.Bodies)
	}
	return fmt.Errorf("%w: %q", ErrQuestion, q.Verb)
}

func (q *Question) span() Range {
	return Range{Since: q.Since, Until: q.Until, Entity: q.Entity, MessageID: q.MessageID, Types: q.Types, Where: q.Where}
}

// Columns are the columns of the rows of the answer.
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
