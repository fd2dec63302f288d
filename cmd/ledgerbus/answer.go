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

// answerPrinter prints answers about the past, in the same way whoever gives them.
type answerPrinter struct {
	*output.Printer
	most int // rows to print; 0: all
	rows int // printed so far; counted only where most bounds them
}

func newAnswerPrinter(c *cli.Context, columns []string) *answerPrinter {
	t := &answerPrinter{Printer: output.Of(c)}
	t.Columns = columns
	return t
}

// mostOnTerminal is how many events a person sees who did not say of which time.
const mostOnTerminal = 200

// bound bounds the rows of an answer that a person reads on a terminal, if nothing in the question
// does: all events since the beginning of history may be millions.
func (t *answerPrinter) bound(q *ledger.Question, to audience) {
	if to.out && t.Format == output.Text && q.Verb == "events" && q.Since == nil && q.Until == nil {
		t.most = mostOnTerminal
	}
}

// errEnough ends an answer that has as many rows as are printed. It has the time of the next row.
type errEnough struct{ next string }

func (e errEnough) Error() string { return "more events follow, from " + e.next + " on" }

// end ends an answer: one that was cut says how to see the rest.
func (t *answerPrinter) end(err error) error {
	cut := errEnough{}
	if !errors.As(err, &cut) {
		return err
	}
	_, err = fmt.Fprintf(t.Notes, "%d events are shown and more follow: add --since %s for the rest, or --until now for all\n", t.most, output.OneLine(cut.next))
	return err
}

// tell prints a line of an answer from a directory.
func (t *answerPrinter) tell(l ledger.Line) error {
	fields, err := l.AppendJSON(nil)
	if err != nil {
		return err
	}
	return t.heard(&wire.Line{Part: l.Part.String(), Text: l.Text, Fields: fields})
}

// heard prints a line of a broker's answer.
func (t *answerPrinter) heard(l *wire.Line) error {
	if t.most > 0 && l.Part == ledger.Row.String() {
		if t.rows == t.most {
			return errEnough{gjson.GetBytes(l.Fields, "Time").String()}
		}
		t.rows++
	}
	return t.Line(l.Part, l.Text, l.Fields)
}
