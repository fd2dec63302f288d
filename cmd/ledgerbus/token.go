package main

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/internal/program"
)

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name:      "token",
		Usage:     "print a token for the HTTP API",
		ArgsUsage: "[ENTITY]",
		Description: "Prints a shared access signature for the whole namespace or for one entity. It is made on this machine with\n" +
			"the key of the connection string and expires after an hour. Until then it grants the rights of the key, so\n" +
			"protect it like the key. Use it in the Authorization header of requests such as those in\n" +
			"docs/guide/ledger-api.md:\n\n" +
			"   curl -H \"Authorization: $(ledgerbus token)\" http://localhost:5300/\\$ledger/v1/partitions\n" +
			"   ledgerbus token orders --context staging",
		Flags: connectionFlags(),
		Action: func(c *cli.Context) error {
			if err := arguments(c, 0, 1, "[ENTITY]"); err != nil {
				return err
			}
			ns, err := chooseNamespace(c)
			if err != nil {
				return err
			}
			entity := ns.EntityPath
			if c.Args().Present() {
				of, err := address.Parse(c.Args().First())
				if err == nil && (of.Place || of.Number != 0) {
					err = fmt.Errorf("%s is not an entity", of)
				}
				if err != nil {
					return usageError{err}
				}
				entity = of.Path()
			}
			resource := url.URL{Scheme: "https", Host: ns.Host, Path: "/" + entity}
			if strings.Contains(ns.Host, ":") {
				resource.Host = "[" + ns.Host + "]"
			}
			_, err = fmt.Fprintln(c.App.Writer, program.Printable(ns.Token(resource.String(), time.Now())))
			return err
		},
	}
}
