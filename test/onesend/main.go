// Command onesend is what the test of this directory builds with counters of coverage: a broker as
// `ledgerbus serve` has it, and a client that sends to it. After each round of sends it writes what
// was executed meanwhile into a directory of that round, below the directory that its argument
// names.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// What happens now and then is in few of the sends of a round, and what the broker does besides is
// not in every round. What is executed as often as there are sends belongs to each of them.
const (
	rounds = 3
	sends  = 200 // of a round, one after another: each waits for its answer
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	s, err := settings.Load(settings.Sources{Flags: map[string][]string{
		"data": {filepath.Join(dir, "data")}, "listen": {"127.0.0.1:0"},
	}})
	if err != nil {
		return err
	}
	s.Entities.Put = append(s.Entities.Put, engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: engine.DefaultProperties(event.Queue)})
	srv, err := broker.Start(ctx, s)
	if err != nil {
		return err
	}
	defer srv.Close()
	at, err := client.ParseConnectionString(srv.ConnectionString())
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, at, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	sender, err := c.NewSender(ctx, "orders")
	if err != nil {
		return err
	}
	for i := range rounds + 1 { // the first is for what happens once
		if err := round(ctx, sender, filepath.Join(dir, fmt.Sprint(i))); err != nil {
			return err
		}
	}
	return nil
}

// round sends, and writes into a directory how often each block of the program was executed
// meanwhile.
func round(ctx context.Context, sender *client.Sender, dir string) error {
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	for range sends {
		if err := sender.Send(ctx, client.NewMessage([]byte("a body"))); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return err
	}
	return coverage.WriteMetaDir(dir)
}
