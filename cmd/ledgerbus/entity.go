package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// examplesOf are examples of the commands for a kind of entity.
var examplesOf = map[event.EntityKind]map[string]string{
	event.Queue: {
		"list": "queue list\n   ledgerbus queue list -o csv > queues.csv\n   ledgerbus queue list --sort oldest --top 20", "show": "queue show orders",
		"create": "queue create orders --requires-session --lock-duration 30s --max-delivery-count 5",
		"update": "queue update orders --lock-duration 2m --dead-lettering-on-message-expiration=false",
		"delete": "queue delete orders\n   ledgerbus queue delete orders --confirm orders",
	},
	event.Topic: {
		"list": "topic list", "show": "topic show events -o json",
		"create": "topic create events --requires-duplicate-detection --duplicate-detection-window 1h",
		"update": "topic update events --default-message-time-to-live 14d",
		"delete": "topic delete events --confirm events",
	},
	event.Subscription: {
		"list": "subscription list events\n   ledgerbus subscription list", "show": "subscription show events audit",
		"create": "subscription create events audit --sql \"region = 'eu'\"",
		"update": "subscription update events audit --forward-to archive",
		"delete": "subscription delete events audit --confirm audit",
	},
}

// entityCommand returns the command for a kind of entity.
func entityCommand(kind event.EntityKind) *cli.Command {
	name := strings.ToLower(kind.String())
	args := argumentsOf(kind)
	example := func(verb string) string { return "   ledgerbus " + examplesOf[kind][verb] }
	withKeys := cli.Flag(&cli.BoolFlag{Name: "with-keys", Usage: "show the keys of access rules"})
	show, create, update := []cli.Flag{output.Flag()}, []cli.Flag{output.Flag(), reasonFlag()}, []cli.Flag{output.Flag(), reasonFlag()}
	if kind != event.Subscription {
		show, create, update = append(show, withKeys), append(create, withKeys), append(update, withKeys)
	} else {
		create = append(create, &cli.StringFlag{Name: "rule", DefaultText: "$Default", Usage: "name of its first rule"})
		create = append(create, filterFlags()...)
	}
	const forms = "Durations are written 90s, 1h30m, 14d,\nPT1H or unlimited. =false turns off a switch that is on by default.\n\n"
	list := &cli.Command{
		Name: "list", Usage: "print all " + name + "s with their settings and counts of messages",
		Description: example("list") + "\n\n" +
			"With --sort, --top, --prefix or --data it prints counts, ages and rates instead of settings; only Ledgerbus\n" +
			"has these. The sorts are " + foldSorts() + ".",
		Flags: connectionFlags(append([]cli.Flag{output.Flag(),
			&cli.StringFlag{Name: "sort", Usage: "column to sort by: the largest values, or the oldest times, come first"},
			&cli.IntFlag{Name: "top", Usage: "print at most this many " + name + "s", DefaultText: "all"},
			&cli.StringFlag{Name: "prefix", Usage: "only " + name + "s whose path begins with this"},
		}, presentFlags()...)...),
		Action: func(c *cli.Context) error { return listEntities(c, kind) },
	}
	if kind == event.Subscription {
		list.ArgsUsage = "[TOPIC]"
		list.Description = "Without TOPIC it prints the subscriptions of all topics.\n\n" + list.Description
	}
	return &cli.Command{
		Name:  name,
		Usage: "list, show, create, update and delete " + name + "s",
		Description: "Works with this broker and with any other Service Bus namespace, through its management interface. An emulator has it\n" +
			"at port 5300 unless the connection string has another one.\n\n" + example("list"),
		Subcommands: []*cli.Command{
			list,
			{
				Name: "show", Usage: "print the settings and counts of messages of a " + name, ArgsUsage: args,
				Description: example("show"), Flags: connectionFlags(show...),
				Action: func(c *cli.Context) error { return showEntity(c, kind) },
			},
			{
				Name: "create", Usage: "create a " + name, ArgsUsage: args,
				Description: "A property without a flag has the broker's default. " + forms + example("create"),
				Flags:       connectionFlags(append(create, settingFlags(kind)...)...),
				Action:      func(c *cli.Context) error { return createEntity(c, kind) },
			},
			{
				Name: "update", Usage: "change the properties of a " + name, ArgsUsage: args,
				Description: "A property without a flag does not change. If another client changes the " + name + " at the same time, one of the two\nchanges wins. " + forms + example("update"),
				Flags:       connectionFlags(append(update, settingFlags(kind)...)...),
				Action:      func(c *cli.Context) error { return updateEntity(c, kind) },
			},
			{
				Name: "delete", Usage: "delete a " + name + " and everything in it", ArgsUsage: args,
				Description: "Prints what will be lost, and asks for the name. A script gives it with --confirm.\n\n" + example("delete"),
				Flags:       connectionFlags(confirmFlag(), reasonFlag()),
				Action:      func(c *cli.Context) error { return deleteEntity(c, kind) },
			},
		},
	}
}

