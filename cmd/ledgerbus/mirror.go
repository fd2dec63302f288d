package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/mirror"
)

func mirrorCommand() *cli.Command {
	return &cli.Command{
		Name:      "mirror",
		Usage:     "keep an audit copy of every event, separate from the broker and in another log format",
		ArgsUsage: "[DIR]",
		Description: "Follows a broker, with a key that has the right ReadHistory or Manage. With --once it copies the current\n" +
			"contents of a broker, a data directory or a backup. Every event becomes an entry, as log dump -o json prints\n" +
			"it, in a plain github.com/tidwall/wal log per partition: --into DIR/00, 01 … Entries are only appended. The\n" +
			"mirror records its position, so that it and the broker can be stopped or killed at any time without\n" +
			"missing or duplicate entries. If the broker removed events before they were mirrored, the mirror contains\n" +
			"an entry " + mirror.Gap + ". Only one mirror at a time can use the directory.\n\n" +
			"   ledgerbus log mirror --into /audit/orders-bus\n   ledgerbus log mirror data --into /audit/orders-bus --once",
		Flags: connectionFlags(
			&cli.StringFlag{Name: "into", Usage: "directory of the mirror"},
			&cli.BoolFlag{Name: "once", Usage: "copy the current contents and end"},
			&cli.GenericFlag{Name: "every", Usage: "how often to ask for new events", Value: &quantity.DurationFlag{Value: time.Second, Takes: quantity.Durations{Least: time.Millisecond}}},
			&cli.GenericFlag{Name: "keep", Usage: "delete whole files of the mirror when all their entries are older", Value: &quantity.DurationFlag{Value: quantity.Unlimited, Takes: quantity.Durations{Unlimited: true}}},
			priorityFlag(),
			&cli.BoolFlag{Name: "bodies", Usage: "also mirror message bodies; needs the right ReadBodies"},
		),
		Action: mirrorLog,
	}
}

func mirrorLog(c *cli.Context) (err error) {
	into := c.String("into")
	switch {
	case into == "":
		return usageError{errors.New("missing --into; usage: ledgerbus log mirror --into DIR")}
	case c.Args().Len() > 1:
		return usageError{errors.New("more than one data directory; see ledgerbus log mirror --help")}
	case c.Args().Present() && !c.Bool("once"):
		return usageError{errors.New("a directory is read once: add --once, or omit the directory to follow the broker over HTTP")}
	}
	dir := ""
	if c.Args().Present() {
		if dir, err = directory(c); err != nil {
			return err
		}
	}
	keep := program.DurationOf(c, "keep")
	if keep == quantity.Unlimited {
		keep = 0
	}
	m, err := mirror.Open(into, mirror.Options{Keep: keep, Notes: c.App.ErrWriter})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	again := pollLoop{every: program.DurationOf(c, "every"), once: c.Bool("once"), what: "mirror", notes: c.App.ErrWriter}
	if dir != "" {
		ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return again.run(ctx, func() error { return mirrorDirectory(ctx, dir, c.Bool("bodies"), m) })
	}
	return administer(c, func(a *administration) error {
		return again.run(a.ctx, func() error { return m.Round(a.ctx, brokerLog(a, c.Bool("bodies"))) })
	})
}

// brokerLog returns the log of a broker as a source.
func brokerLog(a *administration, bodies bool) mirror.Source {
	return func(ctx context.Context, partition int, from uint64, head func(mirror.Head) error, entry func([]byte) error) (tail mirror.Tail, err error) {
		q := ledger.Question{Verb: "log", Partition: log.PartitionID(partition), From: event.LSN(from), Bodies: bodies}
		r := logReader{head: head, entry: entry}
		err = a.Ask(ctx, q.Verb, q.Values(), func(l *wire.Line) error { return r.line(l.Part, l.Fields) })
		return r.tail, err
	}
}

// mirrorDirectory mirrors the durable part of a data directory, which a broker may be using. A
// start may cut off anything after that part.
func mirrorDirectory(ctx context.Context, dir string, bodies bool, m *mirror.Mirror) (err error) {
	s, err := log.Open(ctx, dir, log.Options{Shared: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return m.Round(ctx, func(ctx context.Context, partition int, from uint64, head func(mirror.Head) error, entry func([]byte) error) (mirror.Tail, error) {
		r := logReader{head: head, entry: entry}
		l := ledger.New(s, func(l ledger.Line) error {
			fields, err := l.AppendJSON(nil)
			if err != nil {
				return err
			}
			return r.line(l.Part.String(), fields)
		})
		err := l.Log(ctx, log.PartitionID(partition), event.LSN(from), bodies)
		return r.tail, err
	})
}

// A logReader parses the lines of a log.
type logReader struct {
	head  func(mirror.Head) error
	entry func([]byte) error
	tail  mirror.Tail
}

func (r *logReader) line(part string, fields []byte) error {
	if part == ledger.Row.String() {
		return r.entry(fields)
	}
	var says struct {
		mirror.Head
		Next *uint64
		More bool
	}
	if err := json.Unmarshal(fields, &says); err != nil {
		return err
	}
	if says.Next != nil {
		r.tail = mirror.Tail{Next: *says.Next, More: says.More}
		return nil
	}
	return r.head(says.Head)
}
