package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"github.com/urfave/cli/v2"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
	"github.com/ledgerbus/ledgerbus/tools/client/admin"
	"github.com/ledgerbus/ledgerbus/tools/output"
)

const (
	// followEvery is the interval between requests. A broker reports once a second how far its log
	// is durable.
	followEvery = time.Second
	// mostRest is the longest pause before a broker that does not answer is asked again.
	mostRest = 30 * time.Second
)

// followEvents prints the events of a broker until a signal arrives. Each request continues in each
// log where the previous one ended, so that no event is missing or printed twice. Only the events
// of one request are sorted by time.
func followEvents(c *cli.Context, q *ledger.Question) error {
	if q.Until != nil {
		return usageError{errors.New("--follow and --until cannot be used together")}
	}
	if c.IsSet("data") || c.Bool("live") {
		return usageError{errors.New("--follow works over HTTP only: omit --data and --live to follow a broker, or omit --follow to read the directory once")}
	}
	if q.After = ledger.FromNow; q.Since != nil {
		q.After = ledger.FromBeginning
	}
	f := &followPosition{answerPrinter: newAnswerPrinter(c, q.Columns()), q: q}
	again := pollLoop{every: followEvery, what: "events", notes: c.App.ErrWriter}
	return administer(c, func(a *administration) error {
		return again.run(a.ctx, func() error {
			return f.look(func(heard func(*wire.Line) error) error {
				return withBrokerExitCode(a.Ask(a.ctx, q.Verb, q.Values(), heard))
			})
		})
	})
}

// A followPosition is the position up to which events have been printed.
type followPosition struct {
	*answerPrinter
	q     *ledger.Question
	notes []string // of the previous request; notes that still apply are not printed again
	// printed is the position that interrupted requests reached in each partition, which the next
	// request repeats; nil: none was interrupted
	printed map[uint16]printedFrames
}

// A printedFrames is the last frame of a log whose rows were printed, and the number of these rows.
type printedFrames struct {
	lsn  event.LSN
	rows int
}

// look repeats the question and prints the new events. The next request starts where this one
// ended.
func (f *followPosition) look(ask func(heard func(*wire.Line) error) error) error {
	var notes []string
	next, passed := "", make(map[uint16]printedFrames)
	err := ask(func(l *wire.Line) error {
		switch l.Part {
		case ledger.Row.String():
			if before, err := f.wasPrinted(l, passed); before || err != nil {
				return err
			}
		case ledger.Note.String():
			if notes = append(notes, l.Text); slices.Contains(f.notes, l.Text) {
				return nil
			}
		case ledger.Answer.String():
			var says map[string]any
			if err := json.Unmarshal(l.Fields, &says); err != nil {
				return err
			}
			next, _ = says[ledger.NextField].(string)
			return nil
		}
		return f.printWireLine(l)
	})
	if err == nil && next == "" {
		err = errors.New("the broker's version does not support following events: its answer contains no position to continue from")
	}
	if err == nil {
		f.notes, f.q.After, f.q.Since, f.printed = notes, next, nil, nil
	}
	return err
}

// wasPrinted reports whether an interrupted request has printed a row. passed is the position of
// the current request.
func (f *followPosition) wasPrinted(l *wire.Line, passed map[uint16]printedFrames) (bool, error) {
	at, err := address.Parse(gjson.GetBytes(l.Fields, "Place").Str)
	if err != nil || !at.Place {
		return false, fmt.Errorf("the broker sent an event without a place: %s", output.OneLine(l.Text))
	}
	now := printedFrames{at.LSN, 1}
	if p := passed[at.Partition]; p.lsn == at.LSN {
		now.rows = p.rows + 1
	}
	passed[at.Partition] = now
	if was := f.printed[at.Partition]; now.lsn < was.lsn || now.lsn == was.lsn && now.rows <= was.rows {
		return true, nil
	}
	if f.printed == nil {
		f.printed = make(map[uint16]printedFrames)
	}
	f.printed[at.Partition] = now
	return false, nil
}

// A pollLoop runs a function at an interval.
type pollLoop struct {
	every time.Duration // minimum time between the starts of rounds
	once  bool
	what  string // prefix of the messages about a broker that does not answer
	notes interface{ Write([]byte) (int, error) }
}

// run calls round until a signal arrives. If a broker does not answer, run increases the pause
// between the calls.
func (r *pollLoop) run(ctx context.Context, round func() error) error {
	patience := r.every
	for {
		began := time.Now()
		err := round()
		rest := r.every - time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil // received events have been printed
		case r.once:
			return err
		case err == nil:
			patience = r.every
		case isUnavailable(err):
			if patience = min(2*patience, mostRest); patience >= time.Second {
				fmt.Fprintf(r.notes, "%s: %s; retrying in %v\n", r.what, output.OneLine(err.Error()), patience)
			}
			rest = patience
		default:
			return err
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// isUnavailable reports whether a request failed because the broker does not answer, or is busy.
func isUnavailable(err error) bool {
	e := (*admin.Error)(nil)
	return errors.As(err, &e) && (e.Status == 0 || e.Status == 503) && e.Code != "invalid"
}
