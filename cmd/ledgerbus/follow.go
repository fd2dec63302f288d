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
	// followEvery is how often a broker is asked: it says once a second how far its log is durable.
	followEvery = time.Second
	// mostRest is the longest rest before a broker that does not answer is asked again.
	mostRest = 30 * time.Second
)

// followEvents prints what happens in a broker, until it is told to stop. Each look goes on where
// the one before ended, in each log, so that no event is printed twice and none is left out. Only
// the events of one look are sorted by their times.
func followEvents(c *cli.Context, q *ledger.Question) error {
	if q.Until != nil {
		return usageError{errors.New("--follow and --until exclude each other")}
	}
	if c.IsSet("data") || c.Bool("live") {
		return usageError{errors.New("--follow works over HTTP only: omit --data and --live to follow a broker, or omit --follow to read the directory once")}
	}
	if q.After = ledger.FromNow; q.Since != nil {
		q.After = ledger.FromBeginning
	}
	f := &followed{answerPrinter: newAnswerPrinter(c, q.Columns()), q: q}
	again := repeated{every: followEvery, what: "events", notes: c.App.ErrWriter}
	return administer(c, func(a *administration) error {
		return again.run(a.ctx, func() error {
			return f.look(func(heard func(*wire.Line) error) error { return senseOf(a.Ask(a.ctx, q.Verb, q.Values(), heard)) })
		})
	})
}

// followed is how far events have been printed.
type followed struct {
	*answerPrinter
	q     *ledger.Question
	notes []string // of the look before: those that still hold are not printed again
	// told is how far each partition has been told by looks that broke off, which the next one
	// begins again; nil: none has.
	told map[uint16]told
}

// told is the last frame of a log of which rows were told, and how many.
type told struct {
	lsn  event.LSN
	rows int
}

// look puts the question once more and prints what is new. The next look begins where this one
// ended.
func (f *followed) look(ask func(heard func(*wire.Line) error) error) error {
	var notes []string
	next, passed := "", make(map[uint16]told)
	err := ask(func(l *wire.Line) error {
		switch l.Part {
		case ledger.Row.String():
			if before, err := f.before(l, passed); before || err != nil {
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
		return f.heard(l)
	})
	if err == nil && next == "" {
		err = errors.New("the broker's version does not support following events: its answer contains no position to continue from")
	}
	if err == nil {
		f.notes, f.q.After, f.q.Since, f.told = notes, next, nil, nil
	}
	return err
}

// before reports whether a row was told by a look that broke off. passed is how far this look has
// come.
func (f *followed) before(l *wire.Line, passed map[uint16]told) (bool, error) {
	at, err := address.Parse(gjson.GetBytes(l.Fields, "Place").Str)
	if err != nil || !at.Place {
		return false, fmt.Errorf("the broker sent an event without a place: %s", output.OneLine(l.Text))
	}
	now := told{at.LSN, 1}
	if p := passed[at.Partition]; p.lsn == at.LSN {
		now.rows = p.rows + 1
	}
	passed[at.Partition] = now
	if was := f.told[at.Partition]; now.lsn < was.lsn || now.lsn == was.lsn && now.rows <= was.rows {
		return true, nil
	}
	if f.told == nil {
		f.told = make(map[uint16]told)
	}
	f.told[at.Partition] = now
	return false, nil
}

// repeated says how often something is done.
type repeated struct {
	every time.Duration // rounds begin at most once in it
	once  bool
	what  string // in front of what is said about a broker that does not answer
	notes interface{ Write([]byte) (int, error) }
}

// run calls round until a signal comes. A broker that does not answer is asked again, more and more
// seldom.
func (r *repeated) run(ctx context.Context, round func() error) error {
	patience := r.every
	for {
		began := time.Now()
		err := round()
		rest := r.every - time.Since(began)
		switch e := (*admin.Error)(nil); {
		case ctx.Err() != nil:
			return nil // what has come is there
		case r.once:
			return err
		case err == nil:
			patience = r.every
		case errors.As(err, &e) && (e.Status == 0 || e.Status == 503) && e.Code != "invalid":
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
