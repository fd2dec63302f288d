package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

// priorityFlag says how a command that follows a broker gives way to others.
func priorityFlag() cli.Flag {
	return &cli.StringFlag{Name: "priority", Value: "low", Usage: "while it follows: low, to run only while nothing else on the machine does (Linux), or normal"}
}

// giveWay has the command give way, on one processor, unless --priority says otherwise. A broker on the same machine then does not wait for it. One thread
// may keep its priority; nil: none does.
func giveWay(c *cli.Context, but *ordinary) error {
	switch is := c.String("priority"); is {
	case "normal":
	case "low":
		if err := runLast(but); err != nil { // in a container that may not, it follows all the same
			fmt.Fprintf(c.App.ErrWriter, "runs with normal priority: %s\n", oneLine(err.Error()))
		}
		runtime.GOMAXPROCS(1)
	default:
		return usageError{fmt.Errorf("--priority: %q is not one of low, normal", is)}
	}
	return nil
}
