package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
)

func logCommand() *cli.Command {
	return &cli.Command{
		Name:  "log",
		Usage: "look into the log of a data directory; no broker needed",
		Description: "Works on the data directory of a broker that does not run, or on a copy. Nothing is ever changed.\n" +
			"Exit codes: 0 well, 3 a broker is using the directory, 4 damage, one line for each place.",
		Subcommands: []*cli.Command{
			{
				Name:        "dump",
				Usage:       "print everything that happened, one event per line",
				ArgsUsage:   "DIR",
				Description: "Place, time, entity, event and who asked. Bodies of messages are left out unless asked for.",
				Flags: []cli.Flag{
					outputFlag(),
					&cli.IntFlag{Name: "partition", Value: -1, DefaultText: "all", Usage: "number of the partition to print"},
					&cli.Uint64Flag{Name: "from", Usage: "LSN of the first frame to print", DefaultText: "the first there is"},
					&cli.BoolFlag{Name: "bodies", Usage: "print message bodies too"},
				},
				Action: dumpLog,
			},
			{
				Name:        "verify",
				Usage:       "compare every checksum",
				ArgsUsage:   "DIR",
				Description: "Gives the verdict that the broker's start would give.",
				Action:      verifyLog,
			},
		},
	}
}

func dumpLog(c *cli.Context) error {
	inJSON, err := asJSON(c)
	if err != nil {
		return err
	}
	dir, err := directory(c)
	if err != nil {
		return err
	}
	return tools.Dump(c.App.Writer, dir, tools.DumpOptions{
		Partition: c.Int("partition"), From: event.LSN(c.Uint64("from")), JSON: inJSON, Bodies: c.Bool("bodies")})
}

func verifyLog(c *cli.Context) error {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	found, err := tools.Verify(c.App.Writer, dir)
	if err != nil {
		return err
	}
	if len(found.Damaged) > 0 {
		return errDamaged
	}
	return nil
}

// directory is the one argument of the commands on a data directory.
func directory(c *cli.Context) (string, error) {
	if c.Args().Len() != 1 {
		return "", usageError{fmt.Errorf("which data directory? %s DIR", c.Command.HelpName)}
	}
	dir := c.Args().First()
	if info, err := os.Stat(dir); err != nil {
		return "", usageError{err}
	} else if !info.IsDir() {
		return "", usageError{errors.New(dir + " is not a directory")}
	}
	return dir, nil
}
