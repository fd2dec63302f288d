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

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// An administration is a client of the namespace that a command works on.
type administration struct {
	*admin.Client
	ctx context.Context // ends with a signal
}

// administer finds the namespace and calls do. It sends no request itself.
func administer(c *cli.Context, do func(a *administration) error) error {
	reason := c.String("reason")
	if err := engine.CheckReason(reason); err != nil {
		return usageError{fmt.Errorf("--reason: %s", err.Text)}
	}
	ns, err := chooseNamespace(c)
	if err != nil {
		return err
	}
	a := &administration{Client: admin.NewFrom(ns.ConnectionString, admin.Options{Product: "ledgerbus-cli", TLS: ns.trust, Reason: reason})}
	var stop context.CancelFunc
	a.ctx, stop = signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer a.Close()
	return do(a)
}

// arguments refuses a command line with fewer or more arguments than a command takes.
func arguments(c *cli.Context, least, most int, want string) error {
	switch n := c.Args().Len(); {
	case n > most && most == 0:
		return usageError{fmt.Errorf("%s takes no argument %q; see %s --help", c.Command.HelpName, c.Args().First(), c.Command.HelpName)}
	case n < least || n > most:
		return usageError{fmt.Errorf("%s takes %s; see %s --help", c.Command.HelpName, want, c.Command.HelpName)}
	}
	return nil
}

// argumentsOf returns the arguments that name an entity of a kind, as help shows them.
func argumentsOf(kind event.EntityKind) string {
	if kind == event.Subscription {
		return "TOPIC SUBSCRIPTION"
	}
	return strings.ToUpper(kind.String())
}

// splitNames splits the arguments that name a subscription from the more arguments after them. The
// subscription is either TOPIC SUBSCRIPTION or the path TOPIC/Subscriptions/SUBSCRIPTION.
func splitNames(args []string, more int) (subscription string, rest []string, ok bool) {
	switch len(args) - more {
	case 1:
		topic, name, isPath := admin.SplitSubscription(args[0])
		return admin.SubscriptionPath(topic, name), args[1:], isPath
	case 2:
		return admin.SubscriptionPath(args[0], args[1]), args[2:], args[0] != "" && args[1] != "" && !strings.Contains(args[1], "/")
	}
	return "", nil, false
}

// pathOf reads the arguments that name an entity.
func pathOf(c *cli.Context, kind event.EntityKind) (string, error) {
	of, err := entityOf(c, kind)
	if err == nil && of.SubQueue != event.Main {
		err = usageError{fmt.Errorf("%s is a sub-queue and is created and deleted with its entity; use %s", of, of.Entity)}
	}
	return of.Entity, err
}

// entityOf reads the arguments that name an entity or one of its sub-queues.
func entityOf(c *cli.Context, kind event.EntityKind) (address.Address, error) {
	name := strings.ToLower(kind.String())
	path, ok := c.Args().First(), c.Args().Len() == 1 && c.Args().First() != ""
	if kind == event.Subscription && c.Args().Len() == 2 {
		path, ok = c.Args().Get(1), c.Args().First() != "" && c.Args().Get(1) != ""
	}
	if !ok {
		return address.Address{}, usageError{fmt.Errorf("missing %[1]s; usage: %[2]s %[1]s", argumentsOf(kind), c.Command.HelpName)}
	}
	of, err := address.Parse(path)
	switch {
	case err != nil && strings.ContainsRune(path, '$'):
		return of, usageError{fmt.Errorf("%q is not the name of a %s: names contain no $", path, name)}
	case err != nil:
		return of, usageError{err}
	case of.Place:
		return of, usageError{fmt.Errorf("%s is a place in a log, not a %s", of, name)}
	case of.Number != 0:
		return of, usageError{fmt.Errorf("%s is a message, not a %s; see ledgerbus story '%s'", of, name, of)}
	case kind == event.Subscription:
		if of.Entity, _, ok = splitNames(append(slices.Clone(c.Args().Slice()[:c.Args().Len()-1]), of.Entity), 0); !ok {
			return of, usageError{fmt.Errorf("missing TOPIC or SUBSCRIPTION; usage: %s TOPIC SUBSCRIPTION", c.Command.HelpName)}
		}
	}
	return of, nil
}

// reasonFlag returns the flag --reason of the commands that make changes.
func reasonFlag() cli.Flag {
	return &cli.StringFlag{Name: "reason", Usage: "reason for the change, in one line: Ledgerbus records it in the log with the change; other namespaces ignore it"}
}

func confirmFlag() cli.Flag {
	return &cli.StringFlag{Name: "confirm", Usage: "name of the item to delete, instead of typing it at the prompt"}
}

// confirm returns an error unless the user types name or gives it with --confirm. what describes
// the loss.
func confirm(c *cli.Context, name, what string) error {
	if c.IsSet("confirm") {
		return sameName(c.String("confirm"), name, what)
	}
	if in, isFile := c.App.Reader.(*os.File); !isFile || !term.IsTerminal(int(in.Fd())) {
		return usageError{fmt.Errorf("%s: nothing was done; add --confirm %s to confirm", what, name)}
	}
	return askName(c.App.Reader, c.App.ErrWriter, name, what)
}

// askName asks the user to type a name.
func askName(r io.Reader, w io.Writer, name, what string) error {
	fmt.Fprintf(w, "%s.\nType %s to continue: ", output.OneLine(what), output.OneLine(name))
	typed, err := bufio.NewReader(io.LimitReader(r, 4<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return sameName(strings.TrimSpace(typed), name, what)
}

func sameName(given, name, what string) error {
	if strings.EqualFold(given, name) { // names differ in more than letter case
		return nil
	}
	return usageError{fmt.Errorf("%s: nothing was done because %q is not %q", what, given, name)}
}
