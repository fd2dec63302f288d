package settings

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/internal/jsontext"
	"github.com/ledgerbus/ledgerbus/log/event"
	"go.yaml.in/yaml/v3"
)

// EntityFormat is the format of an entity file.
type EntityFormat string

const (
	EntityJSON EntityFormat = "json" // the emulator's Config.json
	EntityYAML EntityFormat = "yaml" // the same keys, without UserConfig and Namespaces
)

// WriteEntities writes an entity file from which [ReadEntities] reads the same entities. They may
// come in any order. It leaves out properties with the default that the emulator and the service
// share. Subscriptions with neither OnlyRules nor Rules have no "Rules" in the file. A subscription
// without any rule is written with one that matches nothing, because an empty list has no effect.
// Access rules come without their keys unless withKeys is set. A file without them can be shown to
// others, but ReadEntities refuses it until keys are added.
func WriteEntities(w io.Writer, entities []engine.PutEntity, format EntityFormat, withKeys bool) error {
	tree, err := (&entityWriter{withKeys: withKeys}).document(entities)
	if err != nil {
		return err
	}
	if format == EntityYAML {
		return writeYAML(w, tree)
	}
	const namespace = "sbemulatorns" // the only name that the emulator takes
	config := object(pair("Namespaces", array(object(append([]member{pair("Name", leaf(namespace))}, tree.value.([]member)...)...))),
		pair("Logging", object(pair("Type", leaf("Console")))))
	_, err = w.Write(append(appendJSON(nil, object(pair("UserConfig", config)), ""), '\n'))
	return err
}

// leaf, array and object make nodes for writing.
func leaf(v any) *node               { return &node{value: v} }
func array(items ...*node) *node     { return &node{value: items} }
func object(members ...member) *node { return &node{value: members} }

// pair is a member of an object.
func pair(key string, n *node) member { return member{key: key, node: n} }

func (n *node) add(members ...member) { n.value = append(n.value.([]member), members...) }
func (n *node) push(items ...*node)   { n.value = append(n.value.([]*node), items...) }

// noMessages replaces an empty list of rules: with both, a subscription gets no messages.
var noMessages = []event.Rule{{Name: "no-messages", Filter: event.Filter{Kind: event.FalseFilter}}}

type entityWriter struct{ withKeys bool }

// document returns {"Queues": [...], "Topics": [...]}. Both are there even when empty, because the
// emulator needs them.
func (w *entityWriter) document(entities []engine.PutEntity) (*node, error) {
	queues, topics := array(), array()
	subscriptions := map[string]*node{} // by lower-case path of the topic
	for i := range entities {
		e := &entities[i]
		switch e.Kind {
		case event.Queue:
			queues.push(w.entity(e, e.Path))
		case event.Topic:
			subs := array()
			subscriptions[strings.ToLower(e.Path)] = subs
			n := w.entity(e, e.Path)
			n.add(pair("Subscriptions", subs))
			topics.push(n)
		}
	}
	for i := range entities {
		e := &entities[i]
		if e.Kind != event.Subscription {
			continue
		}
		topic, name := splitSubscription(e.Path)
		of := subscriptions[strings.ToLower(topic)]
		if of == nil {
			return nil, fmt.Errorf("settings: the topic of %s is not among the entities to write", e.Path)
		}
		n := w.entity(e, name)
		if e.OnlyRules || e.Rules != nil {
			given, rules := e.Rules, array()
			if len(given) == 0 {
				given = noMessages
			}
			for i := range given {
				rules.push(object(pair("Name", leaf(given[i].Name)), pair("Properties", ruleNode(&given[i]))))
			}
			n.add(pair("Rules", rules))
		}
		of.push(n)
	}
	return object(pair("Queues", queues), pair("Topics", topics)), nil
}

// splitSubscription splits the path of a subscription.
func splitSubscription(path string) (topic, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:strings.LastIndexByte(path[:i], '/')], path[i+1:]
}

// entity returns name and properties. It leaves out properties that the reader would set to the
// same values.
func (w *entityWriter) entity(e *engine.PutEntity, name string) *node {
	defaults, given := emulatorDefaults(e.Kind), e.Properties
	if e.Kind != event.Subscription && given.EnablePartitioning {
		defaults.SupportOrdering = false
	}
	given.ForwardTo, given.ForwardDeadLetteredMessagesTo = engine.ForwardPath(given.ForwardTo), engine.ForwardPath(given.ForwardDeadLetteredMessagesTo)
	set := object()
	for _, p := range properties {
		if !p.of.has(e.Kind) {
			continue
		}
		n := w.value(p.field(&given))
		if p.name == accessProperty && len(given.AccessRules) == 0 || !p.differs(e.Kind) && sameLeaf(n, w.value(p.field(&defaults))) {
			continue
		}
		set.add(pair(p.name, n))
	}
	n := object(pair("Name", leaf(name)))
	if len(set.value.([]member)) > 0 {
		n.add(pair("Properties", set))
	}
	return n
}

func sameLeaf(a, b *node) bool {
	_, isList := a.value.([]*node)
	return !isList && a.value == b.value
}

