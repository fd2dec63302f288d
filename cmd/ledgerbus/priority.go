package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// priorityFlag returns a flag that has no effect. It is accepted because scripts may use it; nice
// replaces it for every command.
func priorityFlag() cli.Flag {
	return &cli.StringFlag{Name: "priority", Hidden: true, Action: func(c *cli.Context, is string) error {
		if is != "low" && is != "normal" {
			return usageError{fmt.Errorf("--priority: %q is not one of low, normal", is)}
		}
		fmt.Fprintf(c.App.ErrWriter, "--priority has no effect any more: run the command with nice, as in nice -n 19 %s\n", c.Command.HelpName)
		return nil
	}}
}
