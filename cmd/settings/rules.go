package settings

import (
	"cmp"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine/filter"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// filterTypes are the values of "FilterType". The emulator has the first two.
var filterTypes = map[string]event.FilterKind{
	"Correlation": event.CorrelationFilter, "Sql": event.SQLFilter, "True": event.TrueFilter, "False": event.FalseFilter,
}

// filterTypeNames are the keys of filterTypes in the order of messages.
var filterTypeNames = []string{"Correlation", "Sql", "True", "False"}

// rules reads the rules of a subscription, which has no others.
func (r *entityReader) rules(n *node) (rules []event.Rule) {
	seen := map[string]*node{}
	for _, item := range r.array(n) {
		var rule event.Rule
		r.object(item, readers{
			"Name":       func(n *node) { r.uniqueName(n, "Rule", &rule.Name, seen) },
			"Properties": func(n *node) { r.rule(n, &rule) },
		}, "Name", "Properties")
		rules = append(rules, rule)
	}
	return rules
}

// rule reads filter and action of a rule (management-api.md 3.6, 4.2).
func (r *entityReader) rule(n *node, rule *event.Rule) {
	var kind string
	var filterType, correlation, sql, action *node
	r.object(n, readers{
		"FilterType": storeIn(&filterType), "CorrelationFilter": storeIn(&correlation), "SqlFilter": storeIn(&sql), "Action": storeIn(&action),
	}, "FilterType")
	if action != nil {
		before := len(r.problems)
		text := r.sql(action, &rule.Action.Text, &rule.Action.Parameters)
		if len(r.problems) == before {
			r.checkRule(text, &event.Rule{Filter: event.Filter{Kind: event.TrueFilter}, Action: rule.Action})
		}
	}
	if filterType == nil {
		return
	}
	if b, ok := filterType.value.(bool); ok { // YAML reads True as a boolean
		kind = map[bool]string{true: "True", false: "False"}[b]
	} else if !r.text(filterType, &kind) {
		return
	}
	if rule.Filter.Kind = filterTypes[kind]; rule.Filter.Kind == 0 {
		r.oneOf(filterType, kind, filterTypeNames...)
		return
	}
	for _, block := range [...]struct {
		name string
		node *node
		of   event.FilterKind
	}{{"CorrelationFilter", correlation, event.CorrelationFilter}, {"SqlFilter", sql, event.SQLFilter}} {
		switch {
		case block.node == nil && rule.Filter.Kind == block.of:
			r.complain(&node{line: n.line, path: join(n.path, block.name)}, "missing; FilterType %q needs it", kind)
		case block.node != nil && rule.Filter.Kind != block.of:
			r.unknown(block.node, "does not go together with FilterType %q", kind)
		case block.node != nil:
			r.filter(block.node, &rule.Filter)
		}
	}
}

// filter reads an SqlFilter or CorrelationFilter.
func (r *entityReader) filter(n *node, f *event.Filter) {
	before, at := len(r.problems), n
	if f.Kind == event.SQLFilter {
		at = r.sql(n, &f.Text, &f.Parameters)
	} else {
		r.correlation(n, f)
	}
	if len(r.problems) == before {
		r.checkRule(at, &event.Rule{Filter: *f})
	}
}

// checkRule complains about a filter or an action that the broker would refuse.
func (r *entityReader) checkRule(n *node, rule *event.Rule) {
	if err := filter.Check(rule); err != nil {
		r.complain(n, "%s", oneLine(err.Error()))
	}
}

// sql reads an SqlFilter or an Action. It returns the node of the text.
func (r *entityReader) sql(n *node, text *string, parameters *[]event.Property) *node {
	at := n
	r.object(n, readers{
		"SqlExpression": func(n *node) { r.text(n, text); at = n },
		"Parameters":    func(n *node) { *parameters = r.values(n) },

		requiresPreprocessing: r.ofNoEffect(new(bool)), compatibilityLevel: r.ofNoEffect(new(uint32)),
	}, "SqlExpression")
	return at
}

// Keys without effect that generators of entity files write, such as Aspire: the service prepares
// every rule when it is made, and has one version of its SQL.
const (
	requiresPreprocessing = "RequiresPreprocessing"
	compatibilityLevel    = "CompatibilityLevel"
)

// ofNoEffect returns a reader that checks the type of a value, and ignores the value.
func (r *entityReader) ofNoEffect(into any) func(*node) {
	return func(n *node) { r.value(n, into) }
}

func (r *entityReader) correlation(n *node, f *event.Filter) {
	known := readers{"Properties": func(n *node) { f.Properties = r.values(n) }, requiresPreprocessing: r.ofNoEffect(new(bool))}
	for field := event.FieldCorrelationID; field <= event.FieldContentType; field++ {
		known[field.String()] = func(n *node) {
			c := event.Condition{Field: field}
			r.text(n, &c.Text)
			f.Conditions = append(f.Conditions, c)
		}
	}
	r.object(n, known)
	slices.SortFunc(f.Conditions, func(a, b event.Condition) int { return cmp.Compare(a.Field, b.Field) })
}

// values reads an object of application properties or parameters, in the order given.
func (r *entityReader) values(n *node) []event.Property {
	members, ok := n.value.([]member)
	if !ok {
		r.complain(n, "must be an object, not %s", n.kind())
		return nil
	}
	var list []event.Property
	seen := map[string]bool{}
	for _, m := range members {
		if seen[m.key] {
			r.complain(&node{line: m.line, path: m.node.path}, "given twice")
			continue
		}
		seen[m.key] = true
		v, err := readValue(m.node)
		if err != nil {
			r.complain(m.node, "%v", err)
			continue
		}
		list = append(list, event.Property{Name: m.key, Value: v})
	}
	return list
}
