package lab

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is a list of two queues, the second only for those that can, a topic, and a scenario that
// has neither.
const example = `{
  "base": {"LockDuration": "PT1M", "MaxDeliveryCount": 10},
  "topicBase": {"DefaultMessageTimeToLive": "PT1H"},
  "errors": {"lock-lost": {"go": "a", "js": "b", "python": "c", "java": "d"}},
  "scenarios": [
    {"id": "send-one", "group": "send", "title": "One.", "refs": ["SM-001"], "queue": {}, "steps": ["send A"]},
    {"id": "lock-one", "group": "locks", "title": "Two | more.", "refs": ["SM-020", "WP-118"], "queue": {"LockDuration": "PT5S"},
     "steps": ["complete A: error lock-lost"], "not": {"js": "it has no locks"}, "note": {"go": "by hand"}},
    {"id": "topic-one", "group": "topics", "title": "Three.", "refs": ["SM-284"], "topic": {"Properties": {}, "Subscriptions": [
      {"Name": "all"}, {"Name": "red", "Properties": {"LockDuration": "PT5S"}, "Rules": [{"Name": "r", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "colour = 'red'"}}}]},
      {"Name": "bare", "Rules": []}]}, "steps": ["send B"]},
    {"id": "admin-one", "group": "admin", "title": "Four.", "refs": ["MA-001"], "steps": ["list queues"]}
  ]
}`

