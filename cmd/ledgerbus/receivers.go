package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func receiversCommand() *cli.Command {
	return &cli.Command{
		Name: "receivers", Usage: "show the receivers of an entity and what each one waits for", ArgsUsage: "ENTITY",
		Description: "Since is when the receiver was attached. Credit is the number of messages that the client asks for now, passed\n" +
			"is the part of it that the partitions have, and in loop is the part that they report. Unsettled is the number\n" +
			"of messages that the client has not settled, locks the number that it has locked, and until the end of the\n" +
			"first of these locks or of its session's. A ? means unknown. Verdict is the reason why the next delivery\n" +
			"waits; docs/guide/waiting.md explains each one.\n\n" +
			"   ledgerbus receivers orders\n   ledgerbus receivers 'orders/$dlq'\n   ledgerbus receivers weather/Subscriptions/audit -o json\n" +
			"   ledgerbus receivers orders --data /var/lib/ledgerbus\n\n" +
			"Asks a broker, with a key that has the right ReadHistory or Manage. With --data it reads a backup or a data\n" +
			"directory instead, and shows the receivers that were attached at the end of the log; credit, unsettled and\n" +
			"verdict are not recorded there. Nothing is changed.",
		Flags:  connectionFlags(append(presentFlags(), output.Flag(output.Text, output.JSON))...),
		Action: receivers,
	}
}

func receivers(c *cli.Context) error {
	if err := arguments(c, 1, 1, "the path of a queue, a subscription, or a sub-queue such as orders/$dlq"); err != nil {
		return err
	}
	of, err := address.Parse(c.Args().First())
	if err != nil {
		return usageError{err}
	}
	if of.Place || of.Number != 0 || of.Entity == "" {
		return usageError{fmt.Errorf("%s is not the path of an entity; for a message use ledgerbus story '%s'", of, of)}
	}
	show := func(all rows.Receivers) error {
		if out := output.Of(c); out.Format == output.JSON {
			return out.Value(all)
		}
		return printReceivers(output.Of(c), all)
	}
	if c.IsSet("data") {
		return attachedReceivers(c, of.String(), show)
	}
	if c.Bool("live") {
		return usageError{errors.New("--live needs --data")}
	}
	path := of.Path()
	return administer(c, func(a *administration) error {
		all, err := a.Receivers(a.ctx, path)
		if err != nil {
			return err
		}
		return show(all)
	})
}

// attachedReceivers shows the receivers that were attached at the end of the logs of a directory.
func attachedReceivers(c *cli.Context, path string, show func(rows.Receivers) error) error {
	if err := refuseNamespaceFlags(c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return readDirectory(ctx, c, func(s log.Store) error {
		all, err := ledger.New(s, newAnswerPrinter(c, nil).printLine).Attached(ctx, path)
		if err != nil {
			return withQuestionExitCode(err)
		}
		return show(all)
	})
}

// printReceivers prints the common state, a table of the receivers, and the refused receivers.
func printReceivers(p *output.Printer, all rows.Receivers) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(output.OneLine(fmt.Sprintf(format, args...)) + "\n") }
	line("%s: %s", all.Entity, countMessages(&all))
	for _, why := range all.Why {
		line("%s", why)
	}
	if _, err := io.WriteString(p, b.String()); err != nil {
		return err
	}
	if len(all.Receivers) > 0 {
		row := receiverRow
		if all.NotRecorded != nil {
			row = attachedRow
		}
		if err := output.Rows(p, all.Receivers, row); err != nil {
			return err
		}
	}
	b.Reset()
	if all.More > 0 {
		line("more receivers: %d", all.More)
	}
	if all.LockedByClosed > 0 {
		line("messages locked by receivers that have left: %d", all.LockedByClosed)
	}
	if len(all.Silent) > 0 {
		line("connections that did not answer; their receivers may be missing: %d", len(all.Silent))
	}
	for _, r := range all.Refused {
		line("refused %s  %s  %s  %s: %s", when(&r.At), r.Remote, r.Client, r.Condition, r.Text)
	}
	for _, what := range all.Unknown {
		line("unknown: %s", what)
	}
	if all.NotRecorded != nil {
		line("at the end of the log, %s; not recorded: %s", when(&all.At), strings.Join(all.NotRecorded, ", "))
	}
	_, err := io.WriteString(p, b.String())
	return err
}

// countMessages lists the message states with their counts.
func countMessages(all *rows.Receivers) string {
	n := all.Messages
	if n == nil {
		return "? messages"
	}
	var list []string
	for _, c := range []struct {
		n    int
		what string
	}{
		{n.Active, "active"}, {n.DeadLetter, "dead-lettered"}, {n.TransferDeadLetter, "dead-lettered in transfer"},
		{n.Scheduled, "scheduled"}, {n.Transfer, "in transfer"},
	} {
		if c.n == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", c.n, c.what)
		if list == nil { // the sub-queue itself
			text += countParts(all)
		}
		list = append(list, text)
	}
	if list == nil {
		return "no messages"
	}
	return strings.Join(list, ", ")
}

// countParts returns how many messages of the sub-queue a receiver can get, and why not the others;
// "": it can get all.
func countParts(all *rows.Receivers) string {
	if all.Messages.Locked+all.Messages.Deferred == 0 {
		return ""
	}
	var parts []string
	if all.Available != nil {
		parts = append(parts, fmt.Sprintf("%d available", *all.Available))
	}
	if n := all.Messages.Locked; n > 0 {
		parts = append(parts, fmt.Sprintf("%d locked", n))
	}
	if n := all.Messages.Deferred; n > 0 {
		parts = append(parts, fmt.Sprintf("%d deferred", n))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// receiverRow returns a receiver of a running broker as a row.
func receiverRow(r rows.Receiver) print.Object {
	client := r.Client
	if client == "" {
		client = r.Container
	}
	return print.Object{
		print.Uint64("connection", r.Connection), print.String("from", r.Remote), print.String("client", client), print.String("by", r.By), timeOrUnknown("since", r.Since),
		fieldOrUnknown("credit", r.Credit), fieldOrUnknown("passed", r.Passed), fieldOrUnknown("inLoop", r.InLoop), fieldOrUnknown("unsettled", r.Unsettled),
		fieldOrUnknown("locks", r.Locks), print.String("until", when(r.LockedUntil)), print.String("session", textOrNone(r.Session)), print.String("verdict", r.Verdict),
	}
}

// attachedRow returns a receiver of a directory as a row.
func attachedRow(r rows.Receiver) print.Object {
	return print.Object{
		print.Uint64("connection", r.Connection), print.String("from", r.Remote), print.String("client", r.Client), print.String("container", r.Container), print.String("by", r.By),
		print.String("link", r.Link), timeOrUnknown("since", r.Since), fieldOrUnknown("locks", r.Locks), print.String("until", when(r.LockedUntil)),
		print.String("session", textOrNone(r.Session)),
	}
}

func timeOrUnknown(name string, t *time.Time) print.Field {
	if t == nil {
		return print.Named(name, output.Unknown)
	}
	return print.String(name, when(t))
}

func textOrNone(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func fieldOrUnknown[N int | int32](name string, n *N) print.Field {
	if n == nil {
		return print.Named(name, output.Unknown)
	}
	return print.Named(name, int64(*n))
}
