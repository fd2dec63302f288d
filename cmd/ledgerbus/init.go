package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name:  "init",
		Usage: "write a config file for production with newly generated keys",
		Description: "The file contains an access rule with two random keys of 256 bits, and the settings that production\n" +
			"needs most often. Only its owner can read it. An existing file is not overwritten.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "config", Value: "ledgerbus.yaml", Usage: "file to write"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError{fmt.Errorf("init takes no argument %q; see ledgerbus init --help", c.Args().First())}
			}
			file := c.String("config")
			if err := writeInitial(file); errors.Is(err, fs.ErrExist) {
				return usageError{fmt.Errorf("%s already exists: remove it, or name another file with --config", file)}
			} else if err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.App.Writer, "created %s. Start the broker with: ledgerbus serve --config %s\n"+
				"Clients connect with: Endpoint=sb://HOST;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=<primary-key in the file>\n", file, file)
			return err
		},
	}
}

// writeInitial writes the complete file with access for its owner only, whatever the umask is
// (reliability.md S3, S32).
func writeInitial(file string) error {
	text, err := settings.Initial()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = f.Chmod(0o600)
	if err == nil {
		_, err = f.Write(text)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