func exampleList(t *testing.T) List {
	t.Helper()
	list, err := ParseScenarios([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTheListIsSound(t *testing.T) {
	t.Parallel()
	list, err := ReadScenarios("../scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list.Scenarios); n < 130 {
		t.Errorf("%d scenarios", n)
	}
}

func TestListProblems(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		`"id": "send-one" -> "id": "Send One"`:                                        "small letters",
		`"id": "send-one" -> "id": "lock-one"`:                                        "given twice",
		`"group": "send" -> "group": "sending"`:                                       `no group is called "sending"`,
		`"group": "send" -> "group": "sessions"`:                                      "group locks belongs before sessions",
		`"title": "One." -> "title": "One"`:                                           "not a sentence",
		`["SM-001"] -> []`:                                                            "shows no statement",
		`["SM-001"] -> ["SM-1"]`:                                                      `"SM-1" is no number`,
		`"queue": {}, -> `:                                                            "neither queue nor topic",
		`"queue": {}, -> "queue": {}, "topic": {},`:                                   "cannot have one name",
		`"Name": "red" -> "Name": "all"`:                                              `"all" is not`,
		`{"Name": "r", "Properties" -> {"Named": "r", "Properties"`:                   "unknown field",
		`"steps": ["send A"] -> "steps": []`:                                          "no steps",
		`"steps": ["send A"] -> "steps": ["POST /kill"]`:                              "exclusive",
		`"steps": ["send A"] -> "steps": ["send A"], "exclusive": true`:               "exclusive",
		`error lock-lost -> error lock-kept`:                                          "error lock-kept is not explained",
		`"js": "it has no locks" -> "ruby": "it has no locks"`:                        `"ruby"`,
		`"js": "it has no locks" -> "js": ""`:                                         `"js": ""`,
		`"js": "it has no locks" -> "go": "x", "js": "x", "python": "x", "java": "x"`: "no client can show it",
		`"python": "c", -> `:                                                          "lock-lost does not say what it is in python",
		`"scenarios": [ -> "shownBy": {"sending": ["go"]}, "scenarios": [`:            `"sending"`,
		`"scenarios": [ -> "shownBy": {"send": ["ruby"]}, "scenarios": [`:             `no client is called "ruby"`,
		`"scenarios": [ -> "shownBy": {"locks": ["qpid-jms"]}, "scenarios": [`:        "lock-lost does not say what it is in qpid-jms",
		`"steps": ["send A"] -> "step": ["send A"]`:                                   "unknown field",
	} {
		before, after, _ := strings.Cut(change, " -> ")
		text := strings.Replace(example, before, after, 1)
		if text == example {
			t.Errorf("%s: changes nothing", change)
		}
		if _, err := ParseScenarios([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	list := exampleList(t)
	if all, err := list.Only(nil); err != nil || len(all.Scenarios) != 4 {
		t.Errorf("none named: %d, %v", len(all.Scenarios), err)
	}
	if one, err := list.Only([]string{"lock-one"}); err != nil || len(one.Scenarios) != 1 || one.Scenarios[0].ID != "lock-one" {
		t.Errorf("one named: %+v, %v", one.Scenarios, err)
	}
	if _, err := list.Only([]string{"lock-one", "lock-two"}); err == nil || !strings.Contains(err.Error(), `"lock-two"`) {
		t.Errorf("unknown: %v", err)
	}
}

func TestFor(t *testing.T) {
	t.Parallel()
	list := exampleList(t)
	list.ShownBy = map[string][]string{"send": {"java", "qpid-jms"}}
	for client, want := range map[string]string{"go": "lock-one topic-one admin-one", "java": "send-one lock-one topic-one admin-one", "qpid-jms": "send-one", "qpid-proton": ""} {
		var ids []string
		for _, s := range list.For(client).Scenarios {
			ids = append(ids, s.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s shows %q, want %q", client, got, want)
		}
	}
}

// What a suite reads is written from what was read: nothing is lost or made up.
func TestWrittenListIsTheSame(t *testing.T) {
	t.Parallel()
	list, err := ReadScenarios("../scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseScenarios(text); err != nil || !cmp.Equal(again, list) {
		t.Errorf("another list: %v (-want +got):\n%s", err, cmp.Diff(list, again))
	}
	// a suite may ask only whether there is one
	for _, part := range []string{`"topic":null`, `"queue":null`} {
		if strings.Contains(string(text), part) {
			t.Errorf("%s is written", part)
		}
	}
}

func TestEntities(t *testing.T) {
	t.Parallel()
	text, err := exampleList(t).entities(Changes{"send-one": {"Status": "Disabled"}})
	if err != nil {
		t.Fatal(err)
	}
	type properties = map[string]any
	var file struct {
		UserConfig struct {
			Namespaces []struct {
				Queues []struct {
					Name       string
					Properties properties
				}
				Topics []struct {
					Name          string
					Properties    properties
					Subscriptions []struct {
						Name       string
						Properties properties
						Rules      *[]struct {
							Name       string
							Properties properties
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	namespace := file.UserConfig.Namespaces[0]
	if len(namespace.Queues) != 2 || len(namespace.Topics) != 1 || len(namespace.Topics[0].Subscriptions) != 3 {
		t.Fatalf("%s; want len(namespace.Queues) == 2 && len(namespace.Topics) == 1 && len(namespace.Topics[0].Subscriptions) == 3", text)
	}
	if q := namespace.Queues[0]; q.Name != "send-one" || q.Properties["LockDuration"] != "PT1M" || q.Properties["Status"] != "Disabled" {
		t.Errorf(`%+v; want q.Name == "send-one" && q.Properties["LockDuration"] == "PT1M" && q.Properties["Status"] == "Disabled"`, q)
	}
	if q := namespace.Queues[1]; q.Name != "lock-one" || q.Properties["LockDuration"] != "PT5S" || q.Properties["MaxDeliveryCount"] != 10.0 || q.Properties["Status"] != nil {
		t.Errorf(`%+v; want q.Name == "lock-one" && q.Properties["LockDuration"] == "PT5S" && q.Properties["MaxDeliveryCount"] == 10.0 && q.Properties["Status"] == nil`, q)
	}
	topic := namespace.Topics[0]
	if topic.Name != "topic-one" || topic.Properties["DefaultMessageTimeToLive"] != "PT1H" || topic.Properties["LockDuration"] != nil {
		t.Errorf(`%+v; want topic.Name == "topic-one" && topic.Properties["DefaultMessageTimeToLive"] == "PT1H" && topic.Properties["LockDuration"] == nil`, topic)
	}
	if s := topic.Subscriptions[0]; s.Name != "all" || s.Rules != nil || s.Properties["MaxDeliveryCount"] != 10.0 {
		t.Errorf(`%+v; want s.Name == "all" && s.Rules == nil && s.Properties["MaxDeliveryCount"] == 10.0`, s)
	}
	if s := topic.Subscriptions[1]; s.Properties["LockDuration"] != "PT5S" || s.Rules == nil || (*s.Rules)[0].Properties["FilterType"] != "Sql" {
		t.Errorf(`%+v; want s.Properties["LockDuration"] == "PT5S" && s.Rules != nil && (*s.Rules)[0].Properties["FilterType"] == "Sql"`, s)
	}
	if s := topic.Subscriptions[2]; s.Rules == nil || len(*s.Rules) != 0 {
		t.Errorf("no rules are some other rules: %+v", s)
	}
	for _, name := range []string{"nowhere", "topic-one"} {
		if _, err := exampleList(t).entities(Changes{name: {}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a queue that is not there: %v", err)
		}
	}
}
