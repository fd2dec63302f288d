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
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/mirror"
)

func mirrorCommand() *cli.Command {
	return &cli.Command{
		Name:      "mirror",
		Usage:     "keep an audit copy of every event in logs of another format, apart from the broker",
		ArgsUsage: "[DIR]",
		Description: "Follows a broker, with a key that has the right ReadHistory or Manage, or a data directory. Every event becomes an entry, as log dump -o\n" +
			"json prints it, in a plain log of github.com/tidwall/wal per partition: --into DIR/00, 01 … Entries are only ever added. The mirror\n" +
			"records where to go on, so that both it and the broker can be stopped or killed at any time: nothing is left out, and nothing is there\n" +
			"twice. Where the broker removed events before they were mirrored there is an entry " + mirror.Gap + ". Only one mirror at a time can use the directory.\n\n" +
			"   ledgerbus log mirror --into /audit/orders-bus\n   ledgerbus log mirror data --into /audit/orders-bus --once",
		Flags: connectionFlags(
			&cli.StringFlag{Name: "into", Usage: "directory to mirror into"},
			&cli.BoolFlag{Name: "once", Usage: "take what there is, and end"},
			&cli.DurationFlag{Name: "every", Value: time.Second, Usage: "how often to ask for what is new"},
			&cli.DurationFlag{Name: "keep", DefaultText: "for ever", Usage: "delete whole files of the mirror whose entries are all older"},
			priorityFlag(),
			&cli.BoolFlag{Name: "bodies", Usage: "mirror bodies of messages too, which takes the right ReadBodies"},
		),
		Action: mirrorLog,
	}
}

func mirrorLog(c *cli.Context) (err error) {
	into := c.String("into")
	switch {
	case into == "":
		return usageError{errors.New("into which directory? ledgerbus log mirror --into DIR")}
	case c.Args().Len() > 1:
		return usageError{errors.New("one data directory at a time; see ledgerbus log mirror --help")}
	case c.Duration("every") <= 0 || c.Duration("keep") < 0:
		return usageError{errors.New("--every and --keep are durations above zero")}
	}
	rests := &resting{longest: min(c.Duration("every"), time.Second) / 2}
	o := mirror.Options{Keep: c.Duration("keep"), Notes: c.App.ErrWriter}
	do := func(change func() error) error { return change() }
	if !c.Bool("once") {
		usual := newOrdinary()
		if err := giveWay(c, usual); err != nil {
			return err
		}
		do = usual.do
		o.Do, o.Synced = do, rests.rest
	}
	var m *mirror.Mirror
	if err := do(func() (err error) { m, err = mirror.Open(into, o); return err }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, do(m.Close)) }()
	again := repeated{every: c.Duration("every"), once: c.Bool("once"), what: "mirror", notes: c.App.ErrWriter}
	if c.Args().Present() {
		dir, err := directory(c)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
		defer stop()
		from := tools.Following{Dir: dir}
		defer func() { err = errors.Join(err, from.Close()) }()
		return again.run(ctx, func() error {
			rests.round()
			return mirrorDirectory(ctx, c, &from, m)
		})
	}
	again.least = min(again.every, leastRest)
	return administer(c, func(a *administration) error {
		return again.run(a.ctx, func() error {
			rests.round()
			return m.Round(a.ctx, brokerLog(a, c.Bool("bodies")))
		})
	})
}

const (
	// syncRest is how many times as long as a sync of the mirror took the next one waits: one behind the other would hold up those of a broker that uses the
	// same disk (docs/decisions/0079).
	syncRest = 8
	// longestSync bounds what counts for a rest, where the disk stands still for a while.
	longestSync = 10 * time.Millisecond
)

// resting is how a mirror leaves the disk to others between two syncs.
type resting struct {
	longest time.Duration // of a round, in which it rests: it must not fall behind
	until   time.Time     // it rests no more in this round
}

// round begins a round.
func (r *resting) round() { r.until = time.Now().Add(r.longest) }

// rest is called behind a sync that took so long.
func (r *resting) rest(took time.Duration) {
	if time.Now().Before(r.until) {
		time.Sleep(syncRest * min(took, longestSync))
	}
}

// brokerLog is the log of a broker.
func brokerLog(a *administration, bodies bool) mirror.Source {
	return func(ctx context.Context, partition int, from uint64, head func(mirror.Head) error, entry func([]byte) error) (tail mirror.Tail, err error) {
		q := ledger.Question{Verb: "log", Partition: log.PartitionID(partition), From: event.LSN(from), Bodies: bodies}
		r := logReader{head: head, entry: entry}
		err = a.Ask(ctx, q.Verb, q.Values(), func(l *wire.Line) error { return r.line(l.Part, l.Fields) })
		return r.tail, err
	}
}

// mirrorDirectory takes what is new in a data directory, as far as it is durable.
func mirrorDirectory(ctx context.Context, c *cli.Context, from *tools.Following, m *mirror.Mirror) error {
	s, err := from.Look(ctx)
	if err != nil {
		return err
	}
	defer from.Rest()
	return m.Round(ctx, func(ctx context.Context, partition int, from uint64, head func(mirror.Head) error, entry func([]byte) error) (mirror.Tail, error) {
		r := logReader{head: head, entry: entry}
		l := ledger.New(s, func(l ledger.Line) error {
			fields, err := l.AppendJSON(nil)
			if err != nil {
				return err
			}
			return r.line(l.Part.String(), fields)
		})
		err := l.Log(ctx, log.PartitionID(partition), event.LSN(from), c.Bool("bodies"))
		return r.tail, err
	})
}

// logReader takes the lines of a log apart.
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
