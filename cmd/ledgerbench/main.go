// Command ledgerbench measures the throughput and latency of a broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/tools/bench"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// Exit codes (reliability.md 2).
const (
	exitWell     = 0
	exitRefused  = 1 // the broker refused something or gave no answer
	exitUsage    = 2
	exitIO       = 5
	exitInternal = 6
)

func main() { os.Exit(run(context.Background(), os.Args)) }

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string) (code int) {
	defer func() {
		if bug := recover(); bug != nil {
			fmt.Fprintf(os.Stderr, "ledgerbench: internal fault: %v\n%s", bug, debug.Stack())
			code = exitInternal
		}
	}()
	program.TrustRoots()
	err := app().RunContext(ctx, args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ledgerbench: %s\n", program.Printable(strings.TrimSpace(err.Error())))
	}
	return exitCode(err)
}

func app() *cli.App {
	commands := append(bench.Commands(), program.VersionCommand("ledgerbench"))
	for _, c := range commands {
		c.OnUsageError, c.Before = usage, noArguments
	}
	return &cli.App{
		Name:  "ledgerbench",
		Usage: "measure the throughput and latency of a broker",
		Description: "Puts load on any AMQP 1.0 broker that has queues with peek-lock: Ledgerbus, the emulator, the cloud or another.\n" +
			"The suite starts a broker, and a server for comparison that stores nothing.\n\n" +
			"Exit codes: 0 success, 1 a request failed, 2 usage, 5 input/output failure, 6 internal fault.",
		Version:        program.Version(),
		Suggest:        true,
		HideVersion:    true,
		ExitErrHandler: func(*cli.Context, error) {}, // run maps errors to exit codes
		OnUsageError:   usage,
		Action:         commandOrHelp,
		Commands:       commands,
	}
}

// commandOrHelp prints the help if the command line names no command, and refuses an unknown
// command.
func commandOrHelp(c *cli.Context) error {
	if name := c.Args().First(); name != "" && name != "help" {
		return usageError{fmt.Errorf("unknown command %q; see ledgerbench --help", name)}
	}
	return cli.ShowAppHelp(c)
}

// A usageError is an invalid command line.
type usageError struct{ error }

func usage(c *cli.Context, err error, _ bool) error {
	return usageError{fmt.Errorf("%w; see %s --help", err, c.Command.HelpName)}
}

// noArguments refuses arguments that are not flags, because flags after them would be ignored.
func noArguments(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	return usageError{fmt.Errorf("%s takes no argument %q; see %s --help", c.Command.Name, c.Args().First(), c.Command.HelpName)}
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitWell
	case is[usageError](err), is[cli.ExitCoder](err):
		return exitUsage
	case is[*client.Error](err), is[*admin.Error](err): // for any cause
		return exitRefused
	case is[*fs.PathError](err), is[*os.LinkError](err), is[*os.SyscallError](err):
		return exitIO
	}
	return exitRefused
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
