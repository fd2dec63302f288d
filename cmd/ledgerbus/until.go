package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// untilEvery is the pause between two looks at the counts.
const untilEvery = 200 * time.Millisecond

func untilCommand() *cli.Command {
	return &cli.Command{
		Name:      "until",
		Usage:     "wait until a condition on counts of messages is true",
		ArgsUsage: "CONDITION",
		Description: "For scripts. A condition compares counts of entities, as in ledgerbus when: messages, active, dead, scheduled,\n" +
			"transfer, transferdead, locked, deferred, size. The exit code is 0 as soon as all comparisons are true at one\n" +
			"look, and 1 if they are not within the timeout. A broker that does not answer is asked again until then.\n" +
			"Counts contain only what is durable. Messages includes dead-lettered and scheduled messages, active includes locked and deferred ones: a\n" +
			"queue is drained when its active is 0.\n\n" +
			"   ledgerbus until 'orders.active = 0' --timeout 30s\n" +
			"   ledgerbus until 'orders.active >= 10 AND orders/$dlq.messages = 0'",
		Flags: connectionFlags(&cli.GenericFlag{Name: "timeout", Usage: "how long to wait, such as 90s or 10m, or unlimited", Value: &quantity.DurationFlag{Value: time.Minute, Takes: quantity.Durations{Unlimited: true}}}),
		Action: func(c *cli.Context) error {
			if err := arguments(c, 1, 1, "one CONDITION, in quotes"); err != nil {
				return err
			}
			wants, err := ledger.ParseComparisons(c.Args().First())
			if err == nil {
				err = countable(wants)
			}
			if err != nil {
				return usageError{err}
			}
			return administer(c, func(a *administration) error {
				return withBrokerExitCode(waitUntil(a.ctx, a.Entity, wants, program.DurationOf(c, "timeout")))
			})
		},
	}
}

// countable refuses comparisons of counts that the answer about an entity does not have.
func countable(wants []ledger.Comparison) error {
	for i := range wants {
		if w := &wants[i]; w.Queue != event.Main && w.Count != "messages" {
			return fmt.Errorf("%s: of a sub-queue only messages can be awaited", w)
		}
	}
	return nil
}

// waitUntil looks at the entities of some comparisons until all are true.
func waitUntil(ctx context.Context, look func(context.Context, string) (rows.Entity, error), wants []ledger.Comparison, timeout time.Duration) error {
	late := time.After(timeout) // unlimited: in some centuries
	tick := time.NewTicker(untilEvery)
	defer tick.Stop()
	for {
		unmet, err := compare(ctx, look, wants)
		if isUnavailable(err) { // it may be starting
			unmet, err = []string{err.Error()}, nil
		}
		if err != nil || len(unmet) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("not true within %s: %s", quantity.FormatDuration(timeout), strings.Join(unmet, "; "))
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
}

// compare returns the comparisons that are not true, each with the count that it found.
func compare(ctx context.Context, look func(context.Context, string) (rows.Entity, error), wants []ledger.Comparison) (unmet []string, err error) {
	seen := map[string]*rows.Entity{}
	for i := range wants {
		w := &wants[i]
		e := seen[w.Path]
		if e == nil {
			found, err := look(ctx, w.Path)
			if err != nil {
				return nil, err
			}
			e = &found
			seen[w.Path] = e
		}
		n := countOf(e, w)
		switch {
		case len(e.Missing) > 0:
			unmet = append(unmet, fmt.Sprintf("%s (partition %d of it does not serve)", w, e.Missing[0]))
		case !w.IsMet(n):
			unmet = append(unmet, fmt.Sprintf("%s (it is %d)", w, n))
		}
	}
	return unmet, nil
}

// countOf returns the count of an entity that a comparison is about.
func countOf(e *rows.Entity, w *ledger.Comparison) int {
	switch w.Queue {
	case event.DeadLetter:
		return e.DeadLetter
	case event.TransferDeadLetter:
		return e.TransferDeadLetter
	}
	return map[string]int{
		"messages": e.Messages, "active": e.Active, "dead": e.DeadLetter, "scheduled": e.Scheduled, "transfer": e.Transfer,
		"transferdead": e.TransferDeadLetter, "locked": e.Locked, "deferred": e.Deferred, "size": int(e.SizeBytes),
	}[w.Count]
}
