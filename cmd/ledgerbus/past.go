package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
)

const instantHelp = "\n\nAn instant is 03:12, 'yesterday 14:00', 2h or 7d (that long ago), now, 2026-11-03T03:12:00Z, or a place in a\n" +
	"log as shown in answers: @0/1839977. Without a time zone it is local time; answers are in UTC."

func whyCommand() *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "explain why messages are in a dead-letter queue: cause, actor, time, and changes made shortly before",
		ArgsUsage: "ENTITY/$dlq | ENTITY#NUMBER",
		Description: "   ledgerbus why 'orders/$dlq'\n" +
			"   ledgerbus why orders#88114" + dataHelp,
		Flags:  historyFlags(),
		Action: func(c *cli.Context) error { return ask(c, "of") },
	}
}

func atCommand() *cli.Command {
	return &cli.Command{
		Name:      "at",
		Usage:     "show the state of the entities at an instant in the past",
		ArgsUsage: "INSTANT [ENTITY]",
		Description: "   ledgerbus at 03:12\n" +
			"   ledgerbus at 'yesterday 14:00' orders --messages" + instantHelp + dataHelp,
		Flags:  historyFlags(&cli.BoolFlag{Name: "messages", Usage: "show each message instead of counts"}),
		Action: func(c *cli.Context) error { return ask(c, "at", "entity") },
	}
}

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare two instants: counts, messages that arrived and left, changes and their authors",
		ArgsUsage: "INSTANT INSTANT [ENTITY]",
		Description: "   ledgerbus diff 02:45 03:15 orders\n" +
			"   ledgerbus diff 02:45 now --messages\n\n" +
			"If a clock was set back and an instant occurred twice, there is an answer for each occurrence, with its\n" +
			"place." + instantHelp + dataHelp,
		Flags:  historyFlags(&cli.BoolFlag{Name: "messages", Usage: "show each message that differs instead of counts"}),
		Action: func(c *cli.Context) error { return ask(c, "from", "to", "entity") },
	}
}

func whenCommand() *cli.Command {
	return &cli.Command{
		Name:      "when",
		Usage:     "find the first event that made a condition true, with the events around it",
		ArgsUsage: "CONDITION",
		Description: "A condition compares counts of entities: messages, active, dead, scheduled, transfer, transferdead, locked,\n" +
			"deferred, size.\n\n" +
			"   ledgerbus when 'orders.active > 1000'\n" +
			"   ledgerbus when 'orders.active > 0 AND orders.locked = 0' --since 02:00" + dataHelp,
		Flags:  historyFlags(&cli.StringFlag{Name: "since", Usage: "search only from this instant on", DefaultText: "the beginning of history"}),
		Action: func(c *cli.Context) error { return ask(c, "condition") },
	}
}

// spanFlags returns the flags that select events, except by entity.
func spanFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "since", Usage: "only events from this instant on; a duration means that long ago", DefaultText: "the beginning of history"},
		&cli.StringFlag{Name: "until", Usage: "only events up to this instant", DefaultText: "the end"},
		&cli.StringFlag{Name: "message-id", Usage: "only events of messages sent with this id"},
		&cli.StringSliceFlag{Name: "type", Usage: "only events of this type, such as locked or MessageLocked; repeatable"},
		&cli.StringFlag{Name: "where", Usage: "only rows that match this condition, in the language of rules, on type, entity, number, detail, by, place, event, reason"},
	}
}

// selectionFlags returns the flags that select events for commands with a directory as argument.
func selectionFlags() []cli.Flag {
	return append([]cli.Flag{&cli.StringFlag{Name: "entity", Usage: "only events of this entity, of a sub-queue such as orders/$dlq, or of a message such as orders#88114"}}, spanFlags()...)
}

// selectedRange returns the selection of selectionFlags; nil: all events.
func selectedRange(c *cli.Context) (*ledger.Range, error) {
	q, err := parse(c, "events", questionValues(c))
	if err != nil {
		return nil, err
	}
	r := q.Range()
	if text := c.String("entity"); text != "" {
		of, err := address.Parse(text)
		if err == nil && of.Place {
			err = fmt.Errorf("%s is a place in a log, not an entity", of)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("--entity: %w", err)}
		}
		// a message, in any of its sub-queues
		if r.Entity, r.Number = of.String(), of.Number; of.Number != 0 {
			r.Entity = of.Entity
		}
	}
	if r.Since == nil && r.Until == nil && r.Entity == "" && r.MessageID == "" && r.Types == nil && r.Where == "" {
		return nil, nil
	}
	return &r, nil
}

func auditCommand() *cli.Command {
	return &cli.Command{
		Name:      "audit",
		Usage:     "list who created, changed, deleted and purged entities, when and why",
		ArgsUsage: "[ENTITY]",
		Description: "   ledgerbus audit --since 24h\n" +
			"   ledgerbus audit orders -o json" + dataHelp,
		Flags:  historyFlags(spanFlags()...),
		Action: func(c *cli.Context) error { return ask(c, "entity") },
	}
}

func eventsCommand() *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "list the events of all partitions in one sequence",
		ArgsUsage: "[ENTITY]",
		Description: "   ledgerbus events orders --where \"type IN ('lost', 'dead', 'refused')\"\n" +
			"   ledgerbus events --since 02:50 --until 02:55 --where \"by LIKE '%10.0.4.17%'\" -o csv\n" +
			"   ledgerbus events -f --where \"type IN ('lost', 'dead')\"\n" +
			"   ledgerbus events 'orders/$dlq' --since 24h\n\n" +
			"On a terminal the command stops after 200 events, unless --since or --until is given, and prints how to\n" +
			"continue." + dataHelp,
		Flags: append(historyFlags(spanFlags()...), &cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "print new events as they happen, starting now or at --since"},
			priorityFlag()),
		Action: func(c *cli.Context) error {
			if !c.Bool("follow") {
				return ask(c, "entity")
			}
			q, err := question(c, "events", questionValues(c), "entity")
			if err != nil {
				return err
			}
			return followEvents(c, q)
		},
	}
}
