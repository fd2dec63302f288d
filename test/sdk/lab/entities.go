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

// Subscription is one of a topic. Without Rules it has the default one, with some it has these
// alone.
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

// entities is the entity file of a broker that has the queues and topics of a list: the base of
// all, then what the scenario says, then, for queues, what was changed since.
func (l List) entities(changes Changes) ([]byte, error) {
	namespace := namespaceEntry{Name: "sdk", Queues: []queueEntry{}, Topics: []topicEntry{}}
	queues := map[string]bool{}
	for _, s := range l.Scenarios {
		if s.Topic != nil {
			t := l.topic(s)
			l.partition(t.Properties)
			namespace.Topics = append(namespace.Topics, t)
		}
		if s.Queue != nil {
			p := merged(l.Base, s.Queue, changes[s.ID])
			l.partition(p)
			namespace.Queues = append(namespace.Queues, queueEntry{Name: s.ID, Properties: p})
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

// partition makes the properties of a queue or topic those of a partitioned one, where all are. The
// broker multiplies by the number of partitions only sizes that the cloud has, and gives each
// partition its part of any other: here each has what the scenario says.
func (l List) partition(p Properties) {
	if !l.Partitioned {
		return
	}
	p["EnablePartitioning"] = true
	if fmt.Sprint(p["MaxSizeInMegabytes"]) == "1" {
		p["MaxSizeInMegabytes"] = 16
	}
}

// merged are properties, later ones over earlier ones.
func merged(all ...Properties) Properties {
	p := Properties{}
	for _, some := range all {
		maps.Copy(p, some)
	}
	return p
}
