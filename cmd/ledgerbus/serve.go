package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the broker",
		Description: "SIGINT or SIGTERM stops the broker: it accepts no more connections, closes the open ones, and closes the log.\n" +
			"A second signal ends it at once; even then it loses nothing that it acknowledged. On SIGHUP it reads its settings again\n" +
			"and applies the access rules and the certificate; all other settings need a restart.\n\n" +
			"Without flags it runs in development mode: it keeps its log in ./data, listens on 127.0.0.1:5672 and 127.0.0.1:5300\n" +
			"and accepts the connection string of the Service Bus emulator. Both ports speak AMQP, AMQP in a WebSocket and\n" +
			"HTTP (entity management, GET /health), with TLS and without.\n\n" +
			"TLS: in development mode the broker makes its certificate in the data directory, signed by an authority that it also\n" +
			"makes there. Clients have to trust that authority: data/tls/ca.pem. Give your own certificate with\n" +
			"--tls-certificate-file and --tls-key-file. An address that other machines can reach takes only TLS, and needs access\n" +
			"rules with your own key (ledgerbus init makes a file with one). On private addresses --insecure-no-tls waives the first\n" +
			"and --insecure-no-auth the second; on public addresses --i-accept-the-risk is needed as well. The broker uses a\n" +
			"certificate whose file has changed without a restart.\n\n" +
			"Clock: a start is refused (exit code 2, nothing is written) when the machine's clock is earlier than the build of this\n" +
			"program, more than an hour earlier than the newest event in the log, or later than that event by more than\n" +
			"--clock-max-gap. A smaller gap counts as downtime. Set the clock right; where that is not the answer, --accept-clock=log\n" +
			"goes on from the newest event, and --accept-clock=wall sets broker time to the clock and moves all deadlines with it.\n" +
			"The flag decides about one start, and is not a setting.\n\n" +
			"The options below are the settings that people change; docs/guide/settings.md lists all. Each is a flag, an environment\n" +
			"variable (LEDGERBUS_ and its name) and a key of the file that --config names. A flag wins over the environment, the\n" +
			"environment over the file. Access rules and their keys come only from the file or LEDGERBUS_ACCESS_RULES.\n" +
			"Durations are written 90s, 10m, 7d or 1d12h, sizes 64MiB, 1GiB or in bytes.",
		Flags: serveFlags(),
		Action: func(c *cli.Context) error {
			s, err := loadSettings(c)
			if err != nil {
				return err
			}
			startLogging(s.Logging)
			logNotes(s.Notes)
			s.Version = program.Version()
			return serve(c.Context, s, func() (settings.Settings, error) { return loadSettings(c) }, c.App.Writer)
		},
	}
}

// serveFlags makes a flag of every word of the settings. The help shows the common ones.
func serveFlags() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{Name: "config", Usage: "YAML file with settings [$LEDGERBUS_CONFIG]"}}
	for _, w := range settings.Words() {
		switch w.Shape {
		case settings.Many:
			flags = append(flags, &cli.StringSliceFlag{Name: w.Flag(), Usage: w.Usage, DefaultText: w.Default, Hidden: !w.Common})
		case settings.Switch:
			flags = append(flags, &cli.BoolFlag{Name: w.Flag(), Usage: w.Usage, Hidden: !w.Common})
		default:
			flags = append(flags, &cli.StringFlag{Name: w.Flag(), Usage: w.Usage, DefaultText: w.Default, Hidden: !w.Common})
		}
	}
	return flags
}

func loadSettings(c *cli.Context) (settings.Settings, error) {
	if c.Args().Present() {
		return settings.Settings{}, usageError{fmt.Errorf("serve takes no argument %q; see ledgerbus serve --help", c.Args().First())}
	}
	from := settings.Sources{File: configFile(c), Env: os.LookupEnv, Flags: map[string][]string{}}
	for _, w := range settings.Words() {
		name := w.Flag()
		switch {
		case !c.IsSet(name):
		case w.Shape == settings.Many:
			from.Flags[w.Name] = c.StringSlice(name)
		case w.Shape == settings.Switch:
			from.Flags[w.Name] = []string{fmt.Sprint(c.Bool(name))}
		default:
			from.Flags[w.Name] = []string{c.String(name)}
		}
	}
	return settings.Load(from)
}

// configFile returns the file with settings that the command line or the environment names, "" when
// there is none.
func configFile(c *cli.Context) string {
	return cmp.Or(c.String("config"), os.Getenv("LEDGERBUS_CONFIG"))
}

func startLogging(l settings.Logging) {
	options := &slog.HandlerOptions{Level: l.Level}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, options)
	if l.Format == "json" {
		handler = slog.NewJSONHandler(os.Stderr, options)
	}
	slog.SetDefault(slog.New(handler))
}

// logNotes logs which settings should be changed.
func logNotes(notes []settings.Note) {
	for _, n := range notes {
		if n.Fixed {
			slog.Warn("setting has no effect", "setting", n.Old, "place", n.Where, "fixed_value", n.New)
			continue
		}
		slog.Warn("setting has an old spelling", "old", n.Old, "new", n.New, "place", n.Where)
	}
}

