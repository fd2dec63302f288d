package ledger

import (
	"context"
	"errors"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// stepper moves to any place in the order of the events of some logs, and has the states before and
// after the event there.
//
// The states of the newest steps are snapshots, so that moving back among them reads nothing.
// Further back it begins at the nearest mark.
type stepper struct {
	l      *Ledger
	books  []*book
	breaks []*breakpoint
	limits

	list     []*mark // by position
	distance int64   // from a mark to the next one
	saved    []*replay.SavedState

	w     *walker
	head  int64             // events that the walker has passed
	tail  int64             // events before the trail
	floor []*index.Snapshot // states at the tail, by log
	trail []passedEvent     // from the tail to the head
	at    int64             // events before its position: between tail and head
	look  progress          // for a breakpoint
}

// passedEvent is an event of the trail.
type passedEvent struct {
	spot
	log   int             // its index in the walker
	after *index.Snapshot // of that log
}

// limits bound the memory of a debugger. The states of the logs come on top, at most twice while it
// moves back.
type limits struct {
	trail        int   // events in it
	trailBytes   int64 // of changed pages that it keeps, about
	marks        int
	markBytes    int   // of states that all marks keep
	markDistance int64 // events from one mark to the next, at least
}

var usualLimits = limits{trail: 256, trailBytes: 64 << 20, marks: 64, markBytes: 64 << 20, markDistance: 4096}

// end releases the logs.
func (d *stepper) end() {
	if d.w != nil {
		d.w.end()
	}
}

// begin forgets the previous position, and begins at a mark.
func (d *stepper) begin(ctx context.Context, m *mark) error {
	if err := d.load(ctx, m); err != nil {
		return err
	}
	d.list, d.distance, d.at = []*mark{m}, d.markDistance, m.at
	return nil
}

// leap moves to an instant: after all events that are not later than a time, or after the last
// event of a frame.
func (d *stepper) leap(ctx context.Context, to Instant) error {
	at, eras, err := d.l.eras(ctx, to)
	if err != nil {
		return err
	}
	in := eras[len(eras)-1]
	if len(eras) > 1 {
		if err := d.l.note("broker time was %s %d times because a clock was set back: this is the last one", at, len(eras)); err != nil {
			return err
		}
	}
	m := &mark{of: &outset{at: at, in: in}}
	if to.Place != nil { // events of other logs in the same millisecond come before or after it
		m.of.at--
		if m.of.in = d.l.names.era(in.number); m.of.at < m.of.in.from {
			m = &mark{}
		}
	}
	if err := d.begin(ctx, m); err != nil {
		return err
	}
	if m.of != nil {
		if m.of.spots, err = d.w.spots(); err != nil {
			return err
		}
	}
	if to.Place == nil {
		return d.again(ctx)
	}
	return d.reach(ctx, log.PartitionID(to.Place.Partition), to.Place.LSN)
}

// era returns the era that a clock decision begins.
func (n *names) era(number uint64) era {
	for _, e := range n.clocks {
		if e.number == number {
			return e
		}
	}
	return n.clocks[0]
}

// reach moves on to the last event of a frame.
func (d *stepper) reach(ctx context.Context, in log.PartitionID, lsn event.LSN) error {
	for {
		s, err := d.w.logs[in].upcoming()
		if err != nil || s.lsn == 0 || s.lsn > lsn {
			return err
		}
		if err := d.step(ctx, true); err != nil {
			return err
		}
		d.at = d.head
	}
}

// load puts the walker at a mark, with an empty trail.
func (d *stepper) load(ctx context.Context, m *mark) error {
	states, err := d.states(ctx, m)
	if err != nil {
		return err
	}
	d.end()
	d.w, d.head = walk(ctx, d.books, states), m.at
	d.saved = make([]*replay.SavedState, len(states))
	copy(d.saved, m.saved)
	d.floor, d.trail = nil, nil // of other states
	d.ground()
	return nil
}

// ground begins a trail at the position of the walker.
func (d *stepper) ground() {
	d.release()
	d.tail = d.head
	for _, g := range d.w.logs {
		d.floor = append(d.floor, g.state.Index.Snapshot())
	}
}

// errEnd means that no event comes after.
var errEnd = errors.New("history ends here")

// step passes the next event of all logs. trail reports whether its states are kept.
func (d *stepper) step(ctx context.Context, trail bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g, err := d.w.due()
	if err != nil {
		return err
	}
	if g == nil {
		return errEnd
	}
	p := passedEvent{spot: g.spot()}
	for d.w.logs[p.log] != g {
		p.log++
	}
	if err := g.pass(); err != nil {
		return err
	}
	d.head++
	d.saved[p.log] = nil
	if trail {
		p.after = g.state.Index.Snapshot()
		d.trail = append(d.trail, p)
		d.shorten()
	}
	d.mark()
	return nil
}

// shorten forgets the oldest steps of a trail that is too long.
func (d *stepper) shorten() {
	copied := int64(0)
	for _, s := range d.floor {
		copied += s.Copied()
	}
	n := len(d.trail) - d.limits.trail
	if copied > d.trailBytes {
		n = max(n, (len(d.trail)+1)/2)
	}
	for i := range max(0, min(n, len(d.trail)-1)) {
		p := &d.trail[i]
		d.floor[p.log].Close()
		d.floor[p.log] = p.after
		d.tail++
	}
	if d.tail > d.head-int64(len(d.trail)) {
		d.trail = append(d.trail[:0], d.trail[len(d.trail)-int(d.head-d.tail):]...)
	}
}

// has reports whether the trail has a position, and the event before it if there is one.
func (d *stepper) has(at int64) bool {
	first := d.list[0]
	return d.tail < at && at <= d.head || at == d.tail && at == first.at && first.of == nil
}

// seek moves to a position. If that is after the end or before the beginning it moves as far as it
// can, and returns errEnd or errBeginning.
func (d *stepper) seek(ctx context.Context, to int64) error {
	if to <= d.head && !d.has(to) {
		if err := d.back(ctx, to); err != nil || d.head == to {
			return err
		}
	}
	if d.head < to-int64(d.limits.trail) {
		d.release()
		var err error
		for err == nil && d.head < to-int64(d.limits.trail) {
			err = d.step(ctx, false)
		}
		d.ground()
		if d.at = d.head; err != nil {
			return errors.Join(d.again(ctx), err)
		}
	}
	for d.head < to {
		if err := d.step(ctx, true); err != nil {
			d.at = d.head
			return errors.Join(d.again(ctx), err)
		}
	}
	d.at = to
	return nil
}

// again makes a trail that leads to the debugger's position.
func (d *stepper) again(ctx context.Context) error {
	if d.has(d.at) {
		return nil
	}
	if err := d.seek(ctx, d.at); err != nil && !errors.Is(err, errBeginning) {
		return err
	}
	return nil
}

// back loads a mark far enough before a position for the trail to have the steps that lead there.
func (d *stepper) back(ctx context.Context, to int64) error {
	for {
		i := max(d.before(to-int64(d.limits.trail/2)), min(0, d.before(to-1)))
		if i >= 0 {
			return d.load(ctx, d.list[i])
		}
		err := d.earlier(ctx)
		if err == nil {
			continue
		}
		if !errors.Is(err, errBeginning) {
			return err
		}
		if err := d.load(ctx, d.list[0]); err != nil {
			return err
		}
		if d.at = d.head; to < d.at {
			return errBeginning
		}
		return nil
	}
}

// release drops the states of the trail, so that the walker need not keep what it changes. A call
// of ground must follow.
func (d *stepper) release() {
	for _, s := range d.floor {
		s.Close()
	}
	for _, p := range d.trail {
		p.after.Close()
	}
	d.floor, d.trail = d.floor[:0], d.trail[:0]
}

// view returns the state of a log at a position, which is in the trail.
func (d *stepper) view(log int, at int64) *index.Snapshot {
	for i := at - d.tail - 1; i >= 0; i-- {
		if d.trail[i].log == log {
			return d.trail[i].after
		}
	}
	return d.floor[log]
}

// current returns the event before the debugger's position; false: the position is before all
// events that it has seen.
func (d *stepper) current() (passedEvent, bool) {
	if d.at <= d.tail {
		return passedEvent{}, false
	}
	return d.trail[d.at-d.tail-1], true
}
