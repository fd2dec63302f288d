package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/excerpt"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

func sliceCommand() *cli.Command {
	return &cli.Command{
		Name:      "slice",
		Usage:     "copy part of a data directory into a smaller directory, readable by a broker and all tools",
		ArgsUsage: "DIR",
		Description: "Copies the events between two instants, and the state before them, of all entities or of one entity. A topic\n" +
			"is copied with its subscriptions, a subscription with its topic and the topic's other subscriptions. Places,\n" +
			"numbers and times are the same as in DIR. OUT is a separate namespace in which no message moves between\n" +
			"entities; its slice.json describes it. Unless --bodies is keep, each body is replaced by a note. With hash the\n" +
			"note contains the SHA-256 of the payload, so that a known or guessed body identifies its message. Keys of\n" +
			"access rules are replaced.\n\n" +
			"   ledgerbus slice ./data --since 02:40 --until 03:20 --into incident\n" +
			"   ledgerbus slice ./data --entity orders --bodies keep --into incident\n" +
			"   ledgerbus why 'orders/$dlq' --data incident" + besideHelp,
		Flags: []cli.Flag{
			liveFlag(),
			&cli.StringFlag{Name: "into", Usage: "directory to write; it must be empty or not exist"},
			&cli.StringFlag{Name: "since", Usage: "only events from this instant on; a duration means that long ago", DefaultText: "the beginning of history"},
			&cli.StringFlag{Name: "until", Usage: "only events up to this instant", DefaultText: "the end"},
			&cli.StringFlag{Name: "entity", Usage: "only events of this entity"},
			&cli.StringFlag{Name: "bodies", Value: string(excerpt.Drop), Usage: "handling of bodies, session states and property changes: keep, drop or hash"},
			output.Flag(),
		},
		Action: slice,
	}
}

// sliceOptions returns the options of the flags.
func sliceOptions(c *cli.Context) (o excerpt.Options, err error) {
	o = excerpt.Options{Bodies: excerpt.Bodies(c.String("bodies")), Now: time.Now()}
	if o.Bodies != excerpt.Keep && o.Bodies != excerpt.Drop && o.Bodies != excerpt.Hash {
		return o, usageError{fmt.Errorf("--bodies: %q is not one of keep, drop, hash", o.Bodies)}
	}
	says := questionValues(c)
	if entity := c.String("entity"); entity != "" {
		says.Set("entity", entity)
	}
	q, err := parse(c, "events", says)
	if err != nil {
		return o, err
	}
	if of := q.Entity; of.SubQueue != event.Main {
		return o, usageError{fmt.Errorf("--entity: %s is a sub-queue, and a slice contains whole entities; use --entity %s, then ledgerbus events '%s' --data OUT", of, of.Entity, of)}
	}
	o.Since, o.Until, o.Entity = q.Since, q.Until, q.Entity.Entity
	return o, nil
}

func slice(c *cli.Context) (err error) {
	dir, err := directory(c)
	if err != nil {
		return err
	}
	o, err := sliceOptions(c)
	if err != nil {
		return err
	}
	if c.String("into") == "" {
		return usageError{errors.New("missing --into; give --into OUT, which must be empty or not exist")}
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	how := beside(c)
	s, err := how.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // only reads
	in, err := tools.Receive(c.String("into"))
	if errors.Is(err, tools.ErrNotEmpty) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	tell := func(line ledger.Line) error {
		_, err := fmt.Fprintln(c.App.ErrWriter, output.OneLine(line.Text))
		return err
	}
	var bar progress
	if currentAudience().err {
		bar = newBar(c.App.ErrWriter, len(s.Partitions()), "cutting", "partitions")
	}
	o.Progress = func(int) { bar.add(1) }
	made, err := excerpt.Cut(ctx, s, tell, in, o)
	bar.finish()
	var found tools.Report
	if err == nil {
		found, err = in.Finish(c.App.ErrWriter)
	}
	if err != nil {
		return withQuestionExitCode(errors.Join(err, in.Drop()))
	}
	return printSlice(c, made, in.Bytes, found.Records)
}

// printSlice prints a summary of the slice.
func printSlice(c *cli.Context, s *excerpt.Slice, bytes int64, records uint64) error {
	events, messages := 0, 0
	for _, l := range s.Logs {
		events, messages = events+l.Events, messages+l.Messages
	}
	what := "all entities"
	if s.Entities != nil {
		what = strings.Join(s.Entities, ", ")
	}
	return output.Of(c).Said(fmt.Sprintf("%s is a slice of %s: %s, events %d, messages before them %d, bodies: %s, verified: %d bytes",
		c.String("into"), s.Of, what, events, messages, s.Bodies, bytes),
		print.Object{print.Named("directory", c.String("into")), print.Named("namespace", s.Namespace), print.Named("of", s.Of), print.Named("bodies", string(s.Bodies)),
			print.Named("entities", strings.Join(s.Entities, ", ")), print.Named("events", events), print.Named("messages", messages), print.Named("bytes", bytes)})
}

// printSliceNote prints that a directory is a slice and of what, because its history is incomplete.
func printSliceNote(w io.Writer, dir string, of log.Store) error {
	s, err := excerpt.Read(dir, of)
	if s == nil || err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, output.OneLine(s.String()))
	return err
}
