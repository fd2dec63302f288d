package output

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
)

// A Shown is a value of a row that people see in a different form than programs. If Value is nil,
// programs get no value: JSON omits the field, and in CSV it is empty.
type Shown struct {
	Text  string
	Value any
}

// Unknown is an unknown value.
var Unknown = Shown{Text: "?"}

// Rows prints things as rows, all with the same names in the same order. A table has the named
// columns, or all; JSON and CSV have all.
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

// One prints all values of one thing. A table has a line for each value that is not empty.
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

// csvOf returns a value in CSV: the value for programs, except that a list has the form for people.
// A number has no exponent.
func csvOf(f *print.Field) string {
	v := f.Value()
	if s, ok := v.(Shown); ok {
		switch n := s.Value.(type) {
		case nil:
			return ""
		case string, bool:
			v = n
		case float64:
			return strconv.FormatFloat(n, 'f', -1, 64)
		default:
			v = s.Text
		}
	}
	if text, ok := v.(string); ok {
		return noFormula(text)
	}
	return fmt.Sprint(v)
}

// cell returns a value of a row in a table. Numbers stay numbers, so that they are aligned.
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

// textOf returns a value as text for people.
func textOf(v any) string {
	if s, ok := v.(Shown); ok {
		return s.Text
	}
	return fmt.Sprint(v)
}

// newTable returns a table in the common layout: columns separated by two spaces, without lines.
func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	style.Format.Header = 0 // unchanged
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

// words splits a name such as maxDeliveryCount: "max delivery count".
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
