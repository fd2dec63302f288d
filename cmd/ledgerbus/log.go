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

const verifyHelp = "Reads and replays the whole log. Prints a line for each partition and for each damaged place:\n\n" +
	"  ok partition 0 LSN 8 to 4096 ...     the broker would serve it\n" +
	"  tail partition 0 ...                 the next start would cut this off; it was never acknowledged\n" +
	"  DAMAGED partition 0 file \"partitions/00/wal/0000000001/00000000000000000001\" byte 1032 LSN 1040: \"why\"\n" +
	"  refused partition 0: ...             a start would refuse to serve it\n" +
	"  unsound partition 0: ...             every frame is intact, but an event or a checkpoint does not fit the others\n" +
	"  unused file ...                      an unusable checkpoint or note; it only makes the next start slower\n" +
	"  erased file ...                      history no longer keeps all bodies of its frames, which are intact\n\n" +
	"A start stops at the first damage of a partition. This command continues at the next frame that belongs\n" +
	"there, in the same file and in later files, so that it reports all damage. A damaged stretch that contains\n" +
	"no intact frame is one place. \"partition all\", null in JSON, is a file that concerns all partitions; the\n" +
	"other lines then show each partition without it. The command needs little more memory than a broker needs\n" +
	"for the waiting messages of one partition."

const (
	besideHelp = "\n\nIf a broker is using the directory, the log is read up to about a second before the command started, and the\n" +
		"limit is printed on standard error. " + besideEnds
	besideEnds = "The output is complete up to that point; the broker does not wait for the\n" +
		"command. If another broker starts meanwhile, the command reports it and ends with exit code 3."
)

func logCommand() *cli.Command {
	return &cli.Command{
		Name:  "log",
		Usage: "inspect the log of a data directory, with or without a running broker",
		Description: "Works on the data directory of a running or stopped broker, or on a copy made while no broker ran. In a\n" +
			"copy of a directory that is being written, files may not fit each other; ledgerbus backup makes a\n" +
			"consistent copy. Nothing is changed.\n\n" +
			"Exit codes: 0 success, 3 a broker was started meanwhile, 4 damage, 5 cannot be read, 7 made by a newer version.",
		Subcommands: []*cli.Command{
			{
				Name:      "dump",
				Usage:     "print all events, one per line",
				ArgsUsage: "DIR",
				Description: "Shows place, time, entity, event and origin. Message bodies are omitted unless --bodies is given, and zero\n" +
					"values are omitted; docs/guide/log-dump.md describes how each field is printed. A damaged partition is not\n" +
					"printed. The command needs memory for one frame, regardless of the length of the log." + besideHelp,
				Flags: append([]cli.Flag{
					output.Flag(output.Text, output.JSON),
					liveFlag(),
					&cli.IntFlag{Name: "partition", Value: -1, DefaultText: "all", Usage: "number of the partition to print"},
					&cli.StringFlag{Name: "from", Usage: "first frame to print: an LSN, or a place such as @0/1839977, which also selects the partition", DefaultText: "the first there is"},
					&cli.BoolFlag{Name: "bodies", Usage: "also print message bodies, and which are erased"},
				}, selectionFlags()...),
				Action: dumpLog,
			},
			{
				Name:        "verify",
				Usage:       "check every checksum and report every damaged place",
				ArgsUsage:   "DIR",
				Description: verifyHelp + besideHelp,
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
	return &cli.BoolFlag{Name: "live", Usage: "read as if a broker were running, so that one can start meanwhile"}
}

// beside returns the options for reading a directory that a broker may be using.
func beside(c *cli.Context) tools.Beside {
	return tools.Beside{Live: c.Bool("live"), Notes: c.App.ErrWriter}
}

func dumpLog(c *cli.Context) error {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	within, err := selectedRange(c)
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
	return withQuestionExitCode(err)
}

// firstFrame returns the frame at which --from starts a dump, and its partition; -1: all
// partitions.
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
		err = fmt.Errorf("%s is not a place in a log: use an LSN, or partition and LSN as in @0/1839977", of)
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

// directory returns the argument DIR of the commands on a data directory.
func directory(c *cli.Context) (string, error) {
	if c.Args().Len() != 1 {
		return "", usageError{fmt.Errorf("missing DIR; usage: %s DIR", c.Command.HelpName)}
	}
	dir := c.Args().First()
	if info, err := os.Stat(dir); err != nil {
		return "", usageError{err}
	} else if !info.IsDir() {
		return "", usageError{errors.New(dir + " is not a directory")}
	}
	return dir, nil
}
