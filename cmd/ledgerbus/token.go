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
		Description: "Prints a shared access signature, made here with the key of the connection string and good for an hour: for the whole namespace,\n" +
			"or for one entity alone. Until it expires it gives the rights of the key: treat it like one. It is for the header Authorization\n" +
			"of requests such as those in docs/guide/ledger-api.md:\n\n" +
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
