package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/ledgerbus/ledgerbus/internal/jsontext"
	"github.com/ledgerbus/ledgerbus/internal/program"
	"github.com/ledgerbus/ledgerbus/tools/client"
)

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "text, or json for one object per line"}
}

// asJSON reports whether JSON was asked for.
func asJSON(c *cli.Context) (bool, error) {
	switch format := c.String("output"); format {
	case "text":
		return false, nil
	case "json":
		return true, nil
	default:
		return false, usageError{fmt.Errorf("--output: %q is neither text nor json", format)}
	}
}

// writeJSON writes a value as a line of JSON in ASCII, so that no text in it steers a terminal (reliability.md S33).
func writeJSON(w io.Writer, v any) error {
	line, err := jsontext.AppendValue(nil, v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// printMessage prints one message: a line of what matters, its properties and its body; or one JSON object.
func printMessage(w io.Writer, m client.Message, inJSON bool) error {
	if inJSON {
		return writeJSON(w, m)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#%d", m.SequenceNumber)
	text := func(name string, value *string) {
		if value != nil && *value != "" {
			fmt.Fprintf(&b, "  %s=%s", name, program.Printable(*value))
		}
	}
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s=%s", name, program.Printable(value))
		}
	}
	text("id", m.MessageID)
	if m.SessionID != nil {
		field("session", fmt.Sprintf("%q", *m.SessionID))
	}
	text("subject", m.Subject)
	text("content-type", m.ContentType)
	text("correlation", m.CorrelationID)
	field("state", m.State)
	if m.DeliveryCount > 0 {
		field("failed-deliveries", fmt.Sprint(m.DeliveryCount))
	}
	field("enqueued", when(m.EnqueuedTime))
	if m.EnqueuedSequence > 0 {
		field("sent-as", fmt.Sprintf("#%d", m.EnqueuedSequence))
	}
	field("dead-letter-source", m.DeadLetterSource)
	field("dead-letter-reason", m.DeadLetterReason)
	field("dead-letter-description", m.DeadLetterDescription)
	if m.LockToken != nil && m.LockedUntil != nil {
		field("lock", m.LockToken.String())
		field("until", when(m.LockedUntil))
	}
	b.WriteByte('\n')
	keys := make([]string, 0, len(m.Properties))
	for key := range m.Properties {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(&b, "  %s: %s\n", program.Printable(key), program.Printable(fmt.Sprint(m.Properties[key])))
	}
	body := string(m.Body.Data)
	if m.Body.Value != nil {
		body = fmt.Sprint(m.Body.Value)
	}
	fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(program.Printable(body), "\n", "\n  "))
	_, err := io.WriteString(w, b.String())
	return err
}

func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// progress shows how far long work has come, on standard error, and only to a person: not when it is not a terminal, and
// not between messages that are printed to one.
type progress struct{ bar *progressbar.ProgressBar }

const (
	longWork         = 1000 // messages
	longWorkEntities = 50
)

// audience is who sees what a command writes: whether a person reads its standard output and its standard error.
type audience struct{ out, err bool }

func theAudience() audience {
	return audience{out: term.IsTerminal(int(os.Stdout.Fd())), err: term.IsTerminal(int(os.Stderr.Fd()))}
}

// seesEntities reports whether work on that many entities has a progress bar.
func (a audience) seesEntities(total int) bool { return a.err && total >= longWorkEntities }

// sees reports whether work on that many messages has a progress bar; a total of 0 is not known.
func (a audience) sees(total int, messagesPrinted bool) bool {
	return a.err && (total <= 0 || total >= longWork) && !(messagesPrinted && a.out)
}

// newEntityProgress is the bar of work on entities.
func newEntityProgress(total int, what string) progress {
	if !theAudience().seesEntities(total) {
		return progress{}
	}
	return newBar(os.Stderr, total, what, "entities")
}

func newProgress(total int, what string, messagesPrinted bool) progress {
	if !theAudience().sees(total, messagesPrinted) {
		return progress{}
	}
	return newBar(os.Stderr, total, what, "messages")
}

// newBar draws a bar on w; a total of 0 is not known.
func newBar(w io.Writer, total int, what, unit string) progress {
	if total <= 0 {
		total = -1
	}
	return progress{progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(program.Printable(what)),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())}
}

func (p progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // a bar that cannot be drawn stops no work
	}
}

func (p progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
