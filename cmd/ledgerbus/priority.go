package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// priorityFlag is accepted, since scripts may have it, and does nothing: nice does it for any
// command.
func priorityFlag() cli.Flag {
	return &cli.StringFlag{Name: "priority", Hidden: true, Action: func(c *cli.Context, is string) error {
		if is != "low" && is != "normal" {
			return usageError{fmt.Errorf("--priority: %q is not one of low, normal", is)}
		}
		fmt.Fprintf(c.App.ErrWriter, "--priority has no effect any more: run the command with nice, as in nice -n 19 %s\n", c.Command.HelpName)
		return nil
	}}
}
