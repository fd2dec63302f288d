package output

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
)

// thing is the type that the command below prints.
type thing struct {
	name string
	size int
	tags []string
}

func rowOf(t thing) print.Object {
	return print.Object{print.Named("name", t.name), print.Named("sizeBytes", t.size), print.Named("on", Shown{"yes", true}),
		print.Named("tags", Shown{strings.Join(t.tags, ", "), t.tags}), print.Named("left", Unknown)}
}

// things runs a command that prints rows.
func things(of []thing, args ...string) (string, error) {
	var out bytes.Buffer
	command := &cli.Command{Name: "things", Flags: []cli.Flag{Flag()}, Action: func(c *cli.Context) error { return Rows(Of(c), of, rowOf) }}
	app := &cli.App{Writer: &out, ErrWriter: &out, ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{command}}
	err := app.Run(append([]string{"x", "things"}, args...))
	return out.String(), err
}

// A command that prints rows needs a flag and a call, and has every format.
func TestRows(t *testing.T) {
	t.Parallel()
	two := []thing{{"orders", 5, []string{"a", "b<"}}, {"=1\n2", 1000, nil}}
	const text = "NAME    SIZE BYTES  ON   TAGS   LEFT\n" +
		"orders           5  yes  a, b<  ?\n" +
		"=1\\n2         1000  yes         ?\n"
	for _, c := range []struct {
		of   []thing
		args string
		want string
	}{
		{two, "", text}, {two, "-o text", text}, {two, "--output table", text},
		{two, "-o json", `{"name":"orders","sizeBytes":5,"on":true,"tags":["a","b<"]}` + "\n" + `{"name":"=1\n2","sizeBytes":1000,"on":true,"tags":null}` + "\n"},
		{two, "-o csv", "name,sizeBytes,on,tags,left\norders,5,true,\"a, b<\",\n\"'=1\n2\",1000,true,,\n"},
		{nil, "", "NAME  SIZE BYTES  ON  TAGS  LEFT\n"}, {nil, "-o json", ""}, {nil, "-o csv", "name,sizeBytes,on,tags,left\n"},
	} {
		if got, err := things(c.of, strings.Fields(c.args)...); got != c.want || err != nil {
			t.Errorf("%q: %v\n%s\nwant\n%s", c.args, err, got, c.want)
		}
	}
}

// In CSV a number is the number that JSON has, not the text for people.
func TestNumberInCSV(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rate := print.Object{print.Named("rate", Shown{"2000000/s", 2e6}), print.Named("other", Shown{"2.7/s", 2.7})}
	if err := New(&out, nil, CSV).Said("", rate); err != nil || out.String() != "rate,other\n2000000,2.7\n" {
		t.Errorf("%v: %q", err, &out)
	}
}

// A format that a command does not support is a usage error that names the supported formats.
func TestFlag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		formats []Format
		usage   string
		refused string
		want    string
	}{
		{nil, "output format: text, json (one object per line), or csv (rows only)", "xml", `--output: "xml" is not one of text, json, csv`},
		{[]Format{Text, JSON}, "output format: text, or json (one object per line)", "csv", `--output: "csv" is not one of text, json`},
	} {
		f := Flag(c.formats...).(*cli.StringFlag)
		err, exit := f.Action(nil, c.refused), cli.ExitCoder(nil)
		if f.Usage != c.usage || err == nil || err.Error() != c.want || !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%v: %q, %v", c.formats, f.Usage, err)
		}
		if err := f.Action(nil, "table"); err != nil {
			t.Errorf("%v: %v; want table to be text", c.formats, err)
		}
	}
}

// In CSV, only the rows of an answer are on the output; all other lines are notes.
func TestLines(t *testing.T) {
	t.Parallel()
	for format, want := range map[Format][2]string{
		Text: {"two\norders\\n  2\nthat was all\n", ""},
		JSON: {`{"Part":"answer","Found":2}` + "\n" + `{"Part":"row","Entity":"orders","Number":2,"By":"-a"}` + "\n" + `{"Part":"note"}` + "\n", ""},
		CSV:  {"Number,Entity,Place,By\n2,orders,,'-a\n", "two\nthat was all\n"},
	} {
		var out, notes bytes.Buffer
		p := New(&out, &notes, format)
		p.Columns = []string{"Number", "Entity", "Place", "By"}
		err := errors.Join(p.Line("answer", "two", []byte(`{"Found":2}`)),
			p.Line("row", "orders\n  2", []byte(`{"Entity":"orders","Number":2,"By":"-a"}`)), p.Line("note", "that was all", []byte("{}")))
		if got := [2]string{out.String(), notes.String()}; got != want || err != nil {
			t.Errorf("%s: %v\n%q\nwant\n%q", format, err, got, want)
		}
	}
}

// The result of a command is a sentence for people and a row for programs.
func TestSaid(t *testing.T) {
	t.Parallel()
	for format, want := range map[Format]string{
		Text: "made orders\n", CSV: "name,sizeBytes,on,tags,left\norders,5,true,a,\n",
		JSON: `{"name":"orders","sizeBytes":5,"on":true,"tags":["a"]}` + "\n",
	} {
		var out bytes.Buffer
		if err := New(&out, nil, format).Said("made orders", rowOf(thing{"orders", 5, []string{"a"}})); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", format, err, &out, want)
		}
	}
	var out bytes.Buffer
	if err := New(&out, nil, Text).One(rowOf(thing{"orders", 5, nil})); err != nil || out.String() != "name        orders\nsize bytes  5\non          yes\nleft        ?\n" {
		t.Errorf("%v\n%s", err, &out)
	}
}
