package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

const (
	connectTimeout = 30 * time.Second
	maxCAFile      = 4 << 20
)

// connectionFlags returns the flags that select a namespace, followed by the command's other flags.
func connectionFlags(more ...cli.Flag) []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{
			Name: "connection-string", Aliases: []string{"c"}, DefaultText: "the emulator's, at localhost",
			Usage: "connection string of a Ledgerbus broker, an emulator or a cloud namespace. It contains a key, which other users of this machine " +
				"can see in the process list: prefer a context or the environment [$LEDGERBUS_CONNECTION_STRING]",
		},
		&cli.StringFlag{
			Name: "context", DefaultText: "the one in use",
			Usage: "name of a context saved with ledgerbus context set, instead of a connection string [$LEDGERBUS_CONTEXT]",
		},
		&cli.StringFlag{Name: "ca-file", Usage: "PEM file of a certificate authority to trust in addition to the system's, such as data/tls/ca.pem of a broker"},
	}, more)
}

// A namespace is the connection string and the TLS configuration for a command.
type namespace struct {
	client.ConnectionString
	trust *tls.Config // nil: the system's roots
}

// chooseNamespace selects the namespace by the flags, else by the environment, else by the context
// in use, else the emulator at localhost. Two sources at one level are an error, because the
// command may delete something.
func chooseNamespace(c *cli.Context) (namespace, error) {
	program.TrustRoots()
	text, name := c.String("connection-string"), c.String("context")
	if text != "" && name != "" {
		return namespace{}, usageError{errors.New("--connection-string and --context cannot be used together")}
	}
	if text == "" && name == "" {
		text, name = os.Getenv("LEDGERBUS_CONNECTION_STRING"), os.Getenv("LEDGERBUS_CONTEXT")
		if text != "" && name != "" {
			return namespace{}, usageError{errors.New("LEDGERBUS_CONNECTION_STRING and LEDGERBUS_CONTEXT are both set: unset one, or give --context")}
		}
	}
	saved := savedContext{ConnectionString: text}
	if text == "" {
		var err error
		if saved, err = chooseContext(name); err != nil {
			return namespace{}, err
		}
	}
	if file := c.String("ca-file"); file != "" {
		saved.CAFile = file
	}
	cs, err := client.ParseConnectionString(saved.ConnectionString)
	if err != nil {
		return namespace{}, usageError{err}
	}
	ns := namespace{ConnectionString: cs}
	if saved.CAFile != "" {
		if ns.trust, err = trust(saved.CAFile); err != nil {
			return namespace{}, err
		}
	}
	return ns, nil
}

// chooseContext returns the context with a name. Without a name it returns the context in use, or
// the emulator's connection string if none is in use.
func chooseContext(name string) (savedContext, error) {
	development := savedContext{ConnectionString: client.DevelopmentConnectionString}
	if _, err := contextsFile(); err != nil && name == "" {
		return development, nil
	}
	known, err := readContexts()
	if err != nil {
		return savedContext{}, err
	}
	if name == "" {
		name = known.Current
	}
	if name == "" {
		return development, nil
	}
	return known.get(name)
}

// trust returns a TLS configuration that trusts the authorities of a PEM file in addition to the
// system's.
func trust(file string) (*tls.Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("--ca-file: %w", err)}
	}
	defer f.Close()
	src, err := readBounded(f, file, maxCAFile)
	if err != nil {
		return nil, usageError{fmt.Errorf("--ca-file: %w", err)}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(src) {
		return nil, usageError{fmt.Errorf("--ca-file: %s contains no PEM certificate", file)}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
}

// A session is a connection to a namespace and the entity that a command works on.
type session struct {
	*client.Client
	entity string
	number event.SequenceNumber // of the message, if the argument names one; else 0
	ctx    context.Context      // ends with a signal
	stop   context.CancelFunc
}

// connect reads ENTITY, selects the namespace, and connects.
func connect(c *cli.Context) (*session, error) {
	ns, err := chooseNamespace(c)
	if err != nil {
		return nil, err
	}
	entity := c.Args().First()
	if entity == "" {
		entity = ns.EntityPath
	}
	if entity == "" {
		return nil, usageError{fmt.Errorf("missing ENTITY; usage: ledgerbus %s ENTITY, such as orders or 'orders/$dlq'", c.Command.Name)}
	}
	if c.Args().Len() > 1 {
		return nil, usageError{fmt.Errorf("extra argument %q: give one entity", c.Args().Get(1))}
	}
	at, err := address.Parse(entity)
	if err == nil && at.Place {
		err = fmt.Errorf("%s is a place in a log, not an entity", at)
	}
	if err != nil {
		return nil, usageError{err}
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := client.Dial(dial, ns.ConnectionString, client.Options{Product: "ledgerbus-cli", TLS: ns.trust})
	if err != nil {
		stop()
		return nil, err
	}
	return &session{Client: conn, entity: at.Path(), number: at.Number, ctx: ctx, stop: stop}, nil
}

// close ends the connection. Errors are ignored, because all relevant answers have arrived.
func (s *session) close() {
	_ = s.Client.Close()
	s.stop()
}
