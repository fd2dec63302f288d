package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/internal/program"
)

type format int

const (
	formatTable format = iota
	formatJSON
	formatCSV
)

func tableFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "table, csv, or json for one object per line"}
}

func tableFormat(c *cli.Context) (format, error) {
	switch name := c.String("output"); name {
	case "table":
		return formatTable, nil
	case "json":
		return formatJSON, nil
	case "csv":
		return formatCSV, nil
	default:
		return 0, usageError{fmt.Errorf("--output: %q is not one of table, json, csv", name)}
	}
}

// cell is one value of what is shown: its name as in JSON, its text for people, and its value for programs.
type cell struct {
	name  string
	text  string
	value any
}

func text(name, value string) cell     { return cell{name, value, value} }
func number(name string, n int64) cell { return cell{name, fmt.Sprint(n), n} }

// unknown is a value that nobody can tell: JSON leaves it out, CSV has an empty field.
func unknown(name string) cell { return cell{name, "?", nil} }

// row is one thing that is shown. Rows of one table have the same names in the same order.
type row []cell

func (r row) find(name string) cell {
	if i := slices.IndexFunc(r, func(c cell) bool { return c.name == name }); i >= 0 {
		return r[i]
	}
	return cell{}
}

// MarshalJSON keeps the order of the cells, and leaves out those that are unknown.
func (r row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // filters are full of < and >
	for i, c := range slices.DeleteFunc(slices.Clone(r), func(c cell) bool { return c.value == nil }) {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, "%q:", c.name)
		if err := enc.Encode(c.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// printRows prints many rows. A table has the columns named, or all; JSON and CSV have all. The header is that of any row, which
// matters when there is none.
func printRows(w io.Writer, f format, header row, columns []string, rows []row) error {
	switch f {
	case formatJSON:
		return printJSON(w, rows)
	case formatCSV:
		return printCSV(w, header, rows)
	}
	if columns == nil {
		for _, c := range header {
			columns = append(columns, c.name)
		}
	}
	t := plainTable(w)
	heads := table.Row{}
	for _, name := range columns {
		heads = append(heads, strings.ToUpper(words(name)))
	}
	t.AppendHeader(heads)
	for _, r := range rows {
		line := table.Row{}
		for _, name := range columns {
			c := r.find(name)
			if n, isNumber := c.value.(int64); isNumber && c.text == fmt.Sprint(n) {
				line = append(line, n) // aligned as numbers are
				continue
			}
			line = append(line, oneLine(c.text))
		}
		t.AppendRow(line)
	}
	return render(w, t)
}

// printOne prints all there is about one thing: in a table one line each.
func printOne(w io.Writer, f format, r row) error {
	switch f {
	case formatJSON:
		return printJSON(w, []row{r})
	case formatCSV:
		return printCSV(w, r, []row{r})
	}
	t := plainTable(w)
	for _, c := range r {
		if c.text != "" {
			t.AppendRow(table.Row{words(c.name), oneLine(c.text)})
		}
	}
	return render(w, t)
}

func printJSON(w io.Writer, rows []row) error {
	for _, r := range rows {
		if err := writeJSON(w, r); err != nil {
			return err
		}
	}
	return nil
}

func printCSV(w io.Writer, header row, rows []row) error {
	out := csv.NewWriter(w)
	line := make([]string, 0, len(header))
	for _, c := range header {
		line = append(line, c.name)
	}
	_ = out.Write(line) // Error has it
	for _, r := range rows {
		line = line[:0]
		for _, c := range r {
			field := c.text
			switch c.value.(type) {
			case string, bool, int64:
				field = fmt.Sprint(c.value)
			case nil:
				field = ""
			}
			line = append(line, program.Printable(field))
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

func plainTable(io.Writer) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	style.Format.Header = 0 // as given
	t.SetStyle(style)
	return t
}

func render(w io.Writer, t table.Writer) error {
	for line := range strings.Lines(t.Render()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

var lineEnds = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// oneLine is [printable] with new lines and tabs escaped as well.
func oneLine(s string) string { return lineEnds.Replace(program.Printable(s)) }

// words takes a name such as maxDeliveryCount apart: "max delivery count".
func words(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
