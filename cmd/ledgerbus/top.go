package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// clearScreen moves the cursor of a terminal to the top left and clears everything below it.
const clearScreen = "\x1b[H\x1b[J"

func topCommand() *cli.Command {
	return &cli.Command{
		Name: "top", Usage: "show the state of the broker and its worst entities, refreshed on a terminal",
		Description: "The first lines show lasting conditions, sums and rates of all entities, and the oldest message that can be\n" +
			"received. The table shows the entities that come first in the order of --sort: by default those with the\n" +
			"oldest messages. If the output is not a terminal, everything is printed once.\n\n" +
			"   ledgerbus top\n   ledgerbus top --sort deadLetter --top 10\n\n" +
			"The sorts are " + foldSorts() + "." + presentHelp,
		Flags: connectionFlags(append(presentFlags(),
			&cli.StringFlag{Name: "sort", Value: "oldest", Usage: "column to sort by: the largest values, or the oldest times, come first"},
			&cli.IntFlag{Name: "top", Value: 20, Usage: "number of entities, 1 to 200"},
			&cli.GenericFlag{Name: "every", Usage: "time between refreshes", Value: &quantity.DurationFlag{Value: 2 * time.Second, Takes: quantity.Durations{Least: 100 * time.Millisecond}}},
			&cli.BoolFlag{Name: "once", Usage: "print once, even on a terminal"})...),
		Action: top,
	}
}

func top(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	q := rows.Query{Sort: c.String("sort"), Top: c.Int("top")}
	if q.Top < 1 || q.Top > rows.Max {
		return usageError{fmt.Errorf("--top is %d, and must be 1 to %d", q.Top, rows.Max)}
	}
	once := c.Bool("once") || c.IsSet("data") || !currentAudience().out
	again := pollLoop{every: program.DurationOf(c, "every"), once: once, what: "top", notes: c.App.ErrWriter}
	return withPresence(c, func(ctx context.Context, of presence) error {
		return again.run(ctx, func() error {
			var screen bytes.Buffer
			if !once {
				screen.WriteString(clearScreen)
			}
			if err := drawTop(ctx, &screen, of, q); err != nil {
				return err
			}
			_, err := c.App.Writer.Write(screen.Bytes())
			return err
		})
	})
}

// drawTop writes one refresh.
func drawTop(ctx context.Context, w io.Writer, of presence, q rows.Query) error {
	now, err := of.Now(ctx)
	if err != nil {
		return err
	}
	page, err := of.Entities(ctx, q)
	if err != nil {
		return err
	}
	for _, line := range topLines(&now) {
		fmt.Fprintln(w, output.OneLine(line))
	}
	fmt.Fprintln(w)
	return printEntities(output.New(w, w, output.Text), page.Entities, page.At, q.Sort)
}

// topLines describes the state of a namespace, from its health to its work.
func topLines(now *rows.Now) []string {
	first := when(&now.At) + "  the state at the end of the log; health, connections and rates are not recorded"
	if r := now.Running; r != nil {
		first = fmt.Sprintf("%s  ledgerbus %s, up %s, %s%s", when(&now.At), r.Version, roughly(now.At.Sub(r.StartedAt)), plural(r.Connections, "connection"), memoryLine(r.Memory))
	}
	lines := []string{first}
	if now.Running != nil {
		lines = append(lines, healthLine(now.Running.Conditions))
	}
	lines = append(lines, fmt.Sprintf("%d queues, topics and subscriptions with %s: active %d, locked %d, deferred %d, scheduled %d, dead %d",
		now.Entities, plural(now.Messages, "message"), now.Active, now.Locked, now.Deferred, now.Scheduled, now.DeadLetter+now.TransferDeadLetter))
	switch r := now.Rates; {
	case r != nil:
		lines = append(lines, fmt.Sprintf("received %s, delivered %s, completed %s, failed %s, died %s", perSecond(r.Received), perSecond(r.Delivered), perSecond(r.Completed), perSecond(r.Failed), perSecond(r.Died)))
	case now.Running != nil: // in the first seconds of a broker
		lines = append(lines, "received ?, delivered ?, completed ?, failed ?, died ?")
	}
	if o := now.Oldest; o != nil {
		lines = append(lines, fmt.Sprintf("oldest message: %s in %s", roughly(now.At.Sub(o.At)), o.Entity))
	}
	return lines
}

// memoryLine describes memory as the end of a line.
func memoryLine(m *rows.Memory) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(", memory %d of %d MiB", m.Used>>20, m.Limit>>20)
}

// healthLine describes the lasting conditions.
func healthLine(conditions []rows.Condition) string {
	if len(conditions) == 0 {
		return "healthy: no lasting condition"
	}
	var list []string
	for _, c := range conditions {
		text := c.State
		if c.Partition != nil {
			text = fmt.Sprintf("partition %d: %s", *c.Partition, text)
		}
		if c.Since != nil {
			text += " since " + when(c.Since)
		}
		if c.Cause != "" {
			text += " (" + c.Cause + ")"
		}
		list = append(list, text)
	}
	return "NOT HEALTHY: " + strings.Join(list, "; ")
}
