package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

func priorityFlag() cli.Flag {
	return &cli.StringFlag{Name: "priority", Value: "low", Usage: "while it follows: low, to run only while nothing else on the machine does (Linux), or normal"}
}

// giveWay has a command that follows a broker run while nothing else wants the processor, on one processor, unless --priority says otherwise. A broker on
// the same machine then does not wait for it.
func giveWay(c *cli.Context) error {
	switch priority := c.String("priority"); priority {
	case "normal":
	case "low":
		if err := runLast(); err != nil { // in a container that may not, it follows all the same
			fmt.Fprintf(c.App.ErrWriter, "runs with normal priority: %s\n", oneLine(err.Error()))
		}
		runtime.GOMAXPROCS(1)
	default:
		return usageError{fmt.Errorf("--priority: %q is not one of low, normal", priority)}
	}
	return nil
}
