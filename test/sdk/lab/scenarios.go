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

// SDKs are the columns of every table, in their order.
var SDKs = []string{"go", "js", "python", "java"}

// Groups are the parts of the list, in their order.
var Groups = []string{
	"send", "receive", "locks", "settle", "dead-letter", "expiry", "schedule", "defer", "peek", "batch-delete", "sessions", "duplicates",
	"status-quota", "credit", "connection", "topics", "rules", "admin",
}

// List is test/sdk/scenarios.json: what the suites show.
type List struct {
	About     []string                     `json:"about"`
	Base      Properties                   `json:"base"`      // of queues and subscriptions
	TopicBase Properties                   `json:"topicBase"` // of topics
	Terms     map[string]string            `json:"terms"`     // words that steps use
	Errors    map[string]map[string]string `json:"errors"`    // by kind, then by SDK
	Scenarios []Scenario                   `json:"scenarios"`
}

// Properties are those of an entity in the emulator's Config.json.
type Properties map[string]any

// Scenario is one behaviour, shown by every SDK that can.
type Scenario struct {
	ID        string            `json:"id"` // also the name of its queue or topic, and the beginning of all names that it makes itself
	Group     string            `json:"group"`
	Title     string            `json:"title"`
	Refs      []string          `json:"refs"`  // statements of the specification
	Queue     Properties        `json:"queue"` // what its queue has beyond the base; nil where it has none
	Topic     *Topic            `json:"topic"` // nil where it has none
	Steps     []string          `json:"steps"`
	Exclusive bool              `json:"exclusive"` // kills the broker or cuts connections
	Not       map[string]string `json:"not"`       // by SDK: why its public API cannot express it
	Note      map[string]string `json:"note"`      // by SDK: how it shows it where its API alone does not
}

var (
	idPattern    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	refPattern   = regexp.MustCompile(`^(SM|WP|MA)-\d{3}$`)
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

// ParseScenarios is [ReadScenarios] on bytes already read. Its error names everything that is wrong.
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
	for kind, names := range l.Errors {
		for _, sdk := range SDKs {
			if names[sdk] == "" {
				complain("errors: %s does not say what it is in %s", kind, sdk)
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
			if l.Errors[match[1]] == nil {
				complain("error %s is not explained in errors", match[1])
			}
		}
	}
	if steps := strings.Join(s.Steps, " "); s.Exclusive != strings.Contains(steps, "POST /") {
		complain("exclusive is what kills the broker or cuts connections, and nothing else")
	}
	for _, reasons := range []map[string]string{s.Not, s.Note} {
		for sdk, reason := range reasons {
			if !slices.Contains(SDKs, sdk) || reason == "" {
				complain("not and note give a reason per SDK; %q: %q does not", sdk, reason)
			}
		}
	}
	if len(s.Not) >= len(SDKs) {
		complain("no SDK can show it")
	}
	return problems
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
