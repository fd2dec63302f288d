package output

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
)

// Shown is a value of a row that people read in other words than programs. Where Value is nil,
// programs get none: JSON leaves the field out, and in CSV it is empty.
type Shown struct {
	Text  string
	Value any
}

// Unknown is a value that nobody can tell.
var Unknown = Shown{Text: "?"}

// Rows prints things in rows, all with the same names in the same order. A table has the columns
// named, or all; JSON and CSV have all.
func Rows[T any](p *Printer, things []T, rowOf func(T) print.Object, columns ...string) error {
	var none T
	header, rows := rowOf(none), make([]print.Object, len(things))
	for i, thing := range things {
		rows[i] = rowOf(thing)
		header = rows[0]
	}
	if p.Format != Text {
		return p.forPrograms(header, rows...)
	}
	if columns == nil {
		columns = each(header, nameOf)
	}
	t := newTable()
	heads := table.Row{}
	for _, name := range columns {
		heads = append(heads, strings.ToUpper(words(name)))
	}
	t.AppendHeader(heads)
	for _, r := range rows {
		line := table.Row{}
		for _, name := range columns {
			line = append(line, cell(r, name))
		}
		t.AppendRow(line)
	}
	return p.render(t)
}

// One prints all there is about one thing: in a table a line for each value that is not empty.
func (p *Printer) One(r print.Object) error {
	if p.Format != Text {
		return p.forPrograms(r, r)
	}
	t := newTable()
	for _, f := range r {
		if text := textOf(f.Value()); text != "" {
			t.AppendRow(table.Row{words(f.Name), OneLine(text)})
		}
	}
	return p.render(t)
}

// forPrograms prints rows as JSON or CSV.
func (p *Printer) forPrograms(header print.Object, rows ...print.Object) error {
	if p.Format == CSV {
		err := p.record(each(header, nameOf))
		for i := 0; i < len(rows) && err == nil; i++ {
			err = p.record(each(rows[i], csvOf))
		}
		return err
	}
	for _, r := range rows {
		values := make(print.Object, 0, len(r))
		for _, f := range r {
			if s, ok := f.Value().(Shown); ok {
				f = print.Named(f.Name, s.Value)
			}
			if f.Value() != nil {
				values = append(values, f)
			}
		}
		line, err := values.AppendJSON(nil)
		if err != nil {
			return err
		}
		if _, err := p.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func each(r print.Object, text func(*print.Field) string) []string {
	list := make([]string, len(r))
	for i := range r {
		list[i] = text(&r[i])
	}
	return list
}

func nameOf(f *print.Field) string { return f.Name }

// csvOf is a value in CSV: that of programs, but a list in the words of people.
func csvOf(f *print.Field) string {
	v := f.Value()
	if s, ok := v.(Shown); ok {
		switch v = s.Value; v.(type) {
		case nil:
			return ""
		case string, bool:
		default:
			v = s.Text
		}
	}
	if text, ok := v.(string); ok {
		return noFormula(text)
	}
	return fmt.Sprint(v)
}

// cell is a value of a row in a table: numbers are numbers, which are aligned as such.
func cell(r print.Object, name string) any {
	i := slices.IndexFunc(r, func(f print.Field) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	switch v := r[i].Value().(type) {
	case int, int64, uint64:
		return v
	default:
		return OneLine(textOf(v))
	}
}

// textOf is a value for people.
func textOf(v any) string {
	if s, ok := v.(Shown); ok {
		return s.Text
	}
	return fmt.Sprint(v)
}

// newTable is the one layout of tables: columns with two spaces between, without lines.
func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	style.Format.Header = 0 // as given
	t.SetStyle(style)
	return t
}

func (p *Printer) render(t table.Writer) error {
	for line := range strings.Lines(t.Render()) {
		if _, err := fmt.Fprintln(p, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

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
