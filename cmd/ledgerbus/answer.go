package main

import (
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

// An answerPrinter prints answers about the past, whether they come from a directory or a broker.
type answerPrinter struct {
	*output.Printer
	most int // maximum number of rows to print; 0: all
	rows int // rows printed; counted only if most is set
}

func newAnswerPrinter(c *cli.Context, columns []string) *answerPrinter {
	t := &answerPrinter{Printer: output.Of(c)}
	t.Columns = columns
	return t
}

// mostOnTerminal is the number of events printed on a terminal if the question has no time range.
const mostOnTerminal = 200

// limitRows limits the rows of an answer on a terminal unless the question limits them: there may
// be millions of events since the beginning of history.
func (t *answerPrinter) limitRows(q *ledger.Question, to audience) {
	if to.out && t.Format == output.Text && q.Verb == "events" && q.Since == nil && q.Until == nil {
		t.most = mostOnTerminal
	}
}

// errEnough ends an answer at the maximum number of rows. It contains the time of the next row.
type errEnough struct{ next string }

func (e errEnough) Error() string { return "more events follow, from " + e.next + " on" }

// end ends an answer. If the answer was cut, end prints how to see the rest.
func (t *answerPrinter) end(err error) error {
	cut := errEnough{}
	if !errors.As(err, &cut) {
		return err
	}
	_, err = fmt.Fprintf(t.Notes, "%d events are shown and more follow: add --since %s for the rest, or --until now for all\n", t.most, output.OneLine(cut.next))
	return err
}

// printLine prints a line of an answer from a directory.
func (t *answerPrinter) printLine(l ledger.Line) error {
	fields, err := l.AppendJSON(nil)
	if err != nil {
		return err
	}
	return t.printWireLine(&wire.Line{Part: l.Part.String(), Text: l.Text, Fields: fields})
}

// printWireLine prints a line of an answer from a broker.
func (t *answerPrinter) printWireLine(l *wire.Line) error {
	if t.most > 0 && l.Part == ledger.Row.String() {
		if t.rows == t.most {
			return errEnough{gjson.GetBytes(l.Fields, "Time").String()}
		}
		t.rows++
	}
	return t.Line(l.Part, l.Text, l.Fields)
}
