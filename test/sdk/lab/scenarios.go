package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// SDKs are those of Service Bus. They show every group that the list does not give to other
// clients.
var SDKs = []string{"go", "js", "python", "java"}

// Clients are all columns of the tables, in their order: the SDKs and the clients of plain AMQP.
var Clients = append(slices.Clone(SDKs), "qpid-jms", "qpid-proton")

// Groups are the parts of the list, in their order.
var Groups = []string{
	"send", "receive", "locks", "settle", "dead-letter", "expiry", "schedule", "defer", "peek", "batch-delete", "sessions", "duplicates",
	"status-quota", "credit", "connection", "topics", "rules", "forwarding", "transactions", "jms", "proton", "admin",
}

// List is test/sdk/scenarios.json: what the suites show.
type List struct {
	About     []string                     `json:"about"`
	Base      Properties                   `json:"base"`      // of queues and subscriptions
	TopicBase Properties                   `json:"topicBase"` // of topics
	Terms     map[string]string            `json:"terms"`     // words that steps use
	Errors    map[string]map[string]string `json:"errors"`    // by kind, then by client
	// the clients that show a group, where they are not the SDKs
	ShownBy   map[string][]string `json:"shownBy,omitempty"`
	Scenarios []Scenario          `json:"scenarios"`

	Partitioned bool `json:"-"` // all queues and topics are, also those that scenarios make
}

// Properties are those of an entity in the emulator's Config.json.
type Properties map[string]any

// Scenario is one behaviour, shown by every client of its group that can.
type Scenario struct {
	// also the name of its queue or topic, and the beginning of all names that it makes itself
	ID    string   `json:"id"`
	Group string   `json:"group"`
	Title string   `json:"title"`
	Refs  []string `json:"refs"` // statements of the specification
	// what its queue has beyond the base; nil where it has none
	Queue     Properties `json:"queue,omitzero"`
	Topic     *Topic     `json:"topic,omitzero"` // nil where it has none
	Steps     []string   `json:"steps"`
	Exclusive bool       `json:"exclusive,omitzero"` // kills the broker or cuts connections
	// by client: why its public API cannot express it
	Not map[string]string `json:"not,omitempty"`
	// by client: how it shows it where its API alone does not
	Note map[string]string `json:"note,omitempty"`

	// what it shows instead where its entity is partitioned, because the rules exclude the rest
	Partitioned string `json:"partitioned,omitempty"`

	// by client: why it cannot show it where entities are partitioned
	NotPartitioned map[string]string `json:"notPartitioned,omitempty"`
}

var (
	idPattern    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	refPattern   = regexp.MustCompile(`^((SM|WP|MA)-\d{3}[ab]?|S\d-\d{2})$`)
	errorPattern = regexp.MustCompile(`\berror ([a-z]+(?:-[a-z]+)+|argument|disabled|unauthorized)`)
)

