package lab

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Changes are properties by queue that replace those of the list, for as long as a lab lives.
type Changes map[string]Properties

// entities is the entity file of a broker that has the queues of a list: the base of all, then what the scenario says, then
// what was changed since.
func (l List) entities(changes Changes) ([]byte, error) {
	type queue struct {
		Name       string
		Properties Properties
	}
	type namespace struct {
		Name   string
		Queues []queue
	}
	var queues []queue
	known := map[string]bool{}
	for _, s := range l.Scenarios {
		p := Properties{}
		maps.Copy(p, l.Base)
		maps.Copy(p, s.Queue)
		maps.Copy(p, changes[s.ID])
		queues = append(queues, queue{Name: s.ID, Properties: p})
		known[s.ID] = true
	}
	for name := range changes {
		if !known[name] {
			return nil, fmt.Errorf("no queue is called %q", name)
		}
	}
	return json.MarshalIndent(map[string]any{
		"UserConfig": map[string]any{"Namespaces": []namespace{{Name: "sdk", Queues: queues}}},
	}, "", "  ")
}
