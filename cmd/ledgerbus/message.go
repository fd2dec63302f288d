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
			Name: "erase", Usage: "erase the body of a message that was settled", ArgsUsage: "ENTITY#NUMBER | ENTITY NUMBER",
			Description: "The history of the message stays, with the size and the checksum of the body; the body is gone when the command ends. Who asked for\n" +
				"that, and why, is an event of the log. A message that is still waiting has to be settled first. Copies elsewhere are not touched:\n" +
				"those in backups, and where the message was forwarded to. A body that cannot be erased now, such as one in a part of the log that\n" +
				"is not sealed yet, is erased by the broker as soon as it can: the command fails and says so, and audit shows when that is done.\n\n" +
				"   ledgerbus message erase 'orders#17' --reason 'a customer asked'",
			Flags: connectionFlags(output.Flag(), reasonFlag()), Action: eraseMessage,
		}},
	}
}

// oneMessage is the message that arguments name: by its address, as in orders#17, or by entity and
// number.
func oneMessage(args cli.Args) (entity string, number int64, err error) {
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
	entity, which, err := oneMessage(c.Args())
	if err != nil {
		return usageError{fmt.Errorf("which message? %s ENTITY#NUMBER, with the sequence number that log dump and receivers show", c.Command.HelpName)}
	}
	return administer(c, func(a *administration) error {
		m, err := a.EraseMessage(a.ctx, entity, which)
		if err != nil {
			return err
		}
		said := fmt.Sprintf("the body of message %d in %s is erased: %d bytes", m.Sequence, m.Entity, m.Bytes)
		if m.Before {
			said = fmt.Sprintf("the body of message %d in %s is gone already", m.Sequence, m.Entity)
		}
		return output.Of(c).Said(said, print.Object{print.Named("entity", m.Entity), print.Named("sequence", m.Sequence), print.Named("bytes", uint64(m.Bytes)),
			print.Named("before", strconv.FormatBool(m.Before))})
	})
}
