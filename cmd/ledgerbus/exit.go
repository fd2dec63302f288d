package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// Exit codes (reliability.md 2).
const (
	exitWell       = 0
	exitRefused    = 1 // a request of a client command was refused or got no answer
	exitUsage      = 2 // configuration, security or usage
	exitInUse      = 3
	exitCorruption = 4
	exitIO         = 5
	exitInternal   = 6
	exitFormat     = 7
)

// A usageError is an invalid command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(c *cli.Context, err error, _ bool) error {
	return usageError{fmt.Errorf("%w; see %s --help", err, c.Command.HelpName)}
}

// answerUsage makes every command report a wrong flag in the same way.
func answerUsage(commands []*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.OnUsageError = usage
		answerUsage(c.Subcommands)
	}
	return commands
}

// exitCode returns the exit code for an error of any command.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitWell
	case is[usageError](err), is[cli.ExitCoder](err), is[settings.Problems](err), is[*broker.ListenError](err):
		return exitUsage
	case is[*client.Error](err), is[*admin.Error](err):
		return exitRefused
	case errors.Is(err, log.ErrInUse), errors.Is(err, log.ErrChanged):
		return exitInUse
	case errors.Is(err, log.ErrFormat), errors.Is(err, event.ErrUnknown):
		return exitFormat
	case is[*log.CorruptError](err), errors.Is(err, log.ErrChecksum), errors.Is(err, errDamaged):
		return exitCorruption
	case errors.Is(err, errInternal), errors.Is(err, host.ErrInternal), errors.Is(err, log.ErrInternal):
		// also if the bug ended a log
		return exitInternal
	case errors.Is(err, log.ErrPoisoned), errors.Is(err, log.ErrNoRoom), errors.Is(err, engine.ErrUnknown), is[*fs.PathError](err), is[*os.LinkError](err), is[*os.SyscallError](err):
		return exitIO
	}
	return exitRefused
}

var (
	// errDamaged reports that a command found damage and has printed each place.
	errDamaged = errors.New("the log is damaged")
	// errInternal reports that a part of the broker stopped, and that no fault of the machine
	// explains it.
	errInternal = errors.New("internal fault")
)

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// report prints an error: one line, or a line for each problem.
func report(w io.Writer, err error) {
	if err == nil {
		return
	}
	if problems := (settings.Problems)(nil); errors.As(err, &problems) && len(problems) > 1 {
		fmt.Fprintf(w, "ledgerbus: %d problems\n", len(problems))
		for _, p := range problems {
			fmt.Fprintf(w, "  %s\n", program.Printable(p.String()))
		}
		return
	}
	fmt.Fprintf(w, "ledgerbus: %s\n", program.Printable(strings.TrimSpace(err.Error())))
}

func reportBug(bug any) int {
	fmt.Fprintf(os.Stderr, "ledgerbus: internal fault: %v\n%s", bug, debug.Stack())
	return exitInternal
}
