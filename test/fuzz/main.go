// Command fuzz runs the fuzz targets of the project, one after another, each for a number of
// executions.
//
//	go run ./test/fuzz --count 500000              every target
//	go run ./test/fuzz --only 'amqp|FuzzScan$'     those whose line in the list matches
//	go run ./test/fuzz --since HEAD~1              those of packages with files that have changed since that commit
//	go run ./test/fuzz --list                      only say which there are, and how often each would run
//
// It counts executions and not time: with a time the fuzzer of Go before 1.27 now and then fails at
// its own deadline (go.dev/issue/75804). A target that fails does not keep the others from running.
// The end of the output has, for each of them, the input that made it fail and the command that
// runs it again with that input alone; the exit code is 1 then.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/test/changes"
	"github.com/ledgerbus/ledgerbus/test/launch"
)

func main() {
	launch.Main(&cli.App{
		Name: "fuzz", Usage: "run the fuzz targets below the current directory",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "count", Usage: "executions of each target; fewer of those that run a whole connection or directory", Value: 500_000},
			&cli.StringFlag{Name: "only", Usage: "regular expression of the targets to run, which are written as --list does", DefaultText: "all"},
			&cli.StringFlag{Name: "since", Usage: "run targets only of packages of which a file has changed since that commit"},
			&cli.BoolFlag{Name: "list", Usage: "say which targets would run, and how often; run none"},
		},
		Action: func(c *cli.Context) error {
			return run(c.Context, options{Count: c.Int("count"), Only: c.String("only"), Since: c.String("since"), List: c.Bool("list")}, c.App.Writer)
		},
	})
}

// options are the flags.
type options struct {
	Count int
	Only  string
	Since string // a commit; empty: whether files have changed does not matter
	List  bool
}

func run(ctx context.Context, o options, w io.Writer) error {
	if o.Count < 1 {
		return fmt.Errorf("--count is %d; it is at least 1", o.Count)
	}
	only, err := regexp.Compile(o.Only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	targets, err := find(".", only)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return errors.New("there is no such target (the program runs at the top of the repository)")
	}
	if o.Since != "" {
		changed, err := changes.Since(ctx, o.Since)
		if err != nil {
			return err
		}
		targets = slices.DeleteFunc(targets, func(t target) bool { return !changed.Below(filepath.ToSlash(t.dir) + "/") })
	}
	if o.List {
		for _, t := range targets {
			fmt.Fprintln(w, t, t.executions(o.Count))
		}
		return nil
	}
	return fuzz(ctx, targets, o.Count, w)
}

// fuzz runs the targets and says at the end which of them failed.
func fuzz(ctx context.Context, targets []target, count int, w io.Writer) error {
	var failures []failure
	began, ran := time.Now(), 0
	for i, t := range targets {
		fmt.Fprintf(w, "[%d/%d] %s %d\n", i+1, len(targets), t, t.executions(count))
		f := t.run(ctx, count, w)
		if ctx.Err() != nil {
			break // what was interrupted has not failed
		}
		ran++
		if f != nil {
			failures = append(failures, *f)
		}
	}
	fmt.Fprintf(w, "%d of %d targets, %s\n", ran, len(targets), time.Since(began).Round(time.Second))
	for _, f := range failures {
		fmt.Fprintln(w, f)
	}
	if n := len(failures); n > 0 {
		return fmt.Errorf("%d of %d targets failed", n, ran)
	}
	return ctx.Err()
}
