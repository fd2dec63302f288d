package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/ledger"
	"github.com/ledgerbus/ledgerbus/ledger/print"
)

func formFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "text, json for one object per line, or csv for the rows alone"}
}

// teller prints answers about the past in one of the forms that all of them have.
type teller struct {
	out, notes io.Writer
	columns    []string // of rows
	csv        *csv.Writer
	json       bool
}

func newTeller(c *cli.Context, columns []string) (*teller, error) {
	t := &teller{out: c.App.Writer, notes: c.App.ErrWriter, columns: columns}
	switch form := c.String("output"); form {
	case "text":
	case "json":
		t.json = true
	case "csv":
		t.csv = csv.NewWriter(t.out)
		_ = t.csv.Write(columns) // its Error has it
	default:
		return nil, usageError{fmt.Errorf("--output: %q is none of text, json, csv", form)}
	}
	return t, nil
}

// tell prints a line as soon as it is known.
func (t *teller) tell(l ledger.Line) error {
	switch {
	case t.json:
		p, err := append(print.Object{print.Named("Part", l.Part.String())}, l.Fields...).AppendJSON(nil)
		if err == nil {
			_, err = t.out.Write(append(p, '\n'))
		}
		return err
	case t.csv == nil:
		_, err := fmt.Fprintln(t.out, oneLine(l.Text))
		return err
	case l.Part != ledger.Row: // no row may be taken for what it is not, and no gap may be silent
		_, err := fmt.Fprintln(t.notes, oneLine(l.Text))
		return err
	}
	row := make([]string, len(t.columns))
	for _, f := range l.Fields {
		for i, name := range t.columns {
			if name == f.Name {
				row[i] = csvField(f.Value)
			}
		}
	}
	_ = t.csv.Write(row)
	t.csv.Flush()
	return t.csv.Error()
}

// csvField is a value in a field of its own: what a spreadsheet takes for a formula is a text there, too.
func csvField(v any) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) && !strings.HasPrefix(s, "@") {
		s = "'" + s
	}
	return oneLine(s)
}
