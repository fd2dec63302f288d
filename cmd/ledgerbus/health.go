package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
)

// maxHealthAnswer is the number of bytes of an answer that are read. The broker's answer has fewer
// than a hundred.
const maxHealthAnswer = 4 << 10

// Paths that a broker answers without a token.
const (
	healthPath = "/health"
	livePath   = "/livez"
	readyPath  = "/readyz"
)

func healthCommand() *cli.Command {
	return &cli.Command{
		Name:  "health",
		Usage: "check whether a broker accepts messages, is live or is ready",
		Description: "For health checks of containers and service managers. The exit code is 0 if the answer is yes, and 1 if\n" +
			"it is no or the broker does not answer. Without a flag the command checks whether messages are accepted.\n" +
			"A full disk is no reason to restart a broker or to keep its consumers away: for an orchestrator's probes\n" +
			"use --live and --ready.\n\n" +
			"   ledgerbus health --live      # no loop is stuck\n" +
			"   ledgerbus health --ready     # connections are accepted\n\n" +
			"The broker is determined by the first of these that is set:\n\n" +
			"  1. --address, --config, --connection-string or --context\n" +
			"  2. LEDGERBUS_CONNECTION_STRING or LEDGERBUS_CONTEXT\n" +
			"  3. the settings LEDGERBUS_CONFIG and LEDGERBUS_LISTEN, as in a broker's container\n" +
			"  4. the context in use\n\n" +
			"If none is set, it is the broker that serve starts without settings. On this machine the certificate is not\n" +
			"checked, because no secret is sent.",
		Flags: connectionFlags(
			&cli.StringFlag{Name: "config", Usage: "YAML file with the broker's settings [$LEDGERBUS_CONFIG]"},
			&cli.StringFlag{Name: "address", Usage: "HOST:PORT of the broker; append /tls for TLS", DefaultText: "one of the broker's listeners"},
			&cli.BoolFlag{Name: "live", Usage: "check whether the process is live: no means that a restart would help"},
			&cli.BoolFlag{Name: "ready", Usage: "check whether clients can connect"},
			&cli.GenericFlag{Name: "timeout", Usage: "how long to wait for the answer", Value: &quantity.DurationFlag{Value: 8 * time.Second}},
		),
		Action: checkHealth,
	}
}

func checkHealth(c *cli.Context) error {
	if c.Args().Present() {
		return usageError{fmt.Errorf("health takes no argument %q; see ledgerbus health --help", c.Args().First())}
	}
	path := healthPath
	switch {
	case c.Bool("live") && c.Bool("ready"):
		return usageError{errors.New("--live and --ready cannot be used together")}
	case c.Bool("live"):
		path = livePath
	case c.Bool("ready"):
		path = readyPath
	}
	local, err := isLocalCheck(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, program.DurationOf(c, "timeout"))
	defer cancel()
	ask := askNamespace
	if local {
		ask = askLocal
	}
	answer, err := ask(ctx, c, path)
	if answer != "" {
		fmt.Fprintln(c.App.Writer, program.Printable(answer))
	}
	return err
}

// isLocalCheck reports whether health is about a broker on this machine, found by its address or
// settings, and not about the namespace of other commands.
func isLocalCheck(c *cli.Context) (bool, error) {
	here := cmp.Or(c.String("address"), c.String("config")) != ""
	there := cmp.Or(c.String("connection-string"), c.String("context")) != ""
	switch {
	case here && there:
		return false, usageError{errors.New("--address and --config cannot be used with --connection-string or --context")}
	case here || there:
		return here, nil
	case cmp.Or(os.Getenv("LEDGERBUS_CONNECTION_STRING"), os.Getenv("LEDGERBUS_CONTEXT")) != "":
		return false, nil
	case cmp.Or(os.Getenv("LEDGERBUS_CONFIG"), os.Getenv("LEDGERBUS_LISTEN")) != "":
		return true, nil
	}
	if _, err := contextsFile(); err != nil {
		return true, nil // no contexts, as in a service without a home folder
	}
	known, err := readContexts()
	return err == nil && known.Current == "", err
}

// askNamespace asks the namespace of the flags, the environment or the context in use.
func askNamespace(ctx context.Context, c *cli.Context, path string) (answer string, err error) {
	ns, err := chooseNamespace(c)
	if err != nil {
		return "", err
	}
	a := admin.NewFrom(ns.ConnectionString, admin.Options{Product: "ledgerbus-cli", TLS: ns.trust})
	defer a.Close()
	h, err := a.Health(ctx, path)
	if err != nil {
		return "", err
	}
	if !h.Well {
		err = notInState(a.Host(), path, h.Code)
	}
	return h.Text, err
}

// notInState returns the error for a broker that answers no.
func notInState(address, path string, status int) error {
	state := map[string]string{healthPath: "healthy", livePath: "live", readyPath: "ready"}[path]
	return &client.Error{Op: "health", Text: fmt.Sprintf("%s is not %s: it answered with status %d", address, state, status)}
}

// askLocal asks the broker at an address of this machine. If the broker answers no, askLocal
// returns both the answer and an error.
func askLocal(ctx context.Context, c *cli.Context, path string) (answer string, err error) {
	from := settings.Sources{File: configFile(c), Env: os.LookupEnv}
	if given := c.String("address"); given != "" {
		from = settings.Sources{Flags: map[string][]string{"listen": {given}, "insecure-no-tls": {"true"}}}
	}
	address, secure, err := settings.Local(from)
	if err != nil {
		return "", err
	}
	scheme := "http"
	if secure {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+path, nil)
	if err != nil {
		return "", usageError{err}
	}
	// no proxy, because the broker is local; no certificate check, because no secret is sent
	transport := &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", &client.Error{Op: "health", Text: fmt.Sprintf("%s does not answer: %v", address, err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return "", &client.Error{Op: "health", Text: fmt.Sprintf("%s: the answer was interrupted: %v", address, err)}
	}
	if response.StatusCode != http.StatusOK {
		err = notInState(address, path, response.StatusCode)
	}
	return strings.TrimSpace(string(body)), err
}
