package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// mark is a place in the order of events that a stepper can reach without passing all events before
// it.
type mark struct {
	// events before it, counted from where the debugger began; negative: before that point
	at int64
	// The states there are those in saved, in the order of the logs; else those of the instant in
	// of; else those that the logs begin with.
	// marks share the state of a log of which nothing was passed between them
	saved []*replay.SavedState
	of    *outset
}

// outset is an instant that a debugger begins with.
type outset struct {
	at    event.Time
	in    era
	spots []spot // places of the next events; nil: not looked up yet
}

const (
	bytesAnEvent = 32 // of a state that can be encoded while one event is applied, about
	// ms from an outset to an earlier one; eight times as many each time that no event lies between
	firstStepBack = 1000
)

// errBeginning means that no event comes before.
var errBeginning = errors.New("history begins here")

// states returns the states of a mark.
func (d *stepper) states(ctx context.Context, m *mark) (list []*replay.State, err error) {
	for i, b := range d.books {
		var s *replay.State
		switch {
		case m.saved != nil:
			s, err = replay.Resume(b, m.saved[i])
		case m.of != nil:
			s, err = d.l.state(ctx, b, Instant{At: m.of.at}, m.of.at, m.of.in, nil)
		default:
			s = replay.Begin(b)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// before returns the index in the list of the newest mark at a position or before it; -1: there is
// none.
func (d *stepper) before(at int64) int {
	i, there := slices.BinarySearchFunc(d.list, at, func(m *mark, at int64) int { return int(min(1, max(-1, m.at-at))) })
	if !there {
		i--
	}
	return i
}

// mark saves the states of the walker at its position, if that is far enough from the other marks.
func (d *stepper) mark() {
	i := d.before(d.head)
	if i >= 0 && d.head-d.list[i].at < d.distance {
		return
	}
	m := &mark{at: d.head}
	size := 0
	for k, g := range d.w.logs {
		if d.saved[k] == nil {
			s := g.state.Save()
			d.saved[k] = &s
			size += len(s.Encoded)
		}
		m.saved = append(m.saved, d.saved[k])
	}
	d.distance = max(d.markDistance, int64(size)/bytesAnEvent)
	d.list = slices.Insert(d.list, i+1, m)
	for len(d.list) > d.limits.marks || d.keptBytes() > d.markBytes && len(d.list) > 1 {
		d.thin()
	}
}

// keptBytes returns how much memory marks keep, bytes.
func (d *stepper) keptBytes() (n int) {
	seen := make(map[*replay.SavedState]bool)
	for _, m := range d.list {
		for _, s := range m.saved {
			if !seen[s] {
				seen[s], n = true, n+len(s.Encoded)
			}
		}
	}
	return n
}

// thin removes the mark that leaves the shortest way between its neighbours; the first one stays.
func (d *stepper) thin() {
	best, shortest := len(d.list)-1, int64(-1)
	for i := 1; i+1 < len(d.list); i++ {
		if way := d.list[i+1].at - d.list[i-1].at; shortest < 0 || way < shortest {
			best, shortest = i, way
		}
	}
	d.list = slices.Delete(d.list, best, best+1)
}

// earlier makes a mark before the first one. errBeginning: history begins there.
func (d *stepper) earlier(ctx context.Context) error {
	first := d.list[0]
	if first.of == nil {
		return errBeginning
	}
	for back := event.Time(firstStepBack); ; back *= 8 {
		m := &mark{}
		if at := first.of.at - back; at > first.of.in.from && at > 0 && back < 1<<50 {
			m.of = &outset{at: at, in: first.of.in}
		}
		states, err := d.states(ctx, m)
		if errors.Is(err, ErrNothing) && m.of != nil { // before the horizon of one of the logs
			m.of = nil
			states, err = d.states(ctx, m)
		}
		if err != nil {
			return err
		}
		n, err := d.between(ctx, states, m, first.of.spots)
		if err != nil {
			return err
		}
		if n == 0 && m.of != nil {
			continue
		}
		m.at = first.at - n
		if n == 0 { // the states are the same
			d.list[0] = m
			return errBeginning
		}
		d.list = slices.Insert(d.list, 0, m)
		return nil
	}
}

// between counts the events from states on up to spots, and notes in m the spots of the states.
func (d *stepper) between(ctx context.Context, states []*replay.State, m *mark, spots []spot) (n int64, err error) {
	w := walk(ctx, d.books, states)
	defer w.end()
	if m.of != nil {
		if m.of.spots, err = w.spots(); err != nil {
			return 0, err
		}
	}
	for {
		there, err := w.isAt(spots)
		if err != nil || there {
			return n, err
		}
		g, err := w.due()
		if err != nil {
			return 0, err
		}
		if g == nil {
			return 0, fmt.Errorf("%w: events before an instant do not lead to it", log.ErrInternal)
		}
		if err := g.pass(); err != nil {
			return 0, err
		}
		n++
	}
}
