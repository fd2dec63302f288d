package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// A flag --help prints the help of its command wherever it is on the line and whatever else is
// there. An argument of another flag, or one after --, is not a flag.
func TestHelpBehindArguments(t *testing.T) {
	var all []string
	var walk func(path string, commands []*cli.Command)
	walk = func(path string, commands []*cli.Command) {
		for _, c := range commands {
			if name := strings.TrimSpace(path + " " + c.Name); len(c.Subcommands) > 0 {
				walk(name, c.Subcommands)
			} else {
				all = append(all, name)
			}
		}
	}
	a := app()
	walk("", a.Commands)
	for _, command := range all {
		for _, rest := range [][]string{{"orders", "--help"}, {"a", "b", "-h"}, {"--help", "orders"}, {"orders", "--nonsense", "--help"}} {
			given := slices.Concat([]string{"ledgerbus"}, strings.Fields(command), rest)
			want := slices.Concat([]string{"ledgerbus"}, strings.Fields(command), []string{"--help"})
			if got := flagsFirst(a.Commands, given); !slices.Equal(got, want) {
				t.Errorf("%q becomes %q, want %q", given, got, want)
			}
		}
	}
	for _, args := range []string{"receive orders --help", "queue create orders -h", "log dump data --help", "queue orders --help"} {
		command, _, _ := strings.Cut(args, " orders")
		command, _, _ = strings.Cut(command, " data")
		r := execute(t, "", "", strings.Fields(args)...)
		if r.code != 0 || !strings.Contains(r.out, "ledgerbus "+command+" - ") || r.errOut != "" {
			t.Errorf("%s: %+v; want the help of %s", args, r, command)
		}
	}
	for _, given := range []string{"send orders --body --help", "send orders -- --help"} {
		if got := flagsFirst(a.Commands, append([]string{"ledgerbus"}, strings.Fields(given)...)); !slices.Contains(got, "orders") {
			t.Errorf("%s becomes %q", given, got)
		}
	}
}
