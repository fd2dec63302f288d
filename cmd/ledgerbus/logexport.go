package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/tools/export"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "export events as tables for other programs: JSON lines, CSV or Parquet",
		ArgsUsage: "DIR",
		Description: "The tables are events, messages, locks, sessions and origins; docs/guide/export.md describes their columns.\n" +
			"The directory OUT must be empty or not exist. A file gets its name when it is complete, and export.json is\n" +
			"the last file. If an export was interrupted, delete OUT before you start again. A partition that cannot\n" +
			"be read is an error with exit code 4, unless --partial is given.\n\n" +
			"   ledgerbus log export ./data --format parquet --into day\n" +
			"   ledgerbus log export ./data --format csv --into locks --entity orders --since 24h --type locked --type lost" + besideHelp,
		Flags: append([]cli.Flag{
			liveFlag(),
			&cli.StringFlag{Name: "format", Value: "jsonl", Usage: "jsonl, csv or parquet"},
			&cli.StringFlag{Name: "into", Usage: "directory to write to"},
			&cli.BoolFlag{Name: "bodies", Usage: "include message bodies"},
			&cli.BoolFlag{Name: "partial", Usage: "skip unreadable parts of a damaged or incomplete directory; export.json lists them"},
		}, selectionFlags()...),
		Action: exportLog,
	}
}

func exportLog(c *cli.Context) error {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	o := export.Options{Dir: c.String("into"), Format: export.Format(c.String("format")), Bodies: c.Bool("bodies"), Partial: c.Bool("partial")}
	if o.Dir == "" {
		return usageError{errors.New("missing --into; give --into OUT, which must be empty or not exist")}
	}
	if o.Format != export.JSONLines && o.Format != export.CSV && o.Format != export.Parquet {
		return usageError{fmt.Errorf("--format: %q is not one of jsonl, csv, parquet", o.Format)}
	}
	within, err := selectedRange(c)
	if err != nil {
		return err
	}
	if within != nil {
		o.Range = *within
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	how := beside(c)
	s, err := how.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // only reads
	var bar progress
	if currentAudience().err {
		bar = newBar(c.App.ErrWriter, 0, "exporting", "events")
	}
	o.Progress = bar.add
	sum, err := export.Export(ctx, s, func(line ledger.Line) error {
		_, err := fmt.Fprintln(c.App.ErrWriter, output.OneLine(line.Text))
		return err
	}, o)
	bar.finish()
	if errors.Is(err, export.ErrNotEmpty) {
		return usageError{err}
	}
	if err != nil {
		return withQuestionExitCode(err)
	}
	said := fmt.Sprintf("%d events, %d messages, %d locks, %d sessions and %d origins in %s", sum.Rows["events"], sum.Rows["messages"], sum.Rows["locks"],
		sum.Rows["sessions"], sum.Rows["origins"], program.Printable(o.Dir))
	for _, m := range sum.Missing {
		said += fmt.Sprintf(", incomplete for partition %d", m.Partition)
	}
	_, err = fmt.Fprintln(c.App.Writer, said)
	return err
}
