package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/client"
)

const connectTimeout = 30 * time.Second

func connectionFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "connection-string", Aliases: []string{"c"}, DefaultText: "the emulator's, at localhost",
		Usage: "of the namespace: this broker's, an emulator's or one in the cloud. It holds a key, which others on this machine " +
			"can read in the list of processes: prefer the environment [$LEDGERBUS_CONNECTION_STRING]",
	}
}

// session is a connection to a namespace and the entity a command is about.
type session struct {
	*client.Client
	entity string
	ctx    context.Context // ends with a signal
	stop   context.CancelFunc
}

// connect reads ENTITY and the connection string and connects.
func connect(c *cli.Context) (*session, error) {
	text := c.String("connection-string")
	if text == "" {
		text = os.Getenv("LEDGERBUS_CONNECTION_STRING")
	}
	if text == "" {
		text = client.DevelopmentConnectionString
	}
	cs, err := client.ParseConnectionString(text)
	if err != nil {
		return nil, usageError{err}
	}
	entity := c.Args().First()
	if entity == "" {
		entity = cs.EntityPath
	}
	if entity == "" {
		return nil, usageError{fmt.Errorf("which entity? ledgerbus %s ENTITY, such as orders or 'orders/$DeadLetterQueue'", c.Command.Name)}
	}
	if c.Args().Len() > 1 {
		return nil, usageError{fmt.Errorf("one entity at a time: %q is too much", c.Args().Get(1))}
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := client.Dial(dial, cs, client.Options{Product: "ledgerbus-cli"})
	if err != nil {
		stop()
		return nil, err
	}
	return &session{Client: conn, entity: entity, ctx: ctx, stop: stop}, nil
}

// close ends the connection. What mattered has been answered by now, so errors say nothing.
func (s *session) close() {
	_ = s.Client.Close()
	s.stop()
}
