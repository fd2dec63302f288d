package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// part is a number of tests that are left out together.
type part struct {
	name     string
	needs    *command // fails where the part's runtime is missing or too old; nil: Go is all it needs
	commands []command
}

// module is the module's path, and goSDK the package of the Go SDK's tests below it.
const (
	module = "github.com/ledgerbus/ledgerbus/"
	goSDK  = "test/sdk/go"
)

// parts are all of them, in the order in which they run.
func parts(ctx context.Context, w io.Writer) ([]part, error) {
	listed, err := output(ctx, "go", "list", "./...")
	if err != nil {
		return nil, err
	}
	packages := slices.DeleteFunc(strings.Fields(listed), func(path string) bool { return path == module+goSDK })
	if len(packages) == 0 {
		return nil, errors.New("there are no packages (the program runs at the top of the repository)")
	}
	race, err := hasCompiler(ctx)
	if err != nil {
		return nil, err
	}
	if !race {
		fmt.Fprintln(w, "no C compiler: tests run without the race detector")
	}
	binary, err := filepath.Abs("bin/ledgerbus")
	if err != nil {
		return nil, err
	}
	const js = "test/sdk/js"
	return []part{
		{name: "units", commands: units(packages, race)},
		{name: "go", commands: []command{ // by itself: its timings must not depend on what others leave of the machine
			goTest(race, "./"+goSDK),
			partitioned(goTest(race, "-run", "^TestScenarios$", "./"+goSDK)),
		}},
		sdk("js",
			command{dir: js, args: []string{"npm", "ci", "--no-audit", "--no-fund"}},
			command{dir: js, env: []string{"LEDGERBUS=" + binary}, args: []string{"npm", "test"}}),
		sdk("python"),
		twice(sdk("java")), // of the SDKs the one that has transactions
		sdk("qpid-jms"),
		sdk("qpid-proton"),
	}, nil
}

// goTest returns the command that runs tests of Go. Its limit guards against a hang and is no target:
// a busy machine takes many times as long as an idle one.
func goTest(race bool, args ...string) command {
	test := []string{"go", "test", "-short", "-timeout", "60m"}
	if race {
		test = append(test, "-race")
	}
	return command{args: append(test, args...)}
}

// partitioned makes a command of the Go SDK's scenarios run them on partitioned entities.
func partitioned(c command) command {
	c.env = []string{"LEDGERBUS_PARTITIONED=1"}
	return c
}

// units returns the commands that test packages: under the race detector, if there is one, those
// that raced lists and a part of racedInPart; without it all others.
func units(packages []string, race bool) []command {
	if !race {
		return []command{goTest(false, packages...)}
	}
	plain := slices.DeleteFunc(slices.Clone(packages), func(path string) bool { return slices.Contains(raced, strings.TrimPrefix(path, module)) })
	under := slices.DeleteFunc(slices.Clone(packages), func(path string) bool { return slices.Contains(plain, path) })
	return []command{
		goTest(false, plain...),
		goTest(true, under...),
		goTest(true, "-skip", "^("+strings.Join(slowAlone, "|")+")$", module+racedInPart),
	}
}

// sdk is the part of an SDK whose runtime may be missing: its scenarios, after tests that only it has.
func sdk(name string, before ...command) part {
	scenarios := []string{"go", "run", "./test/sdk/run", "--sdk", name}
	return part{
		name:     name,
		needs:    &command{args: append(slices.Clone(scenarios), "--rounds", "0")},
		commands: append(before, command{args: scenarios}),
	}
}

// twice runs the scenarios of an SDK on plain entities, then on partitioned ones.
func twice(p part) part {
	last := &p.commands[len(p.commands)-1]
	last.args = append(last.args, "--entities", "both")
	return p
}

// hasCompiler reports whether there is the C compiler that the race detector needs.
func hasCompiler(ctx context.Context) (bool, error) {
	cc, err := output(ctx, "go", "env", "CC")
	words := strings.Fields(cc) // it may have arguments
	if err != nil || len(words) == 0 {
		return false, err
	}
	_, err = exec.LookPath(words[0])
	return err == nil, nil
}

// run runs the part. A runtime that is missing is an error if it must be there; otherwise the output says so.
func (p part) run(ctx context.Context, must bool, w io.Writer) error {
	if p.needs != nil {
		switch err := p.needs.run(ctx, w); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && must:
			return err
		case err != nil:
			fmt.Fprintln(w, p.name, "left out")
			return nil
		}
	}
	for _, c := range p.commands {
		fmt.Fprintln(w, c)
		if err := c.run(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (p part) list(w io.Writer) {
	for _, c := range p.commands {
		fmt.Fprintln(w, c)
	}
}
