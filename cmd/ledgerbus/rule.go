package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func ruleCommand() *cli.Command {
	const args = "TOPIC SUBSCRIPTION RULE"
	return &cli.Command{
		Name:  "rule",
		Usage: "create, change, look at and delete rules of subscriptions",
		Description: "A subscription gets a copy of each message that matches one of its rules. A subscription created without a\n" +
			"rule has the rule $Default, which matches all messages: delete it when you add others.\n\n" +
			"   ledgerbus rule list events audit",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "print the rules of a subscription", ArgsUsage: "TOPIC SUBSCRIPTION",
				Description: "   ledgerbus rule list events audit -o json", Flags: connectionFlags(output.Flag()), Action: listRules,
			},
			{
				Name: "show", Usage: "print a rule", ArgsUsage: args,
				Description: "   ledgerbus rule show events audit big", Flags: connectionFlags(output.Flag()), Action: showRule,
			},
			{
				Name: "create", Usage: "add a rule to a subscription", ArgsUsage: args,
				Description: "A rule without a filter matches all messages.\n\n" +
					"   ledgerbus rule create events audit big --sql 'qty > @min' --param @min=int:5 --action \"SET size = 'big'\"\n" +
					"   ledgerbus rule create events audit eu --correlation label=eu --correlation property.tier=int:1",
				Flags: connectionFlags(append([]cli.Flag{output.Flag(), reasonFlag()}, filterFlags()...)...), Action: createRule,
			},
			{
				Name: "update", Usage: "change the filter or the action of a rule", ArgsUsage: args,
				Description: "Parts that are not given stay unchanged; --action '' removes the action.\n\n" +
					"   ledgerbus rule update events audit big --sql 'qty > 100'",
				Flags: connectionFlags(append([]cli.Flag{output.Flag(), reasonFlag()}, filterFlags()...)...), Action: updateRule,
			},
			{
				Name: "delete", Usage: "delete a rule", ArgsUsage: args,
				Description: "Messages in the subscription remain; new messages that match only this rule no longer arrive. The command\n" +
					"asks for the rule's name; scripts pass it with --confirm.\n\n" +
					"   ledgerbus rule delete events audit '$Default' --confirm '$Default'",
				Flags: connectionFlags(confirmFlag(), reasonFlag()), Action: deleteRule,
			},
		},
	}
}

// filterFlags returns the flags that describe a rule.
func filterFlags() []cli.Flag {
	const category = "Rule"
	return []cli.Flag{
		&cli.StringFlag{Name: "sql", Category: category, Usage: "filter: an expression of the SQL filter language, such as \"region = 'eu' AND qty > 5\""},
		&cli.GenericFlag{Name: "correlation", Value: new(list), Category: category, Usage: "filter: FIELD=TEXT with correlation-id, message-id, to, reply-to, label, session-id, reply-to-session-id or content-type, " +
			"or property.NAME=VALUE such as property.n=int:5; repeatable, all must match"},
		&cli.BoolFlag{Name: "match-all", Category: category, Usage: "filter: all messages match"},
		&cli.BoolFlag{Name: "match-none", Category: category, Usage: "filter: no message matches"},
		&cli.GenericFlag{Name: "param", Value: new(list), Category: category, Usage: "@NAME=VALUE of the --sql filter, such as @min=int:5; types: string, int, long, bool, double, time, duration; repeatable"},
		&cli.StringFlag{Name: "action", Category: category, Usage: "SET and REMOVE statements that change the copy of a message"},
		&cli.GenericFlag{Name: "action-param", Value: new(list), Category: category, Usage: "@NAME=VALUE of the --action; repeatable"},
	}
}

// ruleArguments reads TOPIC SUBSCRIPTION RULE.
func ruleArguments(c *cli.Context) (subscription, rule string, err error) {
	subscription, rest, ok := splitNames(c.Args().Slice(), 1)
	if !ok || rest[0] == "" || strings.Contains(rest[0], "/") {
		return "", "", usageError{fmt.Errorf("missing TOPIC, SUBSCRIPTION or RULE; usage: %s TOPIC SUBSCRIPTION RULE", c.Command.HelpName)}
	}
	return subscription, rest[0], nil
}

