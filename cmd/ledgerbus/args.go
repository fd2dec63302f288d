package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of a command before its other arguments, because the flag package
// stops at the first argument that is not a flag. So both "send orders --count 5" and "send --count
// 5 orders" work. If one of the flags asks for help, flagsFirst drops all other arguments: the flag
// package would take them for the name of a command.
func flagsFirst(commands []*cli.Command, args []string) []string {
	group := &cli.Command{}
	for i := 1; i < len(args); i++ {
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[i]) })
		if at < 0 {
			if rest := reorder(group, args[i:]); i > 1 && args[i] != "help" && slices.Equal(rest, helpOnly) {
				return slices.Concat(args[:i], rest)
			}
			return args
		}
		if group = commands[at]; len(group.Subcommands) == 0 {
			return slices.Concat(args[:i+1], reorder(group, args[i+1:]))
		}
		commands = group.Subcommands
	}
	return args
}

// helpOnly are the arguments of a command that remain if one of them asks for help.
var helpOnly = []string{"--help"}

func reorder(c *cli.Command, args []string) []string {
	var flags, rest []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return slices.Concat(flags, []string{"--"}, rest, args[i+1:])
		case len(arg) < 2 || arg[0] != '-' || '0' <= arg[1] && arg[1] <= '9': // -2h is an instant
			rest = append(rest, arg)
			continue
		}
		if name := strings.TrimLeft(arg, "-"); slices.Contains(cli.HelpFlag.Names(), name) {
			return helpOnly
		}
		flags = append(flags, arg)
		if !strings.Contains(arg, "=") && takesValue(c, strings.TrimLeft(arg, "-")) && i+1 < len(args) {
			i++
			flags = append(flags, args[i])
		}
	}
	if len(rest) == 0 {
		return flags
	}
	return slices.Concat(flags, []string{"--"}, rest)
}

func takesValue(c *cli.Command, name string) bool {
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			_, isSwitch := f.(*cli.BoolFlag)
			return !isSwitch
		}
	}
	return false
}
