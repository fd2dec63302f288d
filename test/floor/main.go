// Command floor runs the yardstick of the benchmarks on its own: an AMQP server that stores nothing, and bare durable
// writes. See package bench/floor.
//
//	go run ./test/floor --listen 127.0.0.1:0        prints its address and serves until interrupted
//	go run ./test/floor fsync --dir /srv/data       prints how many durable writes a second the disk does
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/tools/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	floor := bench.FloorCommand()
	app := &cli.App{
		Name: "floor", Usage: floor.Usage, Flags: floor.Flags, Action: floor.Action, HideHelpCommand: true,
		Commands: []*cli.Command{bench.DiskCommand()},
	}
	if err := app.RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}
