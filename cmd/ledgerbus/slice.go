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
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/excerpt"
)

func sliceCommand() *cli.Command {
	return &cli.Command{
		Name:      "slice",
		Usage:     "cut a part out of a data directory, into a small one that all tools and a broker can open",
		ArgsUsage: "DIR",
		Description: "Keeps what happened between two instants, and the state before it, of all entities or of one: a topic comes with its subscriptions, and a\n" +
			"subscription with its topic and the others. Places, numbers and times are those of DIR. OUT is a namespace of its own, in which nothing\n" +
			"moves between entities; its slice.json says what it is. Unless --bodies is keep, a note takes the place of each body. With hash the note\n" +
			"has the SHA-256 of the payload, so that whoever has a body, or guesses it, can find its message. Keys of access rules are replaced.\n\n" +
			"   ledgerbus slice ./data --since 02:40 --until 03:20 --into incident\n" +
			"   ledgerbus slice ./data --entity orders --bodies keep --into incident\n" +
			"   ledgerbus why 'orders/$dlq' --data incident" + besideHelp,
		Flags: []cli.Flag{
			liveFlag(),
			&cli.StringFlag{Name: "into", Usage: "directory to write to: it is made, or is empty"},
			&cli.StringFlag{Name: "since", Usage: "only from this instant on; a duration means that long ago", DefaultText: "the beginning of history"},
			&cli.StringFlag{Name: "until", Usage: "only up to this instant", DefaultText: "the end"},
			&cli.StringFlag{Name: "entity", Usage: "only what is about this entity"},
			&cli.StringFlag{Name: "bodies", Value: string(excerpt.Drop), Usage: "what becomes of bodies, session states and property changes: keep, drop or hash"},
			tableFlag(),
		},
		Action: slice,
	}
}

// sliceOptions are those that the flags give.
func sliceOptions(c *cli.Context) (o excerpt.Options, err error) {
	o = excerpt.Options{Bodies: excerpt.Bodies(c.String("bodies")), Now: time.Now()}
	if o.Bodies != excerpt.Keep && o.Bodies != excerpt.Drop && o.Bodies != excerpt.Hash {
		return o, usageError{fmt.Errorf("--bodies: %q is not one of keep, drop, hash", o.Bodies)}
	}
	if o.Since, err = instantFlag(c, "since"); err != nil {
		return o, err
	}
	if o.Until, err = instantFlag(c, "until"); err != nil {
		return o, err
	}
	if text := c.String("entity"); text != "" {
		of, err := address.Parse(text)
		if err == nil && (of.Place || of.Number != 0) {
			err = fmt.Errorf("%s is not an entity", of)
		}
		if err != nil {
			return o, usageError{fmt.Errorf("--entity: %w", err)}
		}
		if of.SubQueue != event.Main {
			return o, usageError{fmt.Errorf("--entity: %s is a sub-queue, and a slice has whole entities: --entity %s, and then ledgerbus events '%s' --data OUT", of, of.Entity, of)}
		}
		o.Entity = of.Entity
	}
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
		return usageError{errors.New("into which directory? give --into OUT, which must be empty or not exist yet")}
	}
	f, err := tableFormat(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	how := beside(c)
	s, err := how.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was only read
	in, err := tools.Receive(c.String("into"))
	if errors.Is(err, tools.ErrNotEmpty) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	tell := func(line ledger.Line) error { _, err := fmt.Fprintln(c.App.ErrWriter, oneLine(line.Text)); return err }
	var bar progress
	if theAudience().err {
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
		return known(errors.Join(err, in.Drop()))
	}
	return tellSlice(c, f, made, in.Bytes, found.Records)
}

// tellSlice says what was made.
func tellSlice(c *cli.Context, f format, s *excerpt.Slice, bytes int64, records uint64) error {
	events, messages := 0, 0
	for _, l := range s.Logs {
		events, messages = events+l.Events, messages+l.Messages
	}
	if f != formatTable {
		return printOne(c.App.Writer, f, row{text("directory", c.String("into")), text("namespace", s.Namespace), text("of", s.Of), text("bodies", string(s.Bodies)),
			text("entities", strings.Join(s.Entities, ", ")), number("events", int64(events)), number("messages", int64(messages)), number("bytes", bytes)})
	}
	what := "all entities"
	if s.Entities != nil {
		what = strings.Join(s.Entities, ", ")
	}
	_, err := fmt.Fprintf(c.App.Writer, "%s is a slice of %s: %s, events %d, messages before them %d, bodies: %s, verified: %d bytes\n",
		oneLine(c.String("into")), s.Of, oneLine(what), events, messages, s.Bodies, bytes)
	return err
}

// sayOfSlice says that a directory is a slice, and of what, so that nobody takes what it lacks for what never was.
func sayOfSlice(w io.Writer, dir string, of log.Store) error {
	s, err := excerpt.Read(dir, of)
	if s == nil || err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, oneLine(s.String()))
	return err
}
