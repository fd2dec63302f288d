package main

import (
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func messageCommand() *cli.Command {
	return &cli.Command{
		Name:  "message",
		Usage: "erase the body of a message from a broker's log",
		Description: "Works only with Ledgerbus brokers, with a key that has the right Manage.\n\n" +
			"   ledgerbus message erase 'orders#17' --reason 'a customer asked'",
		Subcommands: []*cli.Command{{
			Name: "erase", Usage: "erase the body of a settled message", ArgsUsage: "ENTITY#NUMBER | ENTITY NUMBER",
			Description: "Keeps the history of the message, with the size and the checksum of the body. The body is gone when the\n" +
				"command ends. The log records who requested this and why. A message that is still waiting must be settled\n" +
				"first. Copies elsewhere are not erased, such as copies in backups and in entities that the message was\n" +
				"forwarded to. If the body cannot be erased yet, for example because its part of the log is not sealed, the\n" +
				"command fails and says so. The broker then erases the body as soon as it can, and audit shows when.\n\n" +
				"   ledgerbus message erase 'orders#17' --reason 'a customer asked'",
			Flags: connectionFlags(output.Flag(), reasonFlag()), Action: eraseMessage,
		}},
	}
}

// messageArgument returns the message in the arguments: an address such as orders#17, or an entity
// and a number.
func messageArgument(args cli.Args) (entity string, number int64, err error) {
	switch args.Len() {
	case 1:
		of, err := address.Parse(args.First())
		if err == nil && of.Number == 0 {
			err = strconv.ErrSyntax
		}
		return of.Entity, int64(of.Number), err
	case 2:
		if number, err = strconv.ParseInt(args.Get(1), 10, 64); err == nil && number <= 0 {
			err = strconv.ErrRange
		}
		return args.First(), number, err
	}
	return "", 0, strconv.ErrSyntax
}

func eraseMessage(c *cli.Context) error {
	entity, which, err := messageArgument(c.Args())
	if err != nil {
		return usageError{fmt.Errorf("missing or invalid message; usage: %s ENTITY#NUMBER, with the sequence number that log dump and receivers show", c.Command.HelpName)}
	}
	return administer(c, func(a *administration) error {
		m, err := a.EraseMessage(a.ctx, entity, which)
		if err != nil {
			return err
		}
		said := fmt.Sprintf("erased the body of message %d in %s: %d bytes", m.Sequence, m.Entity, m.Bytes)
		if m.Before {
			said = fmt.Sprintf("the body of message %d in %s was already erased", m.Sequence, m.Entity)
		}
		return output.Of(c).Said(said, print.Object{print.Named("entity", m.Entity), print.Named("sequence", m.Sequence), print.Named("bytes", uint64(m.Bytes)),
			print.Named("before", strconv.FormatBool(m.Before))})
	})
}
