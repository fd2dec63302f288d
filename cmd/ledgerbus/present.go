package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/present"
	"github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/log"
	stored "github.com/ledgerbus/ledgerbus/protocol/message"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/offline"
)

// A presence answers questions about the present: a running broker, or the end of the logs of a
// directory.
type presence interface {
	Now(ctx context.Context) (rows.Now, error)
	Entities(ctx context.Context, q rows.Query) (rows.Entities, error)
	Entity(ctx context.Context, path string) (rows.Entity, error)
	Sessions(ctx context.Context, path string, top int, after *string) (rows.Sessions, error)
	Messages(ctx context.Context, q rows.MessagesQuery) (rows.Messages, error)
}

var (
	_ presence = (*admin.Client)(nil)
	_ presence = (*present.Namespace)(nil)
)

// storedReader returns a reader of stored messages.
func storedReader() present.Reader { return new(stored.StoredReader) }

const presentHelp = "\n\nAsks a broker, with a key that has the right ReadHistory or Manage. With --data it reads a backup or a data\n" +
	"directory instead, and shows the state at the end of its log."

// presentFlags returns the flags that name a broker or a directory.
func presentFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "data", Usage: "data directory or backup to read, instead of a broker; a broker may be running on it"},
		liveFlag(),
	}
}

// withPresence calls do with the broker or the directory that the flags name.
func withPresence(c *cli.Context, do func(ctx context.Context, of presence) error) error {
	if !c.IsSet("data") {
		if c.Bool("live") {
			return usageError{errors.New("--live needs --data")}
		}
		return administer(c, func(a *administration) error { return withBrokerExitCode(do(a.ctx, a.Client)) })
	}
	if err := refuseNamespaceFlags(c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return readDirectory(ctx, c, func(s log.Store) error {
		end, err := offline.Open(ctx, s)
		if err != nil {
			return err
		}
		err = do(ctx, present.New(end, time.Now).Ended().ReadWith(storedReader))
		if errors.Is(err, present.ErrQuestion) {
			err = usageError{err}
		}
		return err
	})
}