// ReadScenarios reads the list and checks that it keeps its own rules.
func ReadScenarios(file string) (List, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return List{}, err
	}
	list, err := ParseScenarios(src)
	if err != nil {
		return List{}, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// ParseScenarios is [ReadScenarios] on bytes already read. Its error names everything that is
// wrong.
func ParseScenarios(src []byte) (List, error) {
	var list List
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	dec.UseNumber() // figures of properties go into the entity file as they stand here
	if err := dec.Decode(&list); err != nil {
		return List{}, err
	}
	return list, list.check()
}

func (l List) check() error {
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(l.Scenarios) == 0 {
		complain("no scenarios")
	}
	for group, clients := range l.ShownBy {
		if !slices.Contains(Groups, group) || len(clients) == 0 {
			complain("shownBy names the clients of a group; %q: %q does not", group, clients)
		}
		for _, client := range clients {
			if !slices.Contains(Clients, client) {
				complain("shownBy: %s: no client is called %q", group, client)
			}
		}
	}
	seen := map[string]bool{}
	place := 0
	for _, s := range l.Scenarios {
		for _, problem := range l.checkScenario(s) {
			complain("%s: %s", s.ID, problem)
		}
		if seen[s.ID] {
			complain("%s: given twice", s.ID)
		}
		seen[s.ID] = true
		if group := slices.Index(Groups, s.Group); group < place {
			complain("%s: group %s belongs before %s", s.ID, s.Group, Groups[place])
		} else {
			place = group
		}
	}
	return errors.Join(problems...)
}

func (l List) checkScenario(s Scenario) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if !idPattern.MatchString(s.ID) {
		complain("an id is words of small letters and digits with a hyphen between")
	}
	if !slices.Contains(Groups, s.Group) {
		complain("no group is called %q", s.Group)
	}
	if !strings.HasSuffix(s.Title, ".") {
		complain("the title is not a sentence")
	}
	if len(s.Refs) == 0 {
		complain("shows no statement")
	}
	for _, ref := range s.Refs {
		if !refPattern.MatchString(ref) {
			complain("%q is no number of a statement", ref)
		}
	}
	switch {
	case s.Queue != nil && s.Topic != nil:
		complain("a queue and a topic cannot have one name")
	case s.Queue == nil && s.Topic == nil && s.Group != "admin":
		complain("neither queue nor topic")
	}
	problems = append(problems, s.Topic.problems()...)
	if len(s.Steps) == 0 {
		complain("no steps")
	}
	for _, step := range s.Steps {
		for _, match := range errorPattern.FindAllStringSubmatch(step, -1) {
			problems = append(problems, l.unexplained(s, match[1])...)
		}
	}
	if steps := strings.Join(s.Steps, " "); s.Exclusive != strings.Contains(steps, "POST /") {
		complain("exclusive is what kills the broker or cuts connections, and nothing else")
	}
	for _, reasons := range []map[string]string{s.Not, s.Note, s.NotPartitioned} {
		for client, reason := range reasons {
			if !slices.Contains(l.Of(s.Group), client) || reason == "" {
				complain("not and note give a reason per client of the group; %q: %q does not", client, reason)
			}
		}
	}
	if len(s.Not) >= len(l.Of(s.Group)) {
		complain("no client can show it")
	}
	return problems
}

// unexplained lists the clients that meet a kind of error in a scenario and have no word for it.
func (l List) unexplained(s Scenario, kind string) (problems []string) {
	if l.Errors[kind] == nil {
		return []string{fmt.Sprintf("error %s is not explained in errors", kind)}
	}
	for _, client := range l.Of(s.Group) {
		if s.Not[client] == "" && l.Errors[kind][client] == "" {
			problems = append(problems, fmt.Sprintf("errors: %s does not say what it is in %s", kind, client))
		}
	}
	return problems
}

// Of returns the clients that show a group.
func (l List) Of(group string) []string {
	if clients := l.ShownBy[group]; clients != nil {
		return clients
	}
	return SDKs
}

// Why says why a client cannot show a scenario, of partitioned entities or of plain ones; empty: it
// can.
func (s Scenario) Why(client string, partitioned bool) string {
	if reason := s.NotPartitioned[client]; partitioned && reason != "" {
		return reason
	}
	return s.Not[client]
}

// Shows reports whether a scenario is one that a client shows, or says why it cannot.
func (l List) Shows(client string, s Scenario) bool { return slices.Contains(l.Of(s.Group), client) }

// For returns the list with the scenarios of a client alone.
func (l List) For(client string) List {
	l.Scenarios = slices.DeleteFunc(slices.Clone(l.Scenarios), func(s Scenario) bool { return !l.Shows(client, s) })
	return l
}

// problems are those of a scenario's topic, if it has one.
func (t *Topic) problems() (all []string) {
	if t == nil {
		return nil
	}
	subscriptions := map[string]bool{}
	for _, s := range t.Subscriptions {
		if s.Name == "" || subscriptions[s.Name] {
			all = append(all, fmt.Sprintf("subscriptions need names of their own; %q is not", s.Name))
		}
		subscriptions[s.Name] = true
	}
	return all
}

// Only returns the list with the scenarios named, all of them if none is.
func (l List) Only(ids []string) (List, error) {
	if len(ids) == 0 {
		return l, nil
	}
	var some []Scenario
	for _, s := range l.Scenarios {
		if slices.Contains(ids, s.ID) {
			some = append(some, s)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(some, func(s Scenario) bool { return s.ID == id }) {
			return List{}, fmt.Errorf("no scenario is called %q", id)
		}
	}
	l.Scenarios = some
	return l, nil
}
