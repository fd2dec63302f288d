package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

// priority is how a command that follows a broker gives way to others.
type priority struct {
	means string // of "low", for the help
	lower func() error
}

var (
	// runsLast is for what reads and prints.
	runsLast = priority{"to run only while nothing else on the machine does (Linux)", runLast}
	// isNice is for what syncs. A process that runs only while nothing else does can be off the processor while it holds what the file system gives to one at
	// a time, and then all who write to the same one wait for it, the broker among them (docs/decisions/0074).
	isNice = priority{"with a nice value of 10", runNice}
)

func (p priority) flag() cli.Flag {
	return &cli.StringFlag{Name: "priority", Value: "low", Usage: "while it follows: low, " + p.means + ", or normal"}
}

// apply has the command give way, on one processor, unless --priority says otherwise. A broker on the same machine then does not wait for it.
func (p priority) apply(c *cli.Context) error {
	switch is := c.String("priority"); is {
	case "normal":
	case "low":
		if err := p.lower(); err != nil { // in a container that may not, it follows all the same
			fmt.Fprintf(c.App.ErrWriter, "runs with normal priority: %s\n", oneLine(err.Error()))
		}
		runtime.GOMAXPROCS(1)
	default:
		return usageError{fmt.Errorf("--priority: %q is not one of low, normal", is)}
	}
	return nil
}
