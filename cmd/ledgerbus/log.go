package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

const verifyHelp = "Reads all there is and replays it. A line for each partition, and one for each damaged place:\n\n" +
	"  ok partition 0 LSN 8 to 4096 ...     the broker would serve it\n" +
	"  tail partition 0 ...                 what its next start would cut off; it was never acknowledged\n" +
	"  DAMAGED partition 0 file \"partitions/00/wal/0000000001/00000000000000000001\" byte 1032 LSN 1040: \"why\"\n" +
	"  refused partition 0: ...             the broker would not serve it: the verdict is that of a start\n" +
	"  unsound partition 0: ...             every frame is good, but an event, or a checkpoint, does not fit the others\n" +
	"  unused file ...                      a checkpoint or note that cannot be used; the next start is slower, no more\n" +
	"  erased file ...                      history no longer keeps all bodies of its frames, which are good\n\n" +
	"A start stops at the first damage of a partition. This goes on after it, at the next frame that says it belongs there, in the\n" +
	"same file and in later ones, so that the lines name all damage; a damaged stretch without a good frame in it is one place.\n" +
	"\"partition all\", null in JSON, is a file that concerns all partitions; the other lines then tell how each looks without it.\n" +
	"Needs the memory that a broker needs for the waiting messages of one partition, and little more."

const (
	besideHelp = "While a broker uses the directory, the log is read up to about a second before the command began; stderr says how far. " + besideEnds
	besideEnds = "What is printed\n" +
		"is as if the log ended there, and the broker does not wait for it. If another broker is started meanwhile, the command says so and ends\n" +
		"with exit code 3."
)

func logCommand() *cli.Command {
	return &cli.Command{
		Name:  "log",
		Usage: "look into the log of a data directory, whether a broker runs on it or not",
		Description: "Works on the data directory of a broker, running or not, or on a copy that was made while none ran: in a copy of a directory\n" +
			"that is being written to, files may not fit each other (ledgerbus backup makes one that does). Nothing is ever changed.\n" +
			"Exit codes: 0 success, 3 a broker was started meanwhile, 4 damage, 5 cannot be read, 7 made by a newer version.",
		Subcommands: []*cli.Command{
			{
				Name:      "dump",
				Usage:     "print everything that happened, one event per line",
				ArgsUsage: "DIR",
				Description: "Shows place, time, entity, event and who asked. Bodies of messages are left out unless asked for, and so are zero values:\n" +
					"docs/guide/log-dump.md says how each field is printed.\n" +
					"Of a damaged partition nothing is printed. Needs memory for one frame, however long the log.\n" + besideHelp,
				Flags: append([]cli.Flag{
					output.Flag(output.Text, output.JSON),
					liveFlag(),
					&cli.IntFlag{Name: "partition", Value: -1, DefaultText: "all", Usage: "number of the partition to print"},
					&cli.StringFlag{Name: "from", Usage: "first frame to print: its LSN, or its place, as in @0/1839977, which names the partition as well", DefaultText: "the first there is"},
					&cli.BoolFlag{Name: "bodies", Usage: "print message bodies too, or that they are erased"},
				}, selectionFlags()...),
				Action: dumpLog,
			},
			{
				Name:        "verify",
				Usage:       "compare every checksum, name every damaged place",
				ArgsUsage:   "DIR",
				Description: verifyHelp + "\n" + besideHelp,
				Flags:       []cli.Flag{output.Flag(output.Text, output.JSON), liveFlag()},
				Action:      verifyLog,
			},
			listCommand(),
			statCommand(),
			mirrorCommand(),
			exportCommand(),
		},
	}
}

func liveFlag() cli.Flag {
	return &cli.BoolFlag{Name: "live", Usage: "read as beside a running broker even if none uses the directory, so that one can start meanwhile"}
}

// beside is how a command reads a directory that a broker may be using.
func beside(c *cli.Context) tools.Beside {
	return tools.Beside{Live: c.Bool("live"), Notes: c.App.ErrWriter}
}

func dumpLog(c *cli.Context) error {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	within, err := selected(c)
	if err != nil {
		return err
	}
	partition, from, err := firstFrame(c)
	if err != nil {
		return err
	}
	err = tools.Dump(c.App.Writer, dir, tools.DumpOptions{
		Partition: partition, From: from, JSON: output.Of(c).Format == output.JSON, Bodies: c.Bool("bodies"), Range: within, Beside: beside(c)})
	if errors.Is(err, tools.ErrNoPartition) {
		return usageError{err}
	}
	return known(err)
}

// firstFrame is where --from has a dump begin, and in which partition; -1: in all of them.
func firstFrame(c *cli.Context) (partition int, from event.LSN, err error) {
	partition = c.Int("partition")
	text := c.String("from")
	if text == "" {
		return partition, 0, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return partition, event.LSN(n), nil
	}
	of, err := address.Parse(text)
	switch {
	case err == nil && !of.Place:
		err = fmt.Errorf("%s is no place in a log: one is an LSN, or partition and LSN, as in @0/1839977", of)
	case err == nil && partition >= 0 && partition != int(of.Partition):
		err = fmt.Errorf("%s is not in partition %d", of, partition)
	}
	if err != nil {
		return 0, 0, usageError{fmt.Errorf("--from: %w", err)}
	}
	return int(of.Partition), of.LSN, nil
}

func verifyLog(c *cli.Context) error {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	found, err := tools.Verify(c.App.Writer, dir, tools.VerifyOptions{JSON: output.Of(c).Format == output.JSON, Beside: beside(c)})
	if err != nil {
		return err
	}
	if found.Places > 0 {
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
