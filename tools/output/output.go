// Package output prints the answers of commands. Only this package knows the formats of the flag
// --output: a command passes rows of named values, or lines of an answer, in one call.
//
//	Flags:  []cli.Flag{output.Flag()},
//	Action: func(c *cli.Context) error { return output.Rows(output.Of(c), things, rowOf) },
package output

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/internal/jsontext"
	"github.com/ledgerbus/ledgerbus/internal/program"
)

// A Format is the format of a command's answer.
type Format string

// The formats. The help of a command lists the formats it supports.
const (
	Text Format = "text" // for people; "table" is a synonym
	JSON Format = "json" // an object per line
	CSV  Format = "csv"  // a header and rows
)

// usages are the descriptions of the formats in help.
var usages = map[Format]string{Text: "text", JSON: "json (one object per line)", CSV: "csv (rows only)"}

// Flag returns the flag --output of a command that supports these formats; without any, all
// formats. Another value is refused before the command starts.
func Flag(formats ...Format) cli.Flag {
	if formats == nil {
		formats = []Format{Text, JSON, CSV}
	}
	var names, words []string
	for _, f := range formats {
		names, words = append(names, string(f)), append(words, usages[f])
	}
	words[len(words)-1] = "or " + words[len(words)-1]
	return &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, Value: string(Text), Usage: "output format: " + strings.Join(words, ", "),
		Action: func(_ *cli.Context, name string) error {
			if !slices.Contains(formats, formatNamed(name)) {
				// a usage error
				return cli.Exit(fmt.Sprintf("--output: %q is not one of %s", name, strings.Join(names, ", ")), 2)
			}
			return nil
		},
	}
}

// formatNamed returns the format with a name.
func formatNamed(name string) Format {
	if name == "table" {
		return Text
	}
	return Format(name)
}

// A Printer prints the answer of one command. Its methods remove everything from texts that could
// control a terminal (reliability.md S33).
type Printer struct {
	io.Writer
	Notes   io.Writer // gets the lines that are not rows in CSV
	Format  Format
	Columns []string // columns of CSV for the lines of an answer
	csv     *csv.Writer
	headed  bool // the header of CSV has been written
}

// New returns a printer.
func New(w, notes io.Writer, f Format) *Printer {
	return &Printer{Writer: w, Notes: notes, Format: f, csv: csv.NewWriter(w)}
}

// Of returns the printer of a command.
func Of(c *cli.Context) *Printer {
	return New(c.App.Writer, c.App.ErrWriter, formatNamed(c.String("output")))
}

// Value prints a value that is not a row, such as a message, as JSON.
func (p *Printer) Value(v any) error {
	line, err := jsontext.AppendValue(nil, v)
	if err != nil {
		return err
	}
	_, err = p.Write(append(line, '\n'))
	return err
}

// Said prints the result of a command: a sentence for people, a row for programs.
func (p *Printer) Said(sentence string, r print.Object) error {
	if p.Format != Text {
		return p.One(r)
	}
	_, err := fmt.Fprintln(p, OneLine(sentence))
	return err
}

// row is the part of an answer that has columns; CSV shows nothing else. The names of the parts are
// the names of [github.com/ledgerbus/ledgerbus/engine/ledger.Part].
const row = "row"

// Line prints a line of an answer as soon as it is known: its text for people, its fields, a JSON
// object, for programs. In CSV a line that is not a row is a note. So it is not mistaken for a row,
// and no gap is silent.
func (p *Printer) Line(part, text string, fields []byte) error {
	switch {
	case p.Format == Text:
		_, err := fmt.Fprintln(p, OneLine(text))
		return err
	case p.Format == JSON:
		line, err := print.Object{print.String("Part", part)}.AppendJSON(nil)
		if err != nil {
			return err
		}
		if len(fields) > len("{}") {
			line = append(append(line[:len(line)-1], ','), fields[1:]...)
		}
		_, err = p.Write(append(line, '\n'))
		return err
	case part != row:
		_, err := fmt.Fprintln(p.Notes, OneLine(text))
		return err
	}
	if !p.headed {
		p.headed = true
		_ = p.csv.Write(p.Columns) // the error of the row reports it
	}
	values := make([]string, len(p.Columns))
	for i, v := range gjson.GetManyBytes(fields, p.Columns...) {
		switch v.Type {
		case gjson.Null: // or missing
		case gjson.String:
			values[i] = noFormula(v.Str)
		default:
			values[i] = v.Raw
		}
	}
	return p.record(values)
}

// record writes a line of CSV.
func (p *Printer) record(values []string) error {
	_ = p.csv.Write(values) // csv.Error reports it
	p.csv.Flush()
	return p.csv.Error()
}

// noFormula returns a text for one CSV field. It makes a text of anything that a spreadsheet would
// take for a formula. A text that begins with @ is a place in a log and stays.
func noFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-\t\r", rune(s[0])) {
		s = "'" + s
	}
	return program.Printable(s)
}

var lineEnds = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// OneLine is [program.Printable] with escaped line ends and tabs.
func OneLine(s string) string { return lineEnds.Replace(program.Printable(s)) }
