package main

import (
	"crypto/x509"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// trustRoots has the root certificates that the binary brings used where the machine has none, as in the container image. To parse them takes more than a
// millisecond, a third of the start of a process, so commands do it that may reach others over TLS: all but those that [answersAlone] knows.
var trustRoots = sync.OnceFunc(func() {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			panic(err) // they are part of the program
		}
		if root.Constraint != nil {
			pool.AddCertWithConstraint(cert, root.Constraint)
		} else {
			pool.AddCert(cert)
		}
	}
	x509.SetFallbackRoots(pool)
})

// answersAlone reports whether a command reads nothing but a data directory, or nothing at all.
func answersAlone(c *cli.Context) bool {
	switch c.Command.Name {
	case "version":
		return true
	case "story", "why", "at", "diff", "when", "audit", "events":
		return c.IsSet("data")
	}
	return false
}

// trusting has all commands call trustRoots before they act, where they may need it.
func trusting(commands []*cli.Command) []*cli.Command {
	for _, c := range commands {
		if len(c.Subcommands) > 0 {
			trusting(c.Subcommands)
			continue
		}
		c.Before = func(c *cli.Context) error {
			if !answersAlone(c) {
				trustRoots()
			}
			return nil
		}
	}
	return commands
}
