// Command floor runs the yardstick of the benchmarks on its own: an AMQP server that stores nothing, and bare durable
// writes. See package tools/bench/floor.
//
//	go run ./test/floor --listen 127.0.0.1:0        prints its address and serves until interrupted
//	go run ./test/floor fsync --dir /srv/data       prints how many durable writes a second the disk does
package main

import (
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/test/launch"
	"github.com/ledgerbus/ledgerbus/tools/bench"
)

func main() {
	floor := bench.FloorCommand()
	launch.Main(&cli.App{
		Name: "floor", Usage: floor.Usage, Flags: floor.Flags, Action: floor.Action,
		Commands: []*cli.Command{bench.DiskCommand()},
	})
}
