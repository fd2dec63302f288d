package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

func formFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "text, json for one object per line, or csv for the rows alone"}
}

// answerPrinter prints answers about the past in one of the forms that all of them have.
type answerPrinter struct {
	out, notes io.Writer
	columns    []string // of rows
	csv        *csv.Writer
	json       bool
	most       int // rows to print; 0: all
	rows       int // printed so far; counted only where most bounds them
}

// mostOnTerminal is how many events a person sees who did not say of which time.
const mostOnTerminal = 200

// bound bounds the rows of an answer that a person reads on a terminal, if nothing in the question does:
// all events since the beginning of history may be millions.
func (t *answerPrinter) bound(q *ledger.Question, to audience) {
	if to.out && !t.json && t.csv == nil && q.Verb == "events" && q.Since == nil && q.Until == nil {
		t.most = mostOnTerminal
	}
}

// errEnough ends an answer that has as many rows as are printed. It has the time of the next row.
type errEnough struct{ next string }

func (e errEnough) Error() string { return "there are more events, from " + e.next + " on" }

// end ends an answer: one that was cut says how to see the rest.
func (t *answerPrinter) end(err error) error {
	cut := errEnough{}
	if !errors.As(err, &cut) {
		return err
	}
	_, err = fmt.Fprintf(t.notes, "%d events are shown, and there are more: add --since %s for the rest, or --until now for all\n", t.most, oneLine(cut.next))
	return err
}

func newAnswerPrinter(c *cli.Context, columns []string) (*answerPrinter, error) {
	t := &answerPrinter{out: c.App.Writer, notes: c.App.ErrWriter, columns: columns}
	switch form := c.String("output"); form {
	case "text":
	case "json":
		t.json = true
	case "csv":
		t.csv = csv.NewWriter(t.out)
		_ = t.csv.Write(columns) // its Error has it
	default:
		return nil, usageError{fmt.Errorf("--output: %q is not one of text, json, csv", form)}
	}
	return t, nil
}

// tell prints a line as soon as it is known.
func (t *answerPrinter) tell(l ledger.Line) error {
	fields, err := l.AppendJSON(nil)
	if err != nil {
		return err
	}
	return t.print(l.Part.String(), l.Text, fields, func(name string) any {
		for _, f := range l.Fields {
			if f.Name == name {
				return f.Value()
			}
		}
		return nil
	})
}

// heard prints a line of a broker's answer, in the same way as tell prints one of an answer from a directory.
func (t *answerPrinter) heard(l *wire.Line) error {
	if len(l.Fields) == 0 {
		l.Fields = json.RawMessage("{}")
	}
	var fields map[string]any
	if t.csv != nil {
		in := json.NewDecoder(bytes.NewReader(l.Fields))
		in.UseNumber()
		if err := in.Decode(&fields); err != nil {
			return err
		}
	}
	return t.print(l.Part, l.Text, l.Fields, func(name string) any { return fields[name] })
}

// print prints a line: its fields in JSON, or by name.
func (t *answerPrinter) print(part, text string, fields []byte, field func(name string) any) error {
	if t.most > 0 && part == ledger.Row.String() {
		if t.rows == t.most {
			return errEnough{gjson.GetBytes(fields, "Time").String()}
		}
		t.rows++
	}
	switch {
	case t.json:
		head, err := print.Object{print.Named("Part", part)}.AppendJSON(nil)
		if err == nil && len(fields) > len("{}") {
			head = append(append(head[:len(head)-1], ','), fields[1:]...)
		}
		if err == nil {
			_, err = t.out.Write(append(head, '\n'))
		}
		return err
	case t.csv == nil:
		_, err := fmt.Fprintln(t.out, oneLine(text))
		return err
	case part != ledger.Row.String(): // no row may be taken for what it is not, and no gap may be silent
		_, err := fmt.Fprintln(t.notes, oneLine(text))
		return err
	}
	row := make([]string, len(t.columns))
	for i, name := range t.columns {
		if v := field(name); v != nil {
			row[i] = csvField(v)
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