// value returns the node for a field of event.Properties.
func (w *entityWriter) value(field any) *node {
	switch v := field.(type) {
	case *bool:
		return leaf(*v)
	case *uint32:
		return leaf(json.Number(fmt.Sprint(*v)))
	case *string:
		return leaf(*v)
	case *time.Duration:
		return leaf(FormatDuration(*v))
	case *event.Status:
		return leaf(v.String())
	case *[]event.AccessRule:
		return w.accessRules(*v)
	}
	panic(fmt.Sprintf("settings: a property of type %T", field))
}

func (w *entityWriter) accessRules(rules []event.AccessRule) *node {
	all := array()
	for _, rule := range rules {
		rights := array()
		for _, right := range rule.Rights {
			rights.push(leaf(right.String()))
		}
		n := object(pair("KeyName", leaf(rule.Name)), pair("Rights", rights))
		if w.withKeys {
			n.add(pair("PrimaryKey", leaf(rule.Primary.Reveal())), pair("SecondaryKey", leaf(rule.Secondary.Reveal())))
		}
		all.push(n)
	}
	return all
}

// ruleNode returns filter and action of a rule.
func ruleNode(rule *event.Rule) *node {
	f := &rule.Filter
	n := object()
	for _, name := range filterTypeNames {
		if filterTypes[name] == f.Kind {
			n.add(pair("FilterType", leaf(name)))
		}
	}
	switch f.Kind {
	case event.SQLFilter:
		n.add(pair("SqlFilter", sqlNode(f.Text, f.Parameters)))
	case event.CorrelationFilter:
		conditions := object()
		for _, c := range f.Conditions {
			conditions.add(pair(c.Field.String(), leaf(c.Text)))
		}
		if len(f.Properties) > 0 {
			conditions.add(pair("Properties", valuesNode(f.Properties)))
		}
		n.add(pair("CorrelationFilter", conditions))
	}
	if rule.Action.Text != "" {
		n.add(pair("Action", sqlNode(rule.Action.Text, rule.Action.Parameters)))
	}
	return n
}

func sqlNode(text string, parameters []event.Property) *node {
	n := object(pair("SqlExpression", leaf(text)))
	if len(parameters) > 0 {
		n.add(pair("Parameters", valuesNode(parameters)))
	}
	return n
}

func valuesNode(list []event.Property) *node {
	n := object()
	for _, p := range list {
		n.add(pair(p.Name, valueNode(p.Value)))
	}
	return n
}

// appendJSON prints a tree with two blanks a level. An array with only scalars stays on one line.
func appendJSON(b []byte, n *node, indent string) []byte {
	inner := indent + "  "
	switch v := n.value.(type) {
	case []member:
		b = append(b, '{')
		for i, m := range v {
			b = append(appendBreak(b, i, inner), scalarJSON(m.key)...)
			b = appendJSON(append(b, ": "...), m.node, inner)
		}
		return closeJSON(b, '}', len(v) > 0, indent)
	case []*node:
		b = append(b, '[')
		lines := slices.ContainsFunc(v, func(n *node) bool { return n.kind() == "an object" })
		for i, item := range v {
			if lines {
				b = appendBreak(b, i, inner)
			} else if i > 0 {
				b = append(b, ", "...)
			}
			b = appendJSON(b, item, inner)
		}
		return closeJSON(b, ']', lines, indent)
	}
	return append(b, scalarJSON(n.value)...)
}

func appendBreak(b []byte, i int, indent string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return append(append(b, '\n'), indent...)
}

func closeJSON(b []byte, end byte, lines bool, indent string) []byte {
	if lines {
		b = append(append(b, '\n'), indent...)
	}
	return append(b, end)
}

// scalarJSON prints a scalar in ASCII, so that it cannot control a terminal. It keeps < and > of a
// filter.
func scalarJSON(v any) string {
	text, err := jsontext.AppendValue(nil, v)
	if err != nil {
		panic(fmt.Sprintf("settings: %v", err))
	}
	return string(text)
}

// yamlHeader begins a file written as YAML.
const yamlHeader = `# Entities of a Ledgerbus broker: ledgerbus serve --entities FILE. The keys are those of the Service Bus emulator's Config.json.
# Properties that are left out have the default that the service and the emulator share.
`

func writeYAML(w io.Writer, tree *node) error {
	if _, err := io.WriteString(w, yamlHeader); err != nil {
		return err
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(yamlNode(tree)); err != nil {
		return err
	}
	return enc.Close()
}

func yamlNode(n *node) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := n.value.(type) {
	case []member:
		y := &yaml.Node{Kind: yaml.MappingNode}
		for _, m := range v {
			y.Content = append(y.Content, scalar("!!str", m.key), yamlNode(m.node))
		}
		return y
	case []*node:
		y := &yaml.Node{Kind: yaml.SequenceNode}
		if !slices.ContainsFunc(v, func(n *node) bool { return n.kind() == "an object" }) {
			y.Style = yaml.FlowStyle
		}
		for _, item := range v {
			y.Content = append(y.Content, yamlNode(item))
		}
		return y
	case bool:
		return scalar("!!bool", fmt.Sprint(v))
	case json.Number:
		if strings.ContainsAny(string(v), ".e") {
			return scalar("!!float", string(v))
		}
		return scalar("!!int", string(v))
	case string:
		return scalar("!!str", v)
	}
	return scalar("!!null", "null")
}
