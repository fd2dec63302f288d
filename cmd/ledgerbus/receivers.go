package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func receiversCommand() *cli.Command {
	return &cli.Command{
		Name: "receivers", Usage: "show the receivers of an entity and what each one waits for", ArgsUsage: "ENTITY",
		Description: "Credit is the number of messages that the client asks for now, passed is the part of it that the partitions\n" +
			"have, and in loop is the part that they report. Unsettled is the number of messages that the client has not\n" +
			"settled. A ? means unknown. Verdict is the reason why the next delivery waits; docs/guide/waiting.md explains\n" +
			"each one. Works only with Ledgerbus brokers and needs a key with the right Manage.\n\n" +
			"   ledgerbus receivers orders\n   ledgerbus receivers 'orders/$dlq'\n   ledgerbus receivers weather/Subscriptions/audit -o json",
		Flags: connectionFlags(output.Flag(output.Text, output.JSON)), Action: receivers,
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
	path := of.Entity + map[event.SubQueue]string{event.DeadLetter: "/$DeadLetterQueue", event.TransferDeadLetter: "/$Transfer/$DeadLetterQueue"}[of.SubQueue]
	return administer(c, func(a *administration) error {
		all, err := a.Receivers(a.ctx, path)
		if err != nil {
			return err
		}
		out := output.Of(c)
		if out.Format == output.JSON {
			return out.Value(all)
		}
		return printReceivers(out, all)
	})
}

// printReceivers prints the common state, a table of the receivers, and the refused receivers.
func printReceivers(p *output.Printer, all wire.Receivers) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(output.OneLine(fmt.Sprintf(format, args...)) + "\n") }
	line("%s: %s", all.Entity, countMessages(all.Messages))
	for _, why := range all.Why {
		line("%s", why)
	}
	if _, err := io.WriteString(p, b.String()); err != nil {
		return err
	}
	if len(all.Receivers) > 0 {
		if err := output.Rows(p, all.Receivers, receiverRow); err != nil {
			return err
		}
	}
	b.Reset()
	if all.More > 0 {
		line("more receivers: %d", all.More)
	}
	if len(all.Silent) > 0 {
		line("connections that did not answer; their receivers may be missing: %d", len(all.Silent))
	}
	for _, r := range all.Refused {
		line("refused %s  %s  %s  %s: %s", when(&r.At), r.Remote, r.Client, r.Condition, r.Text)
	}
	_, err := io.WriteString(p, b.String())
	return err
}

// countMessages lists the message states with their counts.
func countMessages(n *wire.MessageCounts) string {
	if n == nil {
		return "? messages"
	}
	var list []string
	for _, c := range []struct {
		n    int
		what string
	}{
		{n.Active, "active"}, {n.Locked, "locked"}, {n.Deferred, "deferred"}, {n.Scheduled, "scheduled"}, {n.Transferring, "in transfer"},
		{n.DeadLettered, "dead-lettered"}, {n.TransferDeadLettered, "dead-lettered in transfer"},
	} {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if list == nil {
		return "no messages"
	}
	return strings.Join(list, ", ")
}

// receiverRow returns a receiver as a row.
func receiverRow(r wire.Receiver) print.Object {
	client, session := r.Client, ""
	if client == "" {
		client = r.Container
	}
	if r.Session != nil {
		session = *r.Session
	}
	return print.Object{
		print.Uint64("connection", r.Connection), print.String("from", r.Remote), print.String("client", client), print.String("by", r.By),
		fieldOrUnknown("credit", r.Credit), fieldOrUnknown("passed", r.Passed), fieldOrUnknown("inLoop", r.InLoop), fieldOrUnknown("unsettled", r.Unsettled),
		print.String("session", session), print.String("verdict", r.Verdict),
	}
}

func fieldOrUnknown[N int | int32](name string, n *N) print.Field {
	if n == nil {
		return print.Named(name, output.Unknown)
	}
	return print.Named(name, int64(*n))
}
