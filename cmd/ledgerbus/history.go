package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func historyCommand() *cli.Command {
	const args = "PATTERN"
	return &cli.Command{
		Name: "history", Usage: "show and change how long history is kept",
		Subcommands: []*cli.Command{{
			Name: "policy", Usage: "show and change how long unneeded events and bodies are kept",
			Description: "A policy applies to all entities that match its pattern; a star matches any characters. The most specific\n" +
				"policy has priority. A value that it does not set comes from the next policy, and finally from the\n" +
				"policy of the namespace, which the settings of serve define. See docs/guide/history.md. Works only with\n" +
				"Ledgerbus brokers and needs a key with the right Manage.\n\n" +
				"   ledgerbus history policy list",
			Subcommands: []*cli.Command{
				{
					Name: "list", Usage: "print the policies, the most specific first, and the policy of the namespace",
					Description: "   ledgerbus history policy list\n   ledgerbus history policy list -o json",
					Flags:       connectionFlags(output.Flag()), Action: listHistoryPolicies,
				},
				{
					Name: "set", Usage: "set how long the history of matching entities is kept", ArgsUsage: args,
					Description: "Replaces the policy of the pattern. A retention is a duration such as 7d or 36h, none to keep nothing, or\n" +
						"unlimited to keep everything. A retention that is not given comes from the next policy that matches.\n\n" +
						"   ledgerbus history policy set 'orders/*' --bodies none --reason 'personal data'\n" +
						"   ledgerbus history policy set audit --events unlimited --bodies 365d",
					Flags: connectionFlags(output.Flag(), reasonFlag(),
						&cli.StringFlag{Name: "events", Usage: "how long to keep events that no longer affect any message"},
						&cli.StringFlag{Name: "bodies", Usage: "how long to keep bodies of messages that were completed, received and deleted, expired or cancelled"},
						&cli.StringFlag{Name: "undo", Usage: "how long to keep messages that were purged, deleted in a batch or deleted with their entity"}),
					Action: setHistoryPolicy,
				},
				{
					Name: "delete", Usage: "delete the policy of a pattern", ArgsUsage: args,
					Description: "From then on the next matching policy applies. It may keep less, and removed history cannot be restored.\n" +
						"The command asks for the pattern; scripts pass it with --confirm.\n\n" +
						"   ledgerbus history policy delete 'orders/*' --confirm 'orders/*'",
					Flags: connectionFlags(output.Flag(), confirmFlag(), reasonFlag()), Action: deleteHistoryPolicy,
				},
			},
		}},
	}
}

func listHistoryPolicies(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	return administer(c, func(a *administration) error {
		all, err := a.HistoryPolicies(a.ctx)
		if err != nil {
			return err
		}
		return printPolicies(c, all)
	})
}

func setHistoryPolicy(c *cli.Context) error {
	p := wire.HistoryPolicy{Events: c.String("events"), Bodies: c.String("bodies"), Undo: c.String("undo")}
	for _, text := range []string{p.Events, p.Bodies, p.Undo} {
		if _, err := event.ParseRetention(text); err != nil && text != "" {
			return usageError{err}
		}
	}
	if p.Events == "" && p.Bodies == "" && p.Undo == "" {
		return usageError{errors.New("missing retention: give at least one of --events, --bodies and --undo")}
	}
	return onPattern(c, func(a *administration, pattern string) (wire.HistoryPolicies, error) {
		p.Pattern = pattern
		return a.SetHistoryPolicy(a.ctx, p)
	})
}

func deleteHistoryPolicy(c *cli.Context) error {
	return onPattern(c, func(a *administration, pattern string) (all wire.HistoryPolicies, err error) {
		if err := confirm(c, pattern, "this removes the history policy of "+pattern+", and its history may become shorter"); err != nil {
			return all, err
		}
		return a.DeleteHistoryPolicy(a.ctx, pattern)
	})
}

// onPattern changes the policy of the pattern argument and prints the resulting policies.
func onPattern(c *cli.Context, do func(a *administration, pattern string) (wire.HistoryPolicies, error)) error {
	if c.Args().Len() != 1 || c.Args().First() == "" {
		return usageError{fmt.Errorf("missing PATTERN; usage: %s PATTERN, such as 'orders/*'", c.Command.HelpName)}
	}
	return administer(c, func(a *administration) error {
		all, err := do(a, c.Args().First())
		if err != nil {
			return err
		}
		return printPolicies(c, all)
	})
}

// printPolicies prints the policies of patterns, the most specific first, and then the policy of
// the namespace, which has no pattern.
func printPolicies(c *cli.Context, all wire.HistoryPolicies) error {
	return output.Rows(output.Of(c), append(all.Policies, all.Namespace.HistoryPolicy), func(p wire.HistoryPolicy) print.Object {
		share, beforeSends := "", ""
		if p.Pattern == "" {
			share, beforeSends = strconv.Itoa(all.Namespace.Share), strconv.FormatBool(all.Namespace.BeforeSends)
		}
		return print.Object{print.Named("pattern", p.Pattern), print.Named("events", p.Events), print.Named("bodies", p.Bodies), print.Named("undo", p.Undo),
			print.Named("share", share), print.Named("before-sends", beforeSends)}
	})
}
