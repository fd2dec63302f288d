package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/broker"
)

func tlsCommand() *cli.Command {
	return &cli.Command{
		Name:  "tls",
		Usage: "what clients need to trust a broker",
		Subcommands: []*cli.Command{
			{
				Name:  "export-ca",
				Usage: "print the certificate of the development authority",
				Description: "A broker in development mode makes its certificate itself and signs it with an authority made at its first start. Clients\n" +
					"have to trust that one: ledgerbus tls export-ca > ca.pem",
				Flags:  []cli.Flag{&cli.StringFlag{Name: "data", Usage: "data directory of the broker [$LEDGERBUS_DATA]", DefaultText: "data"}},
				Action: exportAuthority,
			},
		},
	}
}

func exportAuthority(c *cli.Context) error {
	if c.Args().Present() {
		return usageError{fmt.Errorf("tls export-ca takes no argument %q; see ledgerbus tls export-ca --help", c.Args().First())}
	}
	data := cmp.Or(c.String("data"), os.Getenv("LEDGERBUS_DATA"), "data")
	text, err := broker.Authority(data)
	if errors.Is(err, fs.ErrNotExist) {
		return usageError{fmt.Errorf("there is no authority in %s: a broker in development mode makes it when it starts for the first time", data)}
	}
	if err != nil {
		return err
	}
	_, err = c.App.Writer.Write(text)
	return err
}
