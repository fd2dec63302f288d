package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func sessionsCommand() *cli.Command {
	return &cli.Command{
		Name: "sessions", Usage: "list the sessions of an entity, with their messages and holders", ArgsUsage: "ENTITY",
		Description: "   ledgerbus sessions carts\n   ledgerbus sessions carts -o csv" + presentHelp,
		Flags: connectionFlags(append(presentFlags(), output.Flag(),
			&cli.IntFlag{Name: "top", Usage: "print at most this many sessions", DefaultText: "all"})...),
		Action: func(c *cli.Context) error {
			if err := arguments(c, 1, 1, "the path of a queue or a subscription"); err != nil {
				return err
			}
			if c.IsSet("top") && c.Int("top") < 1 {
				return usageError{fmt.Errorf("--top is %d, and must be at least 1", c.Int("top"))}
			}
			return withPresence(c, func(ctx context.Context, of presence) error {
				list, err := sessionsOf(ctx, of, c.Args().First(), c.Int("top"))
				if err != nil {
					return err
				}
				return printSessions(output.Of(c), &list)
			})
		},
	}
}

// sessionsOf returns the first most sessions of an entity, 0 for all, page by page.
func sessionsOf(ctx context.Context, of presence, path string, most int) (all rows.Sessions, err error) {
	var after *string
	for {
		top := rows.Max
		if most > 0 {
			top = min(most-len(all.Sessions), rows.Max)
		}
		page, err := of.Sessions(ctx, path, top, after)
		if err != nil {
			return all, err
		}
		found := append(all.Sessions, page.Sessions...)
		all, after = page, page.Next
		if all.Sessions = found; after == nil || len(found) == most {
			return all, nil
		}
	}
}

// printSessions prints sessions as rows.
func printSessions(p *output.Printer, list *rows.Sessions) error {
	for _, id := range list.Missing {
		fmt.Fprintf(p.Notes, "partition %d does not serve; its sessions are missing\n", id)
	}
	return output.Rows(p, list.Sessions, func(s rows.Session) print.Object {
		holder := output.Shown{}
		if h := s.Holder; h != nil {
			holder = output.Shown{Text: fmt.Sprintf("%s %s connection %d", h.Remote, h.Client, h.Connection), Value: h}
		}
		return print.Object{
			print.Named("session", s.ID), print.Named("active", s.Active), print.Named("locked", s.Locked),
			print.Named("lockedUntil", timeOrNone(s.LockedUntil)), print.Named("stateSize", s.StateSize), print.Named("stateSetAt", timeOrNone(s.StateSetAt)), print.Named("holder", holder),
		}
	})
}

// timeOrNone returns a time as a value that JSON omits if there is none.
func timeOrNone(t *time.Time) output.Shown {
	if t == nil {
		return output.Shown{}
	}
	return output.Shown{Text: when(t), Value: when(t)}
}
