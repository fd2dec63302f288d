// Command all runs the tests that take minutes, as much of them as the scope says. It prints each
// command before it runs it, and how long it took, and stops at the first that fails.
//
//	go run ./test/all                        what a contributor runs before a commit: packages and the Go SDK
//	go run ./test/all --scope change         what runs besides before a change is taken; what takes long only where files have changed that it is about
//	go run ./test/all --scope full           everything
//	go run ./test/all --scope full --only js one part; its runtime must be there
//	go run ./test/all --list                 only say the commands
//
// An SDK whose runtime is missing or too old is left out, and the output says so; with CI=true in
// the environment it is a failure. The SDKs other than Go's run against bin/ledgerbus.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/test/changes"
	"github.com/ledgerbus/ledgerbus/test/launch"
)

func main() {
	launch.Main(&cli.App{
		Name: "all", Usage: "run the tests that take minutes",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "scope", Value: commit, Usage: "how much of the parts runs: " + strings.Join(scopes, ", ")},
			&cli.StringFlag{Name: "since", EnvVars: []string{"BASE"}, Usage: "commit on top of which the change is", DefaultText: "where it has left origin/main, or the commit before"},
			&cli.StringSliceFlag{Name: "only", Usage: "parts to run, of those that --list names", DefaultText: "all of the scope whose runtime is there"},
			&cli.BoolFlag{Name: "list", Usage: "print the commands; run none"},
		},
		Action: func(c *cli.Context) error {
			return run(c.Context, options{Scope: c.String("scope"), Since: c.String("since"), Only: c.StringSlice("only"), List: c.Bool("list"), CI: os.Getenv("CI") == "true"}, c.App.Writer)
		},
	})
}

// options are the flags.
type options struct {
	Scope string
	Since string   // the commit on top of which the change is; empty: the usual one
	Only  []string // names of parts; none: all
	List  bool
	CI    bool // a runtime that is missing or too old is a failure
}

func run(ctx context.Context, o options, w io.Writer) error {
	if !slices.Contains(scopes, o.Scope) {
		return fmt.Errorf("--scope is %q; it is one of %s", o.Scope, strings.Join(scopes, ", "))
	}
	changed, err := changes.Since(ctx, o.Since)
	if err != nil {
		return err
	}
	all, err := parts(ctx, w, changed)
	if err != nil {
		return err
	}
	chosen, err := choose(all, o.Scope, o.Only)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		if o.List {
			p.list(o.Scope, w)
			continue
		}
		if err := p.run(ctx, o.Scope, o.CI || len(o.Only) > 0, w); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// choose returns the parts of a scope that are named, all if none is.
func choose(all []part, scope string, names []string) ([]part, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(p part) bool { return len(p.commands[scope]) == 0 }), nil
	}
	var some []part
	for _, name := range names {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no part is called %q", name)
		}
		if len(all[i].commands[scope]) == 0 {
			return nil, fmt.Errorf("%s is not in the scope %s, or nothing has changed that it is about", name, scope)
		}
		some = append(some, all[i])
	}
	return some, nil
}
