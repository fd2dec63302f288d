// Command make makes a data directory with history to ask questions of:
//
//	go run ./test/history/make --events 10000000 --dead 3 --lost 20 /tmp/day
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ledgerbus/ledgerbus/test/history"
)

func main() {
	var o history.Options
	flag.IntVar(&o.Events, "events", 10_000_000, "about so many")
	flag.IntVar(&o.Dead, "dead", 3, "of 1,000 messages so many are dead-lettered")
	flag.IntVar(&o.Lost, "lost", 20, "of 1,000 attempts so many end with their lock")
	flag.IntVar(&o.Partitions, "partitions", 4, "logs")
	flag.IntVar(&o.Queues, "queues", 16, "queues; the first has half of the messages")
	flag.IntVar(&o.Body, "body", 100, "bytes of each")
	flag.IntVar(&o.Checkpoint, "checkpoint", 1_000_000, "events between two checkpoints of a log; 0: none are made")
	flag.BoolVar(&o.Raw, "raw", false, "do not seal")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "where? make [flags] DIR")
		os.Exit(2)
	}
	began := time.Now()
	if err := history.Make(context.Background(), flag.Arg(0), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("made in %s\n", time.Since(began).Round(time.Millisecond))
}
