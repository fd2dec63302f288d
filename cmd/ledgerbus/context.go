package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/tools/client"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

const maxConnectionString = 8 << 10

func contextCommand() *cli.Command {
	return &cli.Command{
		Name:  "context",
		Usage: "manage saved connection strings",
		Description: "A context is a named connection string with the certificate authority to trust. Contexts are saved in a\n" +
			"file that only you can read: contexts.yaml in your configuration folder, or the file named in\n" +
			"LEDGERBUS_CONTEXTS. A command uses the context given with --context or LEDGERBUS_CONTEXT. With neither,\n" +
			"and without a connection string, it uses the context in use.\n\n" +
			"   ledgerbus context set staging --connection-string-file staging.txt\n" +
			"   ledgerbus context use staging",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "print all contexts, without their keys",
				Description: "Marks the context in use with a star.\n\n   ledgerbus context list -o json",
				Flags:       []cli.Flag{output.Flag()},
				Action:      listContexts,
			},
			{
				Name: "show", Usage: "print one context, without its key", ArgsUsage: "[NAME]",
				Description: "Without a name, prints the context in use.\n\n   ledgerbus context show staging",
				Flags:       []cli.Flag{output.Flag()},
				Action:      showContext,
			},
			{
				Name: "set", Usage: "create or replace a context", ArgsUsage: "NAME",
				Description: "Asks for the connection string, or reads it from standard input if that is not a terminal. There is no\n" +
					"flag for the connection string: other users of this machine could read its key on the command line.\n\n" +
					"   ledgerbus context set staging --connection-string-file staging.txt --ca-file ca.pem --use\n" +
					"   secret-tool lookup bus staging | ledgerbus context set staging\n" +
					"   ledgerbus context set local --from-environment",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "connection-string-file", Usage: "file with the connection string, readable only by you; - for standard input"},
					&cli.BoolFlag{Name: "from-environment", Usage: "take the connection string from LEDGERBUS_CONNECTION_STRING"},
					&cli.StringFlag{Name: "ca-file", Usage: "PEM file of a certificate authority to trust in addition to the system's"},
					&cli.BoolFlag{Name: "use", Usage: "use this context from now on"},
				},
				Action: setContext,
			},
			{
				Name: "use", Usage: "use a context from now on", ArgsUsage: "NAME",
				Description: "   ledgerbus context use staging", Action: useContext,
			},
			{
				Name: "delete", Usage: "delete a saved context", ArgsUsage: "NAME",
				Description: "Deletes the saved connection string only; the broker is not changed.\n\n   ledgerbus context delete staging", Action: deleteContext,
			},
		},
	}
}

// contextRow returns a context as a row.
func contextRow(known *contexts, name string) print.Object {
	where := "(not a connection string)"
	if cs, err := client.ParseConnectionString(known.Named[name].ConnectionString); err == nil {
		where = cs.String()
	}
	current := ""
	if known.Current == name {
		current = "*"
	}
	return print.Object{print.Named("current", output.Shown{Text: current, Value: known.Current == name}), print.Named("name", name),
		print.Named("connectionString", where), print.Named("caFile", known.Named[name].CAFile)}
}

func listContexts(c *cli.Context) error {
	if err := arguments(c, 0, 0, ""); err != nil {
		return err
	}
	known, err := readContexts()
	if err != nil {
		return err
	}
	out, names := output.Of(c), known.names()
	if len(names) == 0 && out.Format == output.Text {
		fmt.Fprintln(c.App.ErrWriter, "no contexts; create one with ledgerbus context set NAME")
		return nil
	}
	return output.Rows(out, names, func(name string) print.Object { return contextRow(known, name) })
}

func showContext(c *cli.Context) error {
	if err := arguments(c, 0, 1, "[NAME]"); err != nil {
		return err
	}
	known, err := readContexts()
	if err != nil {
		return err
	}
	name := c.Args().First()
	if name == "" {
		name = known.Current
	}
	if name == "" {
		return usageError{errors.New("no context is in use; " + known.choice())}
	}
	if _, err := known.get(name); err != nil {
		return err
	}
	return output.Of(c).One(contextRow(known, name))
}

func setContext(c *cli.Context) error {
	if err := arguments(c, 1, 1, "NAME"); err != nil {
		return err
	}
	name := c.Args().First()
	if err := checkContextName(name); err != nil {
		return err
	}
	known, err := readContexts()
	if err != nil {
		return err
	}
	text, err := secretConnectionString(c, name)
	if err != nil {
		return usageError{err}
	}
	if _, err := client.ParseConnectionString(text); err != nil {
		return usageError{err}
	}
	saved := savedContext{ConnectionString: text}
	if file := c.String("ca-file"); file != "" {
		if _, err := trust(file); err != nil {
			return err
		}
		if saved.CAFile, err = filepath.Abs(file); err != nil {
			return err
		}
	}
	known.Named[name] = saved
	if c.Bool("use") {
		known.Current = name
	}
	return known.write()
}

// secretConnectionString reads a connection string from a source that other users cannot see.
func secretConnectionString(c *cli.Context, name string) (string, error) {
	file := c.String("connection-string-file")
	var src []byte
	var err error
	switch {
	case c.Bool("from-environment") && file != "":
		return "", errors.New("--connection-string-file and --from-environment cannot be used together")
	case c.Bool("from-environment"):
		if src = []byte(os.Getenv("LEDGERBUS_CONNECTION_STRING")); len(src) == 0 {
			return "", errors.New("LEDGERBUS_CONNECTION_STRING is not set")
		}
	case file != "" && file != "-":
		src, err = readPrivate(file, maxConnectionString)
	case file == "" && term.IsTerminal(int(os.Stdin.Fd())):
		fmt.Fprintf(os.Stderr, "connection string of %s (not shown): ", name)
		src, err = term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(os.Stderr)
	default:
		src, err = readBounded(os.Stdin, "standard input", maxConnectionString)
	}
	return strings.TrimSpace(string(src)), err
}

func useContext(c *cli.Context) error {
	if err := arguments(c, 1, 1, "NAME"); err != nil {
		return err
	}
	known, err := readContexts()
	if err != nil {
		return err
	}
	if _, err := known.get(c.Args().First()); err != nil {
		return err
	}
	known.Current = c.Args().First()
	return known.write()
}

func deleteContext(c *cli.Context) error {
	if err := arguments(c, 1, 1, "NAME"); err != nil {
		return err
	}
	known, err := readContexts()
	if err != nil {
		return err
	}
	name := c.Args().First()
	if _, err := known.get(name); err != nil {
		return err
	}
	delete(known.Named, name)
	if known.Current == name {
		known.Current = ""
	}
	return known.write()
}
