package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// foldSorts lists the sorts in help, in two lines.
func foldSorts() string {
	names := present.Sorts()
	half := len(names) / 2
	return strings.Join(names[:half], ", ") + ",\n" + strings.Join(names[half:], ", ")
}

// listPresent prints the entities of a kind with their counts, ages and rates.
func listPresent(c *cli.Context, kind event.EntityKind) error {
	q := rows.Query{Kind: strings.ToLower(kind.String()), Prefix: c.String("prefix"), Sort: c.String("sort")}
	if topic := c.Args().First(); topic != "" {
		q.Prefix = admin.SubscriptionPath(topic, q.Prefix)
	}
	if c.IsSet("top") && c.Int("top") < 1 {
		return usageError{fmt.Errorf("--top is %d, and must be at least 1", c.Int("top"))}
	}
	return withPresence(c, func(ctx context.Context, of presence) error {
		found, at, err := entitiesOf(ctx, of, q, c.Int("top"))
		if err != nil {
			return err
		}
		return printEntities(output.Of(c), found, at, q.Sort)
	})
}

// entitiesOf returns the first most entities, 0 for all, page by page, and the time of the last
// page.
func entitiesOf(ctx context.Context, of presence, q rows.Query, most int) (found []rows.Entity, at time.Time, err error) {
	for {
		q.Top = rows.Max
		if most > 0 {
			q.Top = min(most-len(found), rows.Max)
		}
		page, err := of.Entities(ctx, q)
		if err != nil {
			return nil, at, err
		}
		found, at, q.After = append(found, page.Entities...), page.At, page.Next
		if q.After == "" || len(found) == most {
			return found, at, nil
		}
	}
}

// presentColumns are the columns of the table of entities with their counts.
var presentColumns = []string{"name", "status", "active", "locked", "deferred", "scheduled", "deadLetter", "oldest", "received", "delivered", "completed"}

// printEntities prints entities with their counts at a time. A table also has the column that they
// are sorted by.
func printEntities(p *output.Printer, found []rows.Entity, at time.Time, sort string) error {
	columns := slices.Clone(presentColumns)
	if len(found) > 0 && found[0].Rates == nil {
		columns = columns[:len(columns)-3]
	}
	for _, f := range presentRow(&rows.Entity{}, at) {
		if strings.EqualFold(f.Name, sort) && !slices.Contains(columns, f.Name) {
			columns = append(columns, f.Name)
		}
	}
	if err := output.Rows(p, found, func(e rows.Entity) print.Object { return presentRow(&e, at) }, columns...); err != nil {
		return err
	}
	missing := map[int]bool{}
	for i := range found {
		for _, id := range found[i].Missing {
			if !missing[id] {
				missing[id] = true
				fmt.Fprintf(p.Notes, "partition %d does not serve; its messages are not counted\n", id)
			}
		}
	}
	return nil
}

// presentRow returns an entity with its counts at a time as a row. People see how old messages are,
// programs see when they were enqueued.
func presentRow(e *rows.Entity, at time.Time) print.Object {
	r := print.Object{
		print.Named("name", e.Path), print.Named("kind", e.Kind), print.Named("status", e.Status), print.Named("messages", e.Messages), print.Named("active", e.Active), print.Named("locked", e.Locked),
		print.Named("deferred", e.Deferred), print.Named("scheduled", e.Scheduled), print.Named("deadLetter", e.DeadLetter), print.Named("transfer", e.Transfer),
		print.Named("transferDeadLetter", e.TransferDeadLetter), print.Named("sizeBytes", e.SizeBytes),
		print.Named("oldest", ageOf(e.Oldest, at)), print.Named("oldestDeadLetter", ageOf(e.OldestDeadLetter, at)),
	}
	rate := func(name string, of func(*rows.Rates) float64) {
		shown := output.Shown{}
		if e.Rates != nil {
			n := of(e.Rates)
			shown = output.Shown{Text: perSecond(n), Value: math.Round(10*n) / 10}
		}
		r = append(r, print.Named(name, shown))
	}
	rate("received", func(r *rows.Rates) float64 { return r.Received })
	rate("delivered", func(r *rows.Rates) float64 { return r.Delivered })
	rate("completed", func(r *rows.Rates) float64 { return r.Completed })
	rate("failed", func(r *rows.Rates) float64 { return r.Failed })
	rate("died", func(r *rows.Rates) float64 { return r.Died })
	return r
}

// perSecond returns a rate for people.
func perSecond(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 10:
		return fmt.Sprintf("%.1f/s", n)
	}
	return fmt.Sprintf("%.0f/s", n)
}

// ageOf returns the age of a time at another one: a duration for people, the time for programs.
func ageOf(t *time.Time, at time.Time) output.Shown {
	if t == nil {
		return output.Shown{}
	}
	return output.Shown{Text: roughly(at.Sub(*t)), Value: when(t)}
}

// roughly returns a duration with its two largest units.
func roughly(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
