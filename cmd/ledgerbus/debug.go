package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// maxCommand is the maximum length of a debugger command in bytes.
const maxCommand = 64 << 10

func debugCommand() *cli.Command {
	return &cli.Command{
		Name:      "debug",
		Usage:     "step through the events of a data directory in both directions, with the state before and after each event",
		ArgsUsage: "DIR",
		Description: "Reads commands from the terminal, from standard input, or from --command, separated by semicolons. The\n" +
			"command help lists them. DIR is not changed. The log contains events, not commands: you see the effect of\n" +
			"each event, and no rule is evaluated again.\n\n" +
			"   ledgerbus debug ./data\n" +
			"   ledgerbus debug ./data --at 03:12 -c \"break type IN ('dead', 'lost'); continue; print orders; back\"" + besideHelp,
		Flags: []cli.Flag{
			liveFlag(),
			output.Flag(output.Text, output.JSON),
			&cli.StringFlag{Name: "at", Usage: "instant or place in the log to start at", DefaultText: "before the first event"},
			&cli.StringFlag{Name: "command", Aliases: []string{"c"}, Usage: "commands, separated by semicolons, instead of a prompt"},
		},
		Action: stepThrough,
	}
}

func stepThrough(c *cli.Context) (err error) {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	var from *ledger.Instant
	if c.IsSet("at") {
		at, err := ledger.ParseInstant(c.String("at"), time.Now())
		if err != nil {
			return usageError{fmt.Errorf("--at: %w", err)}
		}
		from = &at
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	how := beside(c)
	s, err := how.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := printSliceNote(c.App.ErrWriter, dir, s); err != nil {
		return err
	}
	d, err := ledger.NewDebugger(ctx, ledger.New(s, newAnswerPrinter(c, nil).printLine), from, time.Now)
	if err != nil {
		return withQuestionExitCode(err)
	}
	defer d.Close()
	if c.IsSet("command") {
		return debugAll(ctx, d, slices.Values(commandsIn(c.String("command"))))
	}
	return debugFrom(ctx, d, c.App.Reader, c.App.ErrWriter, term.IsTerminal(int(os.Stdin.Fd())) && c.App.Reader == os.Stdin)
}

// commandsIn splits a text into commands at its semicolons, except those in quotes.
func commandsIn(text string) (list []string) {
	from, quoted := 0, false
	for i, r := range text {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ';' && !quoted:
			list, from = append(list, text[from:i]), i+1
		}
	}
	return append(list, text[from:])
}

// debugAll runs commands in order, up to the first that fails.
func debugAll(ctx context.Context, d *ledger.Debugger, commands func(func(string) bool)) error {
	for command := range commands {
		if err := d.Do(ctx, command); errors.Is(err, ledger.ErrQuit) {
			return nil
		} else if err != nil {
			return withQuestionExitCode(err)
		}
	}
	return nil
}

// debugFrom reads and runs commands, line by line. For a person it reports an invalid command and
// continues, and an empty line repeats the previous command. A script ends at the first command
// that fails.
func debugFrom(ctx context.Context, d *ledger.Debugger, in io.Reader, out io.Writer, person bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxCommand)
	if !person {
		return errors.Join(debugAll(ctx, d, func(yield func(string) bool) {
			for lines.Scan() && yield(lines.Text()) {
			}
		}), lines.Err())
	}
	last := ""
	fmt.Fprintln(out, "type help for a list of commands; the directory is not changed")
	for {
		fmt.Fprint(out, "(debug) ")
		if !lines.Scan() {
			fmt.Fprintln(out)
			return lines.Err()
		}
		command := strings.TrimSpace(lines.Text())
		if command == "" {
			command = last
		}
		last = command
		err := d.Do(ctx, command)
		switch {
		case errors.Is(err, ledger.ErrQuit):
			return nil
		case errors.Is(err, ledger.ErrQuestion), errors.Is(err, ledger.ErrNothing):
			fmt.Fprintln(out, output.OneLine(err.Error()))
		case err != nil:
			return err
		}
	}
}
