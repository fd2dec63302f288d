// Command mutants plants bugs in the product and demands that its tests find them.
//
//	go run ./test/mutants                      every bug
//	go run ./test/mutants ./log ./index        those that tests of these packages have to find
//	go run ./test/mutants --only 'M13|C'       those whose ids match
//	go run ./test/mutants apply                plant them in the working tree, to look at or to edit
//	go run ./test/mutants save                 move what was edited into the patches, and out of the tree
//
// The bugs are patches in this directory, one for each package of the product, and bugs.go says
// what each is and which tests find it. A build with all patches (go test -overlay) has all bugs,
// behind switches: LEDGERBUS_MUTANT names the one that is on in a process. No file of the product
// knows of them. CONTRIBUTING.md says how to add one.
//
// Every test that finds a bug has to pass in the same build while none is on: what it finds is the
// bug, not the patch.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/test/launch"
)

// here is this directory, from the top of the repository.
const here = "test/mutants"

func main() {
	launch.Main(&cli.App{
		Name: "mutants", Usage: "plant bugs, which the tests of the packages that are named, or all, have to find",
		ArgsUsage: "[PACKAGE ...]",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "only", Usage: "regular expression of ids of bugs", DefaultText: "all"}},
		Action: func(c *cli.Context) error {
			return run(c.Context, bugs, c.Args().Slice(), c.String("only"), c.App.Writer)
		},
		Commands: []*cli.Command{
			{Name: "apply", Usage: "plant all bugs in the working tree", Action: func(c *cli.Context) error {
				return apply(c.Context, c.App.Writer)
			}},
			{Name: "save", Usage: "make patches of what has changed in the working tree, and take it back there", Action: func(c *cli.Context) error {
				return save(c.Context, bugs, c.App.Writer)
			}},
		},
	})
}

// run builds the suites with all patches and carries out the trials of them.
func run(ctx context.Context, bugs []bug, suites []string, only string, w io.Writer) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	for i, suite := range suites {
		suites[i] = path.Clean(filepath.ToSlash(suite))
	}
	list := trials(bugs, suites, pattern)
	if len(list) == 0 {
		return errors.New("no test of such a package finds such a bug; bugs.go lists them")
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := plant(ctx, dir)
	if err != nil {
		return err
	}
	binaries, err := build(ctx, dir, overlay, list)
	if err != nil {
		return err
	}
	return carryOut(ctx, binaries, list, w)
}
