package ledger

import (
	"cmp"
	"context"
	"iter"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// walker passes the events of some logs one by one, in one order: by the clock decisions, then by
// broker time, then by partition, each log in its own order. So the events up to an instant are the
// first ones in that order. The states reflect the events that were passed.
type walker struct {
	logs []*walkedLog // by partition
}

// walkedLog is a log of a walker.
type walkedLog struct {
	book  *book
	state *replay.State
	rec   *replay.Record // the next one; nil: not read yet, or the log ends
	clock uint64         // number of the newest clock decision that was passed
	ended bool
	next  func() (*replay.Record, error, bool)
	stop  func()
}

// walk returns a walker that begins at states.
func walk(ctx context.Context, books []*book, states []*replay.State) *walker {
	w := &walker{}
	for i, b := range books {
		g := &walkedLog{book: b, state: states[i]}
		g.next, g.stop = iter.Pull2(states[i].Records(ctx))
		w.logs = append(w.logs, g)
	}
	return w
}

// end releases the logs.
func (w *walker) end() {
	for _, g := range w.logs {
		g.stop()
	}
}

// read reads the next record, unless that was done.
func (g *walkedLog) read() error {
	for g.rec == nil && !g.ended {
		rec, err, more := g.next()
		if err != nil {
			return err
		}
		if g.ended = !more; g.ended {
			return nil
		}
		if len(rec.Events) == 0 {
			if err := g.state.Apply(rec); err != nil {
				return err
			}
			continue
		}
		g.rec, g.clock = rec, g.state.Index.Clock().Number
		for _, ev := range rec.Events {
			g.book.see(ev)
			if c, ok := ev.(*event.ClockSet); ok {
				g.clock = c.Number
			}
		}
	}
	return nil
}

// due returns the log that has the next event, the one of its record at [replay.State.Inside]; nil:
// all logs have ended.
func (w *walker) due() (*walkedLog, error) {
	var first *walkedLog
	for _, g := range w.logs {
		if err := g.read(); err != nil {
			return nil, err
		}
		switch {
		case g.rec == nil:
		case g.state.Inside() > 0: // a record is passed as a whole
			return g, nil
		case first == nil || cmp.Or(cmp.Compare(g.clock, first.clock), cmp.Compare(g.rec.At, first.rec.At)) < 0:
			first = g
		}
	}
	return first, nil
}

// pass applies the due event of a log.
func (g *walkedLog) pass() error {
	err := g.state.Step(g.rec)
	if g.state.Inside() == 0 {
		g.rec = nil
	}
	return err
}

// spot returns the place of the due event of the log.
func (g *walkedLog) spot() spot { return spot{g.book, g.rec.LSN, g.rec.Number, g.state.Inside()} }

// spots returns the places of the next events of all logs.
func (w *walker) spots() (list []spot, err error) {
	for _, g := range w.logs {
		s, err := g.upcoming()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// upcoming returns the place of the next event of the log; a spot without a place: the log ends.
func (g *walkedLog) upcoming() (spot, error) {
	if err := g.read(); err != nil || g.rec == nil {
		return spot{book: g.book}, err
	}
	return g.spot(), nil
}

// isAt reports whether the walker is at spots.
func (w *walker) isAt(spots []spot) (bool, error) {
	for i, g := range w.logs {
		if s, err := g.upcoming(); err != nil || s != spots[i] {
			return false, err
		}
	}
	return true, nil
}
