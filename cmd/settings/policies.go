package settings

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Keys of the config file for policies of entities: the one inside the block history, and the one
// that the file had before there was a block.
const (
	historyPolicies = "history.policies"
	flatPolicies    = "history-policies"
)

// PatternPolicy is the history policy of the entities whose path matches a pattern
// (docs/decisions/0049).
type PatternPolicy struct {
	Pattern string
	Policy  event.HistoryPolicy
	Where   string `json:"-"` // place in the settings
}

// policies reads a list of policies of entities, which is under a key of the file.
func (f *configFile) policies(n *yaml.Node, path string) {
	if n.Kind != yaml.SequenceNode {
		f.problems.add(f.at(n), "%s: must be a list of policies, each with pattern and one of events, bodies and undo", path)
		return
	}
	seen := map[string]bool{}
	for i, item := range n.Content {
		p := f.policy(item, fmt.Sprintf("%s[%d]", path, i))
		if lower := strings.ToLower(p.Pattern); p.Pattern != "" && seen[lower] {
			f.problems.add(p.Where, "two policies are for %q", p.Pattern)
		} else {
			seen[lower] = true
		}
		f.settings.History.Patterns = append(f.settings.History.Patterns, p)
	}
}

func (f *configFile) policy(n *yaml.Node, path string) (p PatternPolicy) {
	p.Where = f.at(n) + ": " + path
	if n.Kind != yaml.MappingNode {
		f.problems.add(p.Where, "must have the key pattern, and at least one of events, bodies and undo")
		return p
	}
	into := map[string]*event.Retention{"events": &p.Policy.Events, "bodies": &p.Policy.Bodies, "undo": &p.Policy.Undo}
	given, wrong := map[string]bool{}, false
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		where := f.at(key) + ": " + path + "." + key.Value
		value := f.scalar(n.Content[i+1], where)
		retention := into[key.Value]
		switch {
		case given[key.Value]:
			f.problems.add(where, "given twice")
		case key.Value == "pattern":
			p.Pattern = value
		case retention == nil:
			f.problems.add(where, "unknown key")
		default:
			var err error
			if *retention, err = event.ParseRetention(value); err != nil {
				f.problems.add(where, "%v", err)
				wrong = true
			}
		}
		given[key.Value] = true
	}
	if err := engine.CheckHistoryPattern(p.Pattern); err != nil {
		f.problems.add(p.Where, "%s", err.Text)
	} else if p.Policy.IsZero() && !wrong {
		f.problems.add(p.Where, "sets nothing: give events, bodies or undo")
	}
	return p
}