func listEntities(c *cli.Context, kind event.EntityKind) error {
	var err error
	if kind == event.Subscription {
		err = arguments(c, 0, 1, "one TOPIC or none")
	} else {
		err = arguments(c, 0, 0, "")
	}
	if err != nil {
		return err
	}
	if c.IsSet("sort") || c.IsSet("top") || c.IsSet("prefix") || c.IsSet("data") {
		return listPresent(c, kind)
	}
	return administer(c, func(a *administration) error {
		found, err := a.listOf(kind, c.Args().First())
		if err != nil {
			return err
		}
		return output.Rows(output.Of(c), found, func(e *admin.Entity) print.Object {
			if e == nil { // without an entity only the names of the columns matter
				e = admin.NewEntity(kind, "")
			}
			return entityRow(e, false)
		}, entityColumns[kind]...)
	})
}

// listOf lists the entities of a kind: subscriptions of one topic, or of all.
func (a *administration) listOf(kind event.EntityKind, topic string) ([]*admin.Entity, error) {
	if kind != event.Subscription || topic != "" {
		return a.List(a.ctx, kind, topic)
	}
	topics, err := a.List(a.ctx, event.Topic, "")
	if err != nil {
		return nil, err
	}
	var all []*admin.Entity
	for _, t := range topics {
		some, err := a.List(a.ctx, kind, t.Path)
		if err != nil && !admin.IsNotFound(err) { // it may have been deleted since
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// entityColumns are the columns of the tables of entities.
var entityColumns = map[event.EntityKind][]string{
	event.Queue:        {"name", "status", "active", "deadLetter", "scheduled", "transfer", "transferDeadLetter", "sizeBytes", "forwardTo"},
	event.Topic:        {"name", "status", "subscriptions", "scheduled", "transfer", "transferDeadLetter", "sizeBytes"},
	event.Subscription: {"topic", "name", "status", "active", "deadLetter", "transfer", "transferDeadLetter", "forwardTo"},
}

// entityRow prints an entity: its settings, its counts of messages, and its times.
func entityRow(e *admin.Entity, withKeys bool) print.Object {
	r := print.Object{print.Named("name", e.Path)}
	if e.Kind == event.Subscription {
		topic, name, _ := admin.SplitSubscription(e.Path)
		r = print.Object{print.Named("topic", topic), print.Named("name", name)}
	}
	for _, s := range settingsOfEntities {
		if s.of.has(e.Kind) {
			r = append(r, s.field(&e.Properties))
		}
	}
	if e.Partitions > 0 {
		r = append(r, print.Named("partitions", e.Partitions))
	}
	if e.Kind != event.Subscription {
		r = append(r, accessField(e.Properties.AccessRules, withKeys))
	}
	r = append(r, runtimeFields(e)...)
	return append(r, moment("createdAt", e.CreatedAt), moment("updatedAt", e.UpdatedAt), moment("accessedAt", e.AccessedAt))
}

// subQueueRow prints the count of messages in a sub-queue of an entity.
func subQueueRow(e *admin.Entity, of address.Address) print.Object {
	n := e.Runtime.DeadLetter
	if of.SubQueue == event.TransferDeadLetter {
		n = e.Runtime.TransferDeadLetter
	}
	return print.Object{print.Named("name", of.String()), print.Named("entity", e.Path), held(e, "messages", n)}
}

// runtimeFields print the counts of an entity.
func runtimeFields(e *admin.Entity) (fields []print.Field) {
	n := &e.Runtime
	if e.Kind == event.Topic {
		fields = append(fields, print.Named("subscriptions", n.Subscriptions))
	} else {
		fields = append(fields, held(e, "messages", n.Total()), held(e, "active", n.Active), held(e, "deadLetter", n.DeadLetter))
	}
	fields = append(fields, held(e, "scheduled", n.Scheduled), held(e, "transfer", n.Transfer), held(e, "transferDeadLetter", n.TransferDeadLetter))
	if e.Kind != event.Subscription {
		fields = append(fields, held(e, "sizeBytes", n.SizeBytes))
	}
	return fields
}

// held prints one count of an entity.
func held(e *admin.Entity, name string, n any) print.Field {
	if !counted(e) {
		n = output.Unknown
	}
	return print.Named(name, n)
}

// counted reports whether the broker sent the counts of an entity. It does not send them in the
// answer to a change, nor when it cannot read the log of the entity's partition (reliability.md
// P24).
func counted(e *admin.Entity) bool { return e.Present.Has(document.CountDetails) && !e.Runtime.Unknown }

// moment prints a time; 0 means never.
func moment(name string, t event.Time) print.Field {
	if t == 0 {
		return print.Named(name, "")
	}
	return print.Named(name, time.UnixMilli(int64(t)).UTC().Format("2006-01-02T15:04:05.000Z"))
}

// onEntity finds the namespace and the entity in the arguments. A deletion also needs it, because
// the broker would delete an entity of another kind as well.
func onEntity(c *cli.Context, kind event.EntityKind, do func(a *administration, e *admin.Entity) error) error {
	path, err := pathOf(c, kind)
	if err != nil {
		return err
	}
	return administer(c, func(a *administration) error {
		e, err := a.Get(a.ctx, kind, path)
		if err != nil {
			return err
		}
		return do(a, e)
	})
}

// showEntity prints an entity, or the count of messages in a sub-queue.
func showEntity(c *cli.Context, kind event.EntityKind) error {
	of, err := entityOf(c, kind)
	if err != nil {
		return err
	}
	if kind == event.Topic && of.SubQueue == event.DeadLetter {
		return usageError{fmt.Errorf("%s: a topic has no dead-letter queue, its subscriptions have", of)}
	}
	return administer(c, func(a *administration) error {
		e, err := a.Get(a.ctx, kind, of.Entity)
		if err != nil {
			return err
		}
		if of.SubQueue != event.Main {
			return output.Of(c).One(subQueueRow(e, of))
		}
		return output.Of(c).One(entityRow(e, c.Bool("with-keys")))
	})
}

func createEntity(c *cli.Context, kind event.EntityKind) error {
	path, err := pathOf(c, kind)
	if err != nil {
		return err
	}
	e := admin.NewEntity(kind, path)
	if _, err := applySettings(c, e); err != nil {
		return err
	}
	if kind == event.Subscription {
		if err := firstRule(c, e); err != nil {
			return err
		}
	}
	return administer(c, func(a *administration) error {
		if e, err = a.Create(a.ctx, e); err != nil {
			return err
		}
		return printChanged(c, "created", e)
	})
}

func updateEntity(c *cli.Context, kind event.EntityKind) error {
	return onEntity(c, kind, func(a *administration, e *admin.Entity) error {
		given, err := applySettings(c, e)
		if err != nil {
			return err
		}
		if !given {
			return usageError{errors.New("nothing to change; give a flag for each property to change")}
		}
		if e, err = a.Update(a.ctx, e); err != nil {
			return err
		}
		return printChanged(c, "updated", e)
	})
}

// printChanged reports the change, or prints the entity in a form for programs.
func printChanged(c *cli.Context, done string, e *admin.Entity) error {
	out, withKeys := output.Of(c), c.Bool("with-keys")
	if err := out.Said(done+" "+nameOf(e), entityRow(e, withKeys)); err != nil || !withKeys || out.Format != output.Text {
		return err
	}
	return out.One(print.Object{accessField(e.Properties.AccessRules, true)})
}

// nameOf returns the name of an entity for a sentence.
func nameOf(e *admin.Entity) string {
	if topic, name, ok := admin.SplitSubscription(e.Path); ok && e.Kind == event.Subscription {
		return "subscription " + name + " of " + topic
	}
	return strings.ToLower(e.Kind.String()) + " " + e.Path
}

func deleteEntity(c *cli.Context, kind event.EntityKind) error {
	return onEntity(c, kind, func(a *administration, e *admin.Entity) error {
		losing, err := a.lossOf(e)
		if err != nil {
			return err
		}
		name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
		if kind != event.Subscription {
			name = e.Path
		}
		if err := confirm(c, name, fmt.Sprintf("deleting %s at %s loses %s", nameOf(e), a.Host(), losing)); err != nil {
			return err
		}
		if err := a.Delete(a.ctx, kind, e.Path); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.App.Writer, "deleted %s with %s\n", output.OneLine(nameOf(e)), losing)
		return err
	})
}

// lossOf names the messages and subscriptions that are deleted with an entity.
func (a *administration) lossOf(e *admin.Entity) (string, error) {
	if e.Kind != event.Topic {
		return messageCounts([]*admin.Entity{e}), nil
	}
	subscriptions, err := a.List(a.ctx, event.Subscription, e.Path)
	if err != nil {
		return "", err
	}
	return plural(len(subscriptions), "subscription") + " and " + messageCounts(append(slices.Clone(subscriptions), e)), nil
}

// messageCounts returns the number of messages, and of those in each state.
func messageCounts(in []*admin.Entity) string {
	total := 0
	states := make([]int, 5)
	missing := false
	for _, e := range in {
		missing = missing || !counted(e)
		r := &e.Runtime
		total += r.Total()
		for i, n := range [...]int{r.Active, r.DeadLetter, r.Scheduled, r.Transfer, r.TransferDeadLetter} {
			states[i] += n
		}
	}
	var parts []string
	for i, name := range [...]string{"active", "dead-lettered", "scheduled", "being forwarded", "that could not be forwarded"} {
		if states[i] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", states[i], name))
		}
	}
	text := plural(total, "message")
	switch {
	case missing && total == 0:
		return "an unknown number of messages"
	case missing:
		text = "at least " + text
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
