package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

// maxHealthAnswer is how much of an answer is read, bytes; the broker's own has fewer than a hundred.
const maxHealthAnswer = 4 << 10

func healthCommand() *cli.Command {
	return &cli.Command{
		Name:  "health",
		Usage: "ask a broker on this machine whether it takes messages",
		Description: "The exit code is 0 if it does, and 1 if it does not or does not answer. For health checks of containers and service managers: it\n" +
			"finds the broker by the settings in the environment and in the config file, so it needs no argument where it sees those of the broker.\n" +
			"--address is for a broker whose addresses were given as flags. The certificate is not checked: no secret is sent.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "YAML file with the broker's settings [$LEDGERBUS_CONFIG]"},
			&cli.StringFlag{Name: "address", Usage: "HOST:PORT of the broker; add /tls to it for TLS", DefaultText: "one of those that the broker listens on"},
			&cli.DurationFlag{Name: "timeout", Usage: "how long to wait for the answer", Value: 8 * time.Second},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError{fmt.Errorf("health takes no argument %q; see ledgerbus health --help", c.Args().First())}
			}
			from := settings.Sources{File: configFile(c), Env: os.LookupEnv}
			if given := c.String("address"); given != "" {
				from = settings.Sources{Flags: map[string][]string{"listen": {given}, "insecure-no-tls": {"true"}}}
			}
			address, secure, err := settings.Local(from)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
			defer cancel()
			answer, err := askHealth(ctx, address, secure)
			if answer != "" {
				fmt.Fprintln(c.App.Writer, printable(answer))
			}
			return err
		},
	}
}

// askHealth asks the broker at an address. A broker that answers that it does not take messages is an error beside its answer.
func askHealth(ctx context.Context, address string, secure bool) (answer string, err error) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/health", nil)
	if err != nil {
		return "", usageError{err}
	}
	transport := &http.Transport{ // no proxy: the broker is here; no check of its certificate: nothing secret is sent
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", &client.Error{Op: "health", Text: fmt.Sprintf("%s does not answer: %v", address, err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return "", &client.Error{Op: "health", Text: fmt.Sprintf("%s broke off its answer: %v", address, err)}
	}
	if response.StatusCode != http.StatusOK {
		return strings.TrimSpace(string(body)), &client.Error{Op: "health", Text: fmt.Sprintf("%s is not healthy: it answers with status %d", address, response.StatusCode)}
	}
	return strings.TrimSpace(string(body)), nil
}
