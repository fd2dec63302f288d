// Command ledgerbus runs a durable message broker that Azure Service Bus SDKs connect to, and the
// tools for it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func main() { os.Exit(run(context.Background(), os.Args)) }

// run carries out one command line and returns the exit code.
func run(ctx context.Context, args []string) (code int) {
	defer func() {
		if bug := recover(); bug != nil {
			code = reportBug(bug)
		}
	}()
	a := app()
	err := a.RunContext(ctx, flagsFirst(a.Commands, args))
	report(os.Stderr, err)
	return exitCode(err)
}

func app() *cli.App {
	return &cli.App{
		Name:  "ledgerbus",
		Usage: "a durable message broker that Azure Service Bus SDKs connect to",
		Description: "Start a broker:            ledgerbus serve --queue orders\n" +
			"Make another queue:        ledgerbus queue create payments --lock-duration 30s\n" +
			"Send a message:            ledgerbus send orders --body hello\n" +
			"Receive and complete it:   ledgerbus receive orders --complete\n" +
			"Print the event log:       ledgerbus log dump data\n\n" +
			"Exit codes: 0 success, 1 a request failed, 2 configuration, security or usage, 3 data directory in use,\n" +
			"4 corruption, 5 input/output failure, 6 internal fault, 7 data format of another version.",
		Version:        program.Version(),
		Suggest:        true,
		HideVersion:    true,
		ExitErrHandler: func(*cli.Context, error) {}, // run maps errors to exit codes
		OnUsageError:   usage,
		Action:         commandOrHelp,
		Commands: answerUsage([]*cli.Command{
			serveCommand(), healthCommand(), initCommand(), tlsCommand(), sendCommand(), receiveCommand(), peekCommand(),
			entityCommand(event.Queue), entityCommand(event.Topic), entityCommand(event.Subscription), ruleCommand(), entitiesCommand(), contextCommand(),
			partitionCommand(), receiversCommand(), messageCommand(), backupCommand(), historyCommand(), topCommand(), sessionsCommand(), messagesCommand(), untilCommand(), storyCommand(), whyCommand(), atCommand(), diffCommand(), whenCommand(), auditCommand(), eventsCommand(),
			traceCommand(), debugCommand(), sliceCommand(), doctorCommand(), tokenCommand(),
			logCommand(), program.VersionCommand("ledgerbus"),
		}),
	}
}

// commandOrHelp prints the help if the command line names no command, and refuses an unknown
// command.
func commandOrHelp(c *cli.Context) error {
	if name := c.Args().First(); name != "" && name != "help" {
		return usageError{fmt.Errorf("unknown command %q; see ledgerbus --help", name)}
	}
	return cli.ShowAppHelp(c)
}
