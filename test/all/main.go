// Command all runs the tests that take minutes: of every package, of the Go SDK, and of the other clients whose runtimes are there. It
// prints each command before it runs it, and stops at the first that fails.
//
//	go run ./test/all               everything
//	go run ./test/all --only js     one part; its runtime must be there
//	go run ./test/all --list        only say the commands
//
// An SDK whose runtime is missing or too old is left out, and the output says so; with CI=true in the environment it is a failure. The SDKs other
// than Go's run against bin/ledgerbus.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/test/launch"
)

func main() {
	launch.Main(&cli.App{
		Name: "all", Usage: "run the tests that take minutes",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "only", Usage: "parts to run: units, go, js, python, java, qpid-jms, qpid-proton", DefaultText: "all whose runtime is there"},
			&cli.BoolFlag{Name: "list", Usage: "print the commands; run none"},
		},
		Action: func(c *cli.Context) error {
			return run(c.Context, options{Only: c.StringSlice("only"), List: c.Bool("list"), CI: os.Getenv("CI") == "true"}, c.App.Writer)
		},
	})
}

// options are the flags.
type options struct {
	Only []string // names of parts; none: all
	List bool
	CI   bool // a runtime that is missing or too old is a failure
}

func run(ctx context.Context, o options, w io.Writer) error {
	all, err := parts(ctx, w)
	if err != nil {
		return err
	}
	chosen, err := choose(all, o.Only)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		if o.List {
			p.list(w)
			continue
		}
		if err := p.run(ctx, o.CI || len(o.Only) > 0, w); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// choose returns the parts named, all if none is.
func choose(all []part, names []string) ([]part, error) {
	if len(names) == 0 {
		return all, nil
	}
	var some []part
	for _, name := range names {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no part is called %q", name)
		}
		some = append(some, all[i])
	}
	return some, nil
}