// applyFilter changes the filter and the action of a rule as the flags say, and reports whether any
// flag was given.
func applyFilter(c *cli.Context, r *event.Rule) (given bool, err error) {
	var filters []event.Filter
	if c.IsSet("sql") {
		filters = append(filters, event.Filter{Kind: event.SQLFilter, Text: c.String("sql")})
	}
	if pairs := listOf(c, "correlation"); len(pairs) > 0 {
		f, err := parseCorrelation(pairs)
		if err != nil {
			return false, usageError{fmt.Errorf("--correlation: %w", err)}
		}
		filters = append(filters, f)
	}
	if c.Bool("match-all") {
		filters = append(filters, event.Filter{Kind: event.TrueFilter})
	}
	if c.Bool("match-none") {
		filters = append(filters, event.Filter{Kind: event.FalseFilter})
	}
	if len(filters) > 1 {
		return false, usageError{errors.New("--sql, --correlation, --match-all and --match-none cannot be used together: a rule has one filter")}
	}
	if len(filters) == 1 {
		r.Filter, given = filters[0], true
	}
	if c.IsSet("action") {
		r.Action, given = event.Action{Text: c.String("action")}, true
	}
	for _, p := range [...]struct {
		flag, of string
		has      bool
		into     *[]event.Property
	}{{"param", "an SQL filter", r.Filter.Kind == event.SQLFilter, &r.Filter.Parameters}, {"action-param", "an action", r.Action.Text != "", &r.Action.Parameters}} {
		list, err := parseParameters(listOf(c, p.flag))
		if err == nil && len(list) > 0 && !p.has {
			err = errors.New("only " + p.of + " has parameters")
		}
		if err != nil {
			return false, usageError{fmt.Errorf("--%s: %w", p.flag, err)}
		}
		for _, one := range list {
			given = true
			if i := slices.IndexFunc(*p.into, func(old event.Property) bool { return strings.EqualFold(old.Name, one.Name) }); i >= 0 {
				(*p.into)[i] = one
				continue
			}
			*p.into = append(*p.into, one)
		}
	}
	return given, nil
}

// firstRule gives a new subscription the rule that the flags describe, if any.
func firstRule(c *cli.Context, e *admin.Entity) error {
	r := event.Rule{Name: "$Default", Filter: event.Filter{Kind: event.TrueFilter}}
	given, err := applyFilter(c, &r)
	if err != nil {
		return err
	}
	if name := c.String("rule"); name != "" {
		r.Name, given = name, true
	}
	if given {
		e.SetDefaultRule(r)
	}
	return nil
}

// parseCorrelation reads FIELD=TEXT and property.NAME=VALUE.
func parseCorrelation(pairs []string) (event.Filter, error) {
	f := event.Filter{Kind: event.CorrelationFilter}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return f, fmt.Errorf("%q is not FIELD=TEXT", pair)
		}
		if name, isProperty := strings.CutPrefix(key, "property."); isProperty {
			v, err := parseValue(value)
			if err != nil {
				return f, fmt.Errorf("%s: %w", key, err)
			}
			f.Properties = append(f.Properties, event.Property{Name: name, Value: v})
			continue
		}
		field, ok := parseField(key)
		if !ok {
			return f, fmt.Errorf("%q is not a field; for an application property write property.%s=…", key, key)
		}
		if slices.ContainsFunc(f.Conditions, func(c event.Condition) bool { return c.Field == field }) {
			return f, fmt.Errorf("%s is given twice", key)
		}
		f.Conditions = append(f.Conditions, event.Condition{Field: field, Text: value})
	}
	return f, nil
}

// fieldNames are the flags' names for the fields of correlation filters.
var fieldNames = [...]string{"correlation-id", "message-id", "to", "reply-to", "label", "session-id", "reply-to-session-id", "content-type"}

func parseField(name string) (event.Field, bool) {
	if strings.EqualFold(name, "subject") { // the SDKs' name of the label
		name = "label"
	}
	for i, known := range fieldNames {
		if strings.EqualFold(name, known) || strings.EqualFold(name, strings.ReplaceAll(known, "-", "")) {
			return event.Field(i + 1), true
		}
	}
	return 0, false
}

// parseParameters reads @NAME=VALUE.
func parseParameters(pairs []string) ([]event.Property, error) {
	var list []event.Property
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || len(name) < 2 || name[0] != '@' {
			return nil, fmt.Errorf("%q is not @NAME=VALUE", pair)
		}
		v, err := parseValue(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, event.Property{Name: name, Value: v})
	}
	return list, nil
}

// filterText returns a filter as one text, in the syntax of the flags.
func filterText(f *event.Filter) string {
	switch f.Kind {
	case event.TrueFilter:
		return "matches everything"
	case event.FalseFilter:
		return "matches nothing"
	case event.CorrelationFilter:
		return strings.Join(correlationTexts(f), ", ")
	}
	return f.Text
}

