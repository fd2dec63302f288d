package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/ledger"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// followEvery is how long there is between two looks at a directory: a broker says once a second how far its log is durable.
const followEvery = time.Second

// followDirectory prints what happens in a directory, until it is told to stop. Each look goes on where the one before ended, in each log, so that nothing is
// there twice and nothing is left out; in the order of their times are the events of one look.
func followDirectory(c *cli.Context, q *ledger.Question) error {
	switch {
	case !c.IsSet("data"):
		return usageError{errors.New("--follow is about a directory: it goes with --data")}
	case q.Until != nil:
		return usageError{errors.New("give either --follow or --until")}
	}
	t, err := newAnswerPrinter(c, q.Columns())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var after map[log.PartitionID]event.LSN
	if q.Since != nil {
		after = map[log.PartitionID]event.LSN{}
	}
	for {
		told := false
		tell := func(l ledger.Line) error { told = true; return t.tell(l) }
		after, err = lookAgain(ctx, c.String("data"), tell, ledger.Range{Since: q.Since, Entity: q.Entity, MessageID: q.MessageID, Types: q.Types, Where: q.Where, After: after})
		if errors.Is(err, log.ErrChanged) && !told { // a broker has started: what it goes on with follows what was read
			err = nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return known(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// lookAgain tells what there is in a directory behind some places, and returns where it ended. Without places it looks where they are.
func lookAgain(ctx context.Context, dir string, tell ledger.Tell, r ledger.Range) (after map[log.PartitionID]event.LSN, err error) {
	s, err := log.Open(ctx, dir, log.Options{Shared: true})
	if err != nil {
		return r.After, err
	}
	defer func() { _ = s.Close() }() // it was only read
	l := ledger.New(s, tell)
	ends, err := l.Ends(ctx)
	if err != nil || r.After == nil {
		return ends, err
	}
	moved := false
	for id, end := range ends {
		moved = moved || end > r.After[id]
	}
	if !moved {
		return r.After, nil
	}
	if err := l.Events(ctx, r); err != nil && !errors.Is(err, ledger.ErrNothing) {
		return r.After, err
	}
	return ends, nil
}
