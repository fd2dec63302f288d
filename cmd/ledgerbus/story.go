package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

const dataHelp = "\n\nAsks a broker, with a key that has the right ReadHistory or Manage. With --data it reads a backup or a data\n" +
	"directory instead, with or without a running broker. Nothing is changed, and the broker does not wait for the\n" +
	"command; events of the last second may be missing."

// historyFlags returns the flags of all questions about the past.
func historyFlags(more ...cli.Flag) []cli.Flag {
	return connectionFlags(append([]cli.Flag{
		&cli.StringFlag{Name: "data", Usage: "data directory or backup to read, instead of a broker; a broker may be running on it"},
		output.Flag(), liveFlag(),
	}, more...)...)
}

func storyCommand() *cli.Command {
	return &cli.Command{
		Name:      "story",
		Usage:     "show the life of a message across entities, copies, moves and schedules",
		ArgsUsage: "ENTITY#NUMBER | --message-id ID",
		Description: "Shows the message and its current state, then each of its events with actor and place in the log, and a\n" +
			"summary in one sentence.\n\n" +
			"   ledgerbus story orders#88114\n" +
			"   ledgerbus story --message-id A-4711 --data /var/lib/ledgerbus" + dataHelp,
		Flags:  historyFlags(&cli.StringFlag{Name: "message-id", Usage: "all messages sent with this id, instead of a number"}),
		Action: func(c *cli.Context) error { return ask(c, "of") },
	}
}

// ask asks the question that a command is named after, and prints the answer. The command's
// arguments are the question's arguments with these names, in order.
func ask(c *cli.Context, names ...string) error {
	q, err := question(c, c.Command.Name, questionValues(c), names...)
	if err != nil {
		return err
	}
	return printQuestion(c, q)
}

// questionFlags are the flags that are part of a question, under their names.
var questionFlags = []string{"message-id", "messages", "since", "until", "type", "where"}

// questionValues returns the parts of a question that the flags give.
func questionValues(c *cli.Context) url.Values {
	says := url.Values{}
	for _, name := range questionFlags {
		switch {
		case !c.IsSet(name):
		case name == "type":
			says.Set(name, strings.Join(c.StringSlice(name), ","))
		default:
			says.Set(name, fmt.Sprint(c.Value(name)))
		}
	}
	return says
}

// question makes a question from says and from the arguments of a command, which have these names,
// in order.
func question(c *cli.Context, verb string, says url.Values, names ...string) (*ledger.Question, error) {
	for i, text := range c.Args().Slice() {
		if i == len(names) {
			return nil, usageError{fmt.Errorf("extra argument %q; usage: %s %s", text, c.Command.HelpName, c.Command.ArgsUsage)}
		}
		says.Set(names[i], text)
	}
	q, err := parse(c, verb, says)
	if err != nil {
		return nil, usageError{fmt.Errorf("%w; usage: %s %s", err, c.Command.HelpName, c.Command.ArgsUsage)}
	}
	return q, nil
}

// parse parses a question. It refuses an empty value, such as a variable that is not set, because
// the question would be about everything.
func parse(c *cli.Context, verb string, says url.Values) (*ledger.Question, error) {
	for name := range says {
		if says.Get(name) == "" && name != "where" && name != "message-id" {
			return nil, usageError{fmt.Errorf("%s is empty", name)}
		}
	}
	q, err := ledger.ParseQuestion(verb, says, time.Now())
	if err != nil {
		return nil, usageError{err}
	}
	return q, nil
}

// printQuestion asks a broker, or with --data a directory, and prints the answer.
func printQuestion(c *cli.Context, q *ledger.Question) error {
	t := newAnswerPrinter(c, q.Columns())
	t.limitRows(q, currentAudience())
	return t.end(printAnswer(c, q, t))
}

// printAnswer asks a directory or a broker.
func printAnswer(c *cli.Context, q *ledger.Question, t *answerPrinter) error {
	if !c.IsSet("data") {
		if c.Bool("live") {
			return usageError{errors.New("--live needs --data")}
		}
		return administer(c, func(a *administration) error {
			return withBrokerExitCode(a.Ask(a.ctx, q.Verb, q.Values(), t.printWireLine))
		})
	}
	if err := refuseNamespaceFlags(c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return askDirectory(ctx, c, q, t)
}

// refuseNamespaceFlags refuses a broker in addition to a directory.
func refuseNamespaceFlags(c *cli.Context) error {
	for _, name := range []string{"connection-string", "context"} {
		if c.IsSet(name) {
			return usageError{fmt.Errorf("--data and --%s cannot be used together", name)}
		}
	}
	return nil
}

// askDirectory answers a question from a data directory.
func askDirectory(ctx context.Context, c *cli.Context, q *ledger.Question, t *answerPrinter) error {
	return readDirectory(ctx, c, func(s log.Store) error {
		return withQuestionExitCode(ledger.New(s, t.printLine).Put(ctx, q))
	})
}

// readDirectory calls do with the logs of the directory that --data names.
func readDirectory(ctx context.Context, c *cli.Context, do func(log.Store) error) (err error) {
	dir := c.String("data")
	if info, err := os.Stat(dir); err != nil {
		return usageError{fmt.Errorf("--data: %w", err)}
	} else if !info.IsDir() {
		return usageError{errors.New("--data: " + dir + " is not a directory")}
	}
	how := beside(c)
	s, err := how.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := printSliceNote(c.App.ErrWriter, dir, s); err != nil {
		return err
	}
	return do(s)
}

// withBrokerExitCode turns an error of a broker into an error with the right exit code.
func withBrokerExitCode(err error) error {
	if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "invalid" {
		return usageError{err}
	}
	return err
}

// withQuestionExitCode turns an error of a question into an error with the right exit code: usage
// for an invalid question, refused for missing history.
func withQuestionExitCode(err error) error {
	if errors.Is(err, ledger.ErrQuestion) {
		return usageError{err}
	}
	return err
}

var _ ledger.Source = log.Store(nil)
