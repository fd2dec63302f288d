package lab

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Changes are properties by queue that replace those of the list, for as long as a lab lives.
type Changes map[string]Properties

// Topic is what a scenario's topic has beyond the base.
type Topic struct {
	Properties    Properties
	Subscriptions []Subscription
}

// Subscription is one of a topic. Without Rules it has the default one, with some it has these alone.
type Subscription struct {
	Name       string
	Properties Properties `json:",omitempty"` // beyond the base
	Rules      *[]Rule    `json:",omitempty"`
}

// Rule has a filter, and an action where it has one, as Config.json has them.
type Rule struct {
	Name       string
	Properties Properties
}

// queueEntry and topicEntry are entities as Config.json has them.
type (
	queueEntry struct {
		Name       string
		Properties Properties
	}
	topicEntry struct {
		Name          string
		Properties    Properties
		Subscriptions []Subscription
	}
	namespaceEntry struct {
		Name   string
		Queues []queueEntry
		Topics []topicEntry
	}
)

// entities is the entity file of a broker that has the queues and topics of a list: the base of all, then what the scenario
// says, then, for queues, what was changed since.
func (l List) entities(changes Changes) ([]byte, error) {
	namespace := namespaceEntry{Name: "sdk", Queues: []queueEntry{}, Topics: []topicEntry{}}
	queues := map[string]bool{}
	for _, s := range l.Scenarios {
		if s.Topic != nil {
			namespace.Topics = append(namespace.Topics, l.topic(s))
		}
		if s.Queue != nil {
			namespace.Queues = append(namespace.Queues, queueEntry{Name: s.ID, Properties: merged(l.Base, s.Queue, changes[s.ID])})
			queues[s.ID] = true
		}
	}
	for name := range changes {
		if !queues[name] {
			return nil, fmt.Errorf("no queue is called %q", name)
		}
	}
	return json.MarshalIndent(map[string]any{"UserConfig": map[string]any{"Namespaces": []namespaceEntry{namespace}}}, "", "  ")
}

func (l List) topic(s Scenario) topicEntry {
	t := topicEntry{Name: s.ID, Properties: merged(l.TopicBase, s.Topic.Properties), Subscriptions: []Subscription{}}
	for _, sub := range s.Topic.Subscriptions {
		sub.Properties = merged(l.Base, sub.Properties)
		t.Subscriptions = append(t.Subscriptions, sub)
	}
	return t
}

// merged are properties, later ones over earlier ones.
func merged(all ...Properties) Properties {
	p := Properties{}
	for _, some := range all {
		maps.Copy(p, some)
	}
	return p
}
