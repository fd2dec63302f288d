package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A clock that is set back makes broker time pass an instant twice. Only the place of a frame
// distinguishes the two.

// clockSet tells from where on in a log a clock decision holds.
type clockSet struct {
	lsn event.LSN
	index.Clock
}

// tick is a broker time in the order of all logs: by the clock decisions, then by time.
type tick struct {
	at    event.Time
	clock index.Clock
}

// compare orders two ticks.
func (t tick) compare(u tick) int {
	return cmp.Or(cmp.Compare(t.clock.Number, u.clock.Number), cmp.Compare(t.at, u.at))
}

// since returns how long after another tick one came, whatever a clock was set to in between. The
// times of two logs may differ a little, so the one that came later may have the earlier time; the
// result is then 0.
func (t tick) since(u tick) time.Duration {
	return max(0, (t.at - event.Time(t.clock.Shift)).Sub(u.at-event.Time(u.clock.Shift)))
}

// tick returns the tick of a broker time at a frame. The log's clock decisions must have been
// looked up.
func (b *book) tick(lsn event.LSN, at event.Time) tick { return tick{at, clockAt(b.clocks, lsn)} }

// steady reports whether no clock was ever set, so that later events have later times.
func (n *names) steady() bool { return len(n.clocks) == 1 && n.clocks[0].number == 0 }

// clockSets returns the clock decisions that a log has; the first one is the one that it begins
// with. They are looked up once, and not at all if no clock was ever set.
func (b *book) clockSets(ctx context.Context, n *names) ([]clockSet, error) {
	if n.steady() {
		b.clocks = []clockSet{{}}
	}
	if b.clocks != nil {
		return b.clocks, nil
	}
	list := []clockSet{{}}
	base, has := b.Base()
	if has {
		list[0].Clock = replay.Begin(b).Index.Clock()
	}
	for rec, err := range replay.Found(ctx, b, log.Search{Kinds: []event.Kind{event.KindClockSet}}) {
		if err != nil {
			return nil, err
		}
		for _, ev := range rec.Events {
			c, ok := ev.(*event.ClockSet)
			if !ok {
				continue
			}
			by := int64(c.To - c.From)
			if rec.LSN < base.LSN { // the base already has it
				for i := range list {
					list[i].Shift -= by
				}
				list[0].Number = min(list[0].Number, c.Number-1)
			}
			list = append(list, clockSet{rec.LSN, index.Clock{Number: c.Number, Shift: list[len(list)-1].Shift + by}})
		}
	}
	b.clocks = list
	return list, nil
}

// lookUpClocks looks up the clock decisions that logs have.
func (n *names) lookUpClocks(ctx context.Context, books ...*book) error {
	for _, b := range books {
		if _, err := b.clockSets(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// changed returns when an entity was changed. The catalogue's clock decisions must have been looked
// up.
func (l *Ledger) changed(c *change) tick { return l.books[catalogue].tick(c.place.LSN, c.at) }

// clockAt returns the clock decision that holds at a frame.
func clockAt(list []clockSet, lsn event.LSN) (held index.Clock) {
	for _, c := range list {
		if c.lsn <= lsn {
			held = c.Clock
		}
	}
	return held
}

// covers reports whether a record of a log is in the state.
func (t *pastState) covers(b *book, rec *replay.Record) bool {
	if t.place != nil && log.PartitionID(t.place.Partition) == b.ID() {
		return rec.LSN <= t.place.LSN
	}
	number := clockAt(b.clocks, rec.LSN).Number
	return number < t.era.number || number == t.era.number && rec.At <= t.at
}

// twice tells that broker time passed an instant more than once.
func (l *Ledger) twice(at event.Time, eras []era) error {
	if len(eras) < 2 {
		return nil
	}
	return l.note("broker time was %s %d times because a clock was set back: one answer for each", at, len(eras))
}

// address sets the place of the state to its last frame: among those of all its logs the one with
// the latest time, so that the state there is this one.
func (t *pastState) address(ctx context.Context, l *Ledger) error {
	newest := event.Time(0)
	for id := range t.logs {
		b := l.books[id]
		lsn, at, err := b.lastFrame(ctx, t)
		if err != nil {
			return err
		}
		if here := address.At(id, lsn); lsn != 0 && (t.named == "" || at > newest || at == newest && here.String() < t.named) {
			newest, t.named = at, here.String()
		}
	}
	return nil
}

// lastFrame returns the last frame of a log that a state has; 0: it has none. It searches backwards
// from one checkpoint after another.
func (b *book) lastFrame(ctx context.Context, t *pastState) (lsn event.LSN, at event.Time, err error) {
	if _, err := b.clockSets(ctx, t.n); err != nil {
		return 0, 0, err
	}
	var starts []event.LSN
	for _, c := range b.Checkpoints() {
		if clockAt(b.clocks, c.LSN).Number <= t.era.number {
			starts = append(starts, c.LSN)
		}
	}
	for _, from := range append(starts, 0) {
		for rec, err := range replay.Records(ctx, b, from) {
			if err != nil {
				return 0, 0, err
			}
			if !t.covers(b, rec) {
				break
			}
			lsn, at = rec.LSN, rec.At
		}
		if lsn != 0 {
			break
		}
	}
	return lsn, at, nil
}

// when returns the instant of the state for people: with its place, if the time alone does not
// identify it.
func (t *pastState) when() string {
	if t.named == "" {
		return t.at.String()
	}
	return fmt.Sprintf("%s (%s)", t.at, t.named)
}

// before reports whether an instant of an era comes before another one, or is the same.
func (e era) before(at event.Time, other era, then event.Time) bool {
	return e.number < other.number || e.number == other.number && at <= then
}
