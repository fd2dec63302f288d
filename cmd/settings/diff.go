package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Action is a change of an entity.
type Action string

const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Change is the change that one entity needs.
type Change struct {
	Action Action
	Entity engine.PutEntity // the wanted state; of a deletion the present one
	// the fields that differ; of a new entity, from one that is made with only a name
	Fields []Field
}

// Field is one property, access rule or rule of an entity that differs.
type Field struct {
	// as the entity file has it; "AuthorizationRules.x" and "Rules.x" name one of them
	Name     string
	Old, New string // "" means none
	Fixed    bool   // it cannot be changed: the entity has to be deleted first
}

// String names the entity, and each field in a separate line.
func (c Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", c.Action, strings.ToLower(c.Entity.Kind.String()), c.Entity.Path)
	for _, f := range c.Fields {
		fmt.Fprintf(&b, "\n    %s: ", f.Name)
		if c.Action == Create {
			b.WriteString(f.New)
			continue
		}
		fmt.Fprintf(&b, "%s -> %s", orNone(f.Old), orNone(f.New))
		if f.Fixed {
			b.WriteString("; cannot be changed, delete the entity first")
		}
	}
	return b.String()
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// Diff returns the changes that turn the present entities into the wanted ones: creations and
// updates in the order of want, then deletions of the others, subscriptions before their topics. It
// compares properties that can be set: not the times at which rules were made, and keys of access
// rules only where both sides have them. It compares the rules of an existing subscription only
// with OnlyRules. It shows no key.
func Diff(have, want []engine.PutEntity) []Change {
	old := map[string]*engine.PutEntity{}
	for i := range have {
		old[strings.ToLower(have[i].Path)] = &have[i]
	}
	var changes []Change
	for i := range want {
		w := &want[i]
		is := old[strings.ToLower(w.Path)]
		delete(old, strings.ToLower(w.Path))
		if is == nil {
			plain := engine.PutEntity{Kind: w.Kind, Properties: engine.DefaultProperties(w.Kind)}
			changes = append(changes, Change{Action: Create, Entity: *w, Fields: fields(&plain, w)})
		} else if differ := fields(is, w); differ != nil {
			changes = append(changes, Change{Action: Update, Entity: *w, Fields: differ})
		}
	}
	for _, kind := range []event.EntityKind{event.Subscription, event.Topic, event.Queue} {
		for i := range have {
			if have[i].Kind == kind && old[strings.ToLower(have[i].Path)] != nil {
				changes = append(changes, Change{Action: Delete, Entity: have[i]})
			}
		}
	}
	return changes
}

// fields returns the fields that differ between two states of an entity.
func fields(have, want *engine.PutEntity) []Field {
	if have.Kind != want.Kind {
		return []Field{{Name: "Kind", Old: have.Kind.String(), New: want.Kind.String(), Fixed: true}}
	}
	var list []Field
	for _, p := range properties {
		if !p.of.has(want.Kind) {
			continue
		}
		if p.name == accessProperty {
			list = append(list, accessFields(have.Properties.AccessRules, want.Properties.AccessRules)...)
			continue
		}
		old, new := p.text(&have.Properties), p.text(&want.Properties)
		if old != new && !(p.forwards() && strings.EqualFold(old, new)) {
			list = append(list, Field{Name: p.name, Old: old, New: new, Fixed: p.fixed})
		}
	}
	if want.OnlyRules || have.Path == "" {
		list = append(list, ruleFields(have.Rules, want.Rules)...)
	}
	return list
}

func (p property) forwards() bool { return p.name == forwardTo || p.name == forwardDeadLetters }

// text returns a property's value for people. It quotes free text.
func (p property) text(from *event.Properties) string {
	switch v := (&entityWriter{}).value(p.field(from)).value.(type) {
	case string:
		switch {
		case p.forwards():
			return engine.ForwardPath(v)
		case p.name == "UserMetadata" && v != "":
			return fmt.Sprintf("%q", v)
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// accessFields compares access rules by name. It reports that keys differ, but not the keys.
func accessFields(have, want []event.AccessRule) []Field {
	var d nameDiff
	for _, r := range have {
		d.old(r.Name, fmt.Sprint(r.Rights))
	}
	for _, r := range want {
		text := fmt.Sprint(r.Rights)
		i := slices.IndexFunc(have, func(h event.AccessRule) bool { return strings.EqualFold(h.Name, r.Name) })
		if i >= 0 && (otherKey(have[i].Primary, r.Primary) || otherKey(have[i].Secondary, r.Secondary)) {
			text += " with other keys"
		}
		d.new(r.Name, text)
	}
	return d.fields(accessProperty)
}

// otherKey reports whether two keys differ; an unknown one does not.
func otherKey(have, want event.Secret) bool { return have != "" && want != "" && have != want }

// ruleFields compares rules by name.
func ruleFields(have, want []event.Rule) []Field {
	var d nameDiff
	for i := range have {
		d.old(have[i].Name, ruleText(&have[i]))
	}
	for i := range want {
		d.new(want[i].Name, ruleText(&want[i]))
	}
	return d.fields("Rules")
}

// ruleText returns a rule's "Properties" in the entity file, on one line.
func ruleText(rule *event.Rule) string {
	var line bytes.Buffer
	if err := json.Compact(&line, appendJSON(nil, ruleNode(rule), "")); err != nil {
		panic(fmt.Sprintf("settings: %v", err))
	}
	return line.String()
}

// nameDiff compares two named lists. Letter case does not matter.
type nameDiff struct{ list []Field }

func (d *nameDiff) old(name, text string) { d.list = append(d.list, Field{Name: name, Old: text}) }

func (d *nameDiff) new(name, text string) {
	i := slices.IndexFunc(d.list, func(f Field) bool { return strings.EqualFold(f.Name, name) })
	if i < 0 {
		i, d.list = len(d.list), append(d.list, Field{Name: name})
	}
	d.list[i].New = text
}

// fields returns the fields that differ, in the order first seen.
func (d *nameDiff) fields(of string) []Field {
	var differ []Field
	for _, f := range d.list {
		if f.Old != f.New {
			f.Name = of + "." + f.Name
			differ = append(differ, f)
		}
	}
	return differ
}
