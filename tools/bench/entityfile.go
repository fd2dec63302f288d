package bench

import (
	"encoding/json"
	"fmt"
	"os"
)

// An entityFile is the required part of a Config.json.
type entityFile struct {
	Queues []entityEntry `json:",omitempty"`
	Topics []topicEntry  `json:",omitempty"`
}

type entityEntry struct {
	Name       string
	Properties map[string]any `json:",omitempty"`
}

type topicEntry struct {
	entityEntry
	Subscriptions []subscriptionEntry
}

type subscriptionEntry struct {
	Name  string
	Rules []ruleEntry `json:",omitempty"`
}

type ruleEntry struct {
	Name       string
	Properties ruleProperties
}

type ruleProperties struct {
	FilterType        string
	SQLFilter         *sqlFilter         `json:"SqlFilter,omitempty"`
	CorrelationFilter *correlationFilter `json:",omitempty"`
}

type sqlFilter struct {
	SQLExpression string `json:"SqlExpression"`
}

type correlationFilter struct {
	Properties map[string]string
}

const (
	brokerQueue = "bench"
	largest     = 81_920 // MaxSizeInMegabytes
)

// largeQueue returns the queue for loads.
func largeQueue() entityEntry {
	return entityEntry{brokerQueue, map[string]any{"MaxSizeInMegabytes": largest, "LockDuration": "PT5M", "MaxDeliveryCount": 1000}}
}

func largeTopic(name string, subscriptions ...subscriptionEntry) topicEntry {
	return topicEntry{entityEntry{name, map[string]any{"MaxSizeInMegabytes": largest}}, subscriptions}
}

func sqlRule(text string) ruleEntry {
	return ruleEntry{"sql", ruleProperties{FilterType: "Sql", SQLFilter: &sqlFilter{text}}}
}

func correlationRule(i int, property, value string) ruleEntry {
	return ruleEntry{fmt.Sprint("r", i), ruleProperties{FilterType: "Correlation",
		CorrelationFilter: &correlationFilter{map[string]string{property: value}}}}
}

func (f *entityFile) write(name string) error {
	src, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(name, src, 0o600)
}
