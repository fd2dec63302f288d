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
		Usage: "print the certificate that clients must trust",
		Subcommands: []*cli.Command{
			{
				Name:  "export-ca",
				Usage: "print the certificate of the development authority",
				Description: "In development mode a broker signs its certificate with an authority created at its first start. Clients\n" +
					"must trust this authority: ledgerbus tls export-ca > ca.pem",
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
		return usageError{fmt.Errorf("%s contains no authority: a broker creates it at its first start in development mode", data)}
	}
	if err != nil {
		return err
	}
	_, err = c.App.Writer.Write(text)
	return err
}