// serve runs a broker until a signal, the end of the context or a failure. On SIGHUP it loads the
// settings again.
func serve(ctx context.Context, s settings.Settings, load func() (settings.Settings, error), w io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	program.TrustRoots() // an issuer of identity tokens is reached over TLS
	limit, tellMemory := boundMemory(s.MemoryLimit)
	s.MemoryBudget = limit
	srv, err := broker.Start(ctx, s)
	if wasStopped(ctx, err) {
		slog.Info("stopped while starting")
		return nil
	}
	if err != nil {
		return err
	}
	tellMemory()
	announce(w, srv)
	var failure error
	for running := true; running; {
		select {
		case <-again:
			reload(srv, load)
			continue
		case <-ctx.Done():
			slog.Info("stopping")
		case failure = <-srv.Failed():
			slog.Error("stopping because a part of the broker failed", "error", failure)
		}
		running = false
	}
	stop() // from now on a signal ends the process at once
	err = srv.Close()
	if failure != nil {
		if exitCode(failure) == exitRefused { // not a fault we know
			failure = fmt.Errorf("%w: %w", errInternal, failure)
		}
		return failure
	}
	if errors.Is(err, log.ErrClosed) {
		return nil
	}
	return err
}

// wasStopped reports whether a start failed only because it was told to stop.
func wasStopped(ctx context.Context, err error) bool {
	// and for no other known fault
	return ctx.Err() != nil && errors.Is(err, context.Canceled) && exitCode(err) == exitRefused
}

// reload applies the settings as they are now to a running broker, as far as it can. Wrong settings
// change nothing.
func reload(srv *broker.Server, load func() (settings.Settings, error)) {
	s, err := load()
	if err == nil {
		err = srv.Reload(s)
	}
	if err != nil {
		slog.Error("settings not reloaded", "error", err)
		return
	}
	slog.Info("access rules and certificate reloaded; other settings need a restart", "rules", len(s.Access))
}

// announceTLS prints the addresses for TLS and WebSockets.
func announceTLS(line func(name, format string, args ...any), srv *broker.Server) {
	const path = "/$servicebus/websocket"
	first := srv.Endpoints()[0]
	if first.Mode != settings.ListenTLS {
		line("WebSocket", "ws://%s%s", first.Authority("80"), path)
	}
	for _, e := range srv.Endpoints() {
		if e.Mode == settings.ListenPlain || srv.Settings().TLS.From == settings.TLSOff {
			continue
		}
		line("with TLS", "amqps://%s and wss://%s%s", e.Authority("5671"), e.Authority("443"), path)
		break
	}
	if file := srv.Trust(); file != "" {
		if absolute, err := filepath.Abs(file); err == nil {
			file = absolute
		}
		line("clients trust", "%s", file)
	}
}

// announceEntities prints the entities.
func announceEntities(line func(name, format string, args ...any), srv *broker.Server) {
	names := map[event.EntityKind][]string{}
	for _, e := range srv.Engine().Entities() {
		names[e.Kind] = append(names[e.Kind], e.Path)
	}
	list := func(what string, names []string) {
		switch n := len(names); {
		case n > 10:
			line(what, "%s and %d more", strings.Join(names[:10], ", "), n-10)
		case n > 0:
			line(what, "%s", strings.Join(names, ", "))
		}
	}
	list("queues", names[event.Queue])
	list("topics", names[event.Topic])
	if n := len(names[event.Subscription]); n > 0 {
		line("subscriptions", "%d", n)
	}
	if len(names) == 0 {
		line("entities", "none yet: ledgerbus queue create NAME, or start with --entities FILE")
	}
}

// ready is the line of the emulator that tools which start one wait for on standard output.
const ready = "Emulator Service is Successfully Up!"

// liftedProtections names the protections that switches have lifted for the addresses of the
// listeners.
func liftedProtections(s settings.Settings, endpoints []broker.Endpoint) []string {
	far := slices.ContainsFunc(endpoints, func(e broker.Endpoint) bool { return !e.Loopback() })
	plain := slices.ContainsFunc(endpoints, func(e broker.Endpoint) bool { return !e.Loopback() && e.Mode != settings.ListenTLS })
	var lifted []string
	for _, l := range []struct {
		on   bool
		what string
	}{
		{plain, "addresses other than loopback are served without TLS"},
		{far && s.DevelopmentKey(), "addresses other than loopback accept the emulator's well-known key"},
		{s.Identity.AnyBearer, "any bearer token has all rights"},
	} {
		if l.on {
			lifted = append(lifted, l.what)
		}
	}
	return lifted
}

// announce prints how to use the broker.
func announce(w io.Writer, srv *broker.Server) {
	s := srv.Settings()
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-18s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "Ledgerbus %s, %s mode\n", program.Version(), s.Mode)
	for _, e := range srv.Endpoints() {
		name := "listening on"
		if e.Mode == settings.ListenTLS {
			name += " (TLS)"
		}
		line(name, "%s", e.Addr)
	}
	line("connection string", "%s", srv.ConnectionString())
	announceTLS(line, srv)
	data := s.Storage.Data
	if absolute, err := filepath.Abs(data); err == nil {
		data = absolute
	}
	line("data directory", "%s", data)
	line("recovered", "%s", srv.Recovered())
	for _, err := range srv.Recovered().Refused {
		line("NOT SERVED", "%v", err)
	}
	announceEntities(line, srv)
	for _, what := range liftedProtections(s, srv.Endpoints()) {
		line("INSECURE", "%s", what)
		slog.Warn("insecure: " + what)
	}
	if s.Mode == settings.Development {
		b.WriteString(ready + "\n")
	}
	// an error changes nothing: the broker runs without a reader of its output
	_, _ = io.WriteString(w, b.String())
}