func correlationTexts(f *event.Filter) []string {
	texts := []string{}
	for _, c := range f.Conditions {
		name := "unknown"
		if i := int(c.Field) - 1; i >= 0 && i < len(fieldNames) {
			name = fieldNames[i]
		}
		texts = append(texts, name+"="+c.Text)
	}
	for _, p := range f.Properties {
		texts = append(texts, "property."+p.Name+"="+valueText(p.Value))
	}
	return texts
}

func parameterTexts(list []event.Property) []string {
	texts := []string{}
	for _, p := range list {
		texts = append(texts, p.Name+"="+valueText(p.Value))
	}
	return texts
}

// ruleRow returns a rule as a row.
func ruleRow(subscription string, r event.Rule) print.Object {
	topic, name, _ := admin.SplitSubscription(subscription)
	several := func(name string, texts []string) print.Field {
		return print.Named(name, output.Shown{Text: strings.Join(texts, ", "), Value: texts})
	}
	return print.Object{
		print.Named("topic", topic), print.Named("subscription", name), print.Named("name", r.Name), print.Named("type", r.Filter.Kind.String()),
		print.Named("filter", filterText(&r.Filter)), several("correlation", correlationTexts(&r.Filter)), several("parameters", parameterTexts(r.Filter.Parameters)),
		print.Named("action", r.Action.Text), several("actionParameters", parameterTexts(r.Action.Parameters)), moment("createdAt", r.CreatedAt),
	}
}

func listRules(c *cli.Context) error {
	subscription, err := pathOf(c, event.Subscription)
	if err != nil {
		return err
	}
	return administer(c, func(a *administration) error {
		rules, err := a.Rules(a.ctx, subscription)
		if err != nil {
			return err
		}
		return output.Rows(output.Of(c), rules, func(r event.Rule) print.Object { return ruleRow(subscription, r) }, "name", "type", "filter", "parameters", "action")
	})
}

func showRule(c *cli.Context) error {
	return onRule(c, func(a *administration, subscription, name string) error {
		r, err := a.Rule(a.ctx, subscription, name)
		if err != nil {
			return err
		}
		return output.Of(c).One(ruleRow(subscription, *r))
	})
}

// onRule selects the namespace and the rule that a command works on.
func onRule(c *cli.Context, do func(a *administration, subscription, rule string) error) error {
	subscription, name, err := ruleArguments(c)
	if err != nil {
		return err
	}
	return administer(c, func(a *administration) error {
		return do(a, subscription, name)
	})
}

func createRule(c *cli.Context) error {
	r := event.Rule{Filter: event.Filter{Kind: event.TrueFilter}}
	if _, err := applyFilter(c, &r); err != nil {
		return err
	}
	return onRule(c, func(a *administration, subscription, name string) error {
		r.Name = name
		made, err := a.CreateRule(a.ctx, subscription, r)
		if err != nil {
			return err
		}
		return printChangedRule(c, "created", subscription, made)
	})
}

func updateRule(c *cli.Context) error {
	return onRule(c, func(a *administration, subscription, name string) error {
		r, err := a.Rule(a.ctx, subscription, name)
		if err != nil {
			return err
		}
		given, err := applyFilter(c, r)
		if err != nil {
			return err
		}
		if !given {
			return usageError{errors.New("missing change; give a filter or an --action")}
		}
		if r, err = a.UpdateRule(a.ctx, subscription, *r); err != nil {
			return err
		}
		return printChangedRule(c, "updated", subscription, r)
	})
}

func printChangedRule(c *cli.Context, done, subscription string, r *event.Rule) error {
	return output.Of(c).Said(fmt.Sprintf("%s rule %s of %s: %s", done, r.Name, subscription, filterText(&r.Filter)), ruleRow(subscription, *r))
}

func deleteRule(c *cli.Context) error {
	return onRule(c, func(a *administration, subscription, name string) error {
		r, err := a.Rule(a.ctx, subscription, name)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("deleting rule %s of %s at %s stops delivery of the messages that match it (%s)", r.Name, subscription, a.Host(), filterText(&r.Filter))
		if err := confirm(c, r.Name, what); err != nil {
			return err
		}
		if err := a.DeleteRule(a.ctx, subscription, r.Name); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.App.Writer, "deleted rule %s of %s\n", output.OneLine(r.Name), output.OneLine(subscription))
		return err
	})
}
