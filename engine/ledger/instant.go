package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/internal/quantity"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Instant is a point of history: a broker time, with all events of that millisecond, or the place
// after a frame of a log.
type Instant struct {
	At    event.Time
	Place *address.Address // nil: At is used
	now   bool             // written as "now": At is the time at which it was parsed
}

func (i Instant) String() string {
	if i.Place != nil {
		return i.Place.String()
	}
	return i.At.String()
}

// ParseInstant parses an instant as people write them: 03:12 (the last one), yesterday 14:00, -2h,
// -7d, 2026-11-03, 2026-11-03T03:12:00Z, @0/1839977. Without a zone it uses that of now. A duration
// without a sign, 2h or 7d, also means that long ago.
func ParseInstant(s string, now time.Time) (Instant, error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "@") {
		a, err := address.Parse(s)
		return Instant{Place: &a}, err
	}
	if s == "now" {
		return Instant{At: event.TimeOf(now), now: true}, nil
	}
	if at, ok := parseAgo(s, now); ok {
		return Instant{At: event.TimeOf(at)}, nil
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return Instant{At: event.TimeOf(t)}, nil
		}
	}
	day, text := now, s
	rest, yesterday := strings.CutPrefix(s, "yesterday ")
	if yesterday {
		day, text = now.AddDate(0, 0, -1), rest
	}
	for _, form := range []string{"15:04", "15:04:05.999999999"} {
		t, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		t = time.Date(day.Year(), day.Month(), day.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
		if !yesterday && t.After(now) {
			t = t.AddDate(0, 0, -1)
		}
		return Instant{At: event.TimeOf(t)}, nil
	}
	return Instant{}, fmt.Errorf("%w: %q is not an instant: write 03:12, yesterday 14:00, -2h, 2026-11-03T03:12:00Z or @0/1839977", ErrQuestion, s)
}

// longestAgo bounds the durations that an instant may be ago.
var longestAgo = quantity.Durations{Most: 100 * 365 * 24 * time.Hour}

// parseAgo reads an instant that is a duration ago, with a minus or without. Whole days are days of
// the calendar.
func parseAgo(s string, now time.Time) (at time.Time, ok bool) {
	text, signed := strings.CutPrefix(s, "-")
	d, err := longestAgo.Parse(text)
	switch {
	case err != nil:
		return at, false
	case strings.HasSuffix(text, "d"):
		return now.AddDate(0, 0, -int(d/(24*time.Hour))), true
	}
	return now.Add(-d), d > 0 || signed
}

// ParsePast parses an instant for a question about the state then. It refuses an instant that is
// later than now.
func ParsePast(s string, now time.Time) (Instant, error) {
	i, err := ParseInstant(s, now)
	if err == nil && i.Place == nil && i.At > event.TimeOf(now) {
		err = fmt.Errorf("%w: %q is later than now, which is %s", ErrQuestion, s, event.TimeOf(now))
	}
	return i, err
}

// eras returns the time of an instant and the eras that contain it: more than one if a clock was
// set back past it.
func (l *Ledger) eras(ctx context.Context, i Instant) (at event.Time, list []era, err error) {
	n, err := l.catalogue(ctx)
	if err != nil {
		return 0, nil, err
	}
	if i.Place == nil {
		for _, e := range n.clocks {
			if e.from <= i.At && i.At <= e.until {
				list = append(list, e)
			}
		}
		if list == nil { // a clock was set forward over it: nothing happened between
			for _, e := range n.clocks {
				if e.until < i.At {
					list = []era{e}
				}
			}
		}
		return i.At, list, nil
	}
	id := log.PartitionID(i.Place.Partition)
	if all := l.src.Partitions(); !slices.Contains(all, id) {
		return 0, nil, fmt.Errorf("%w: %s is in partition %d; there are %d partitions", ErrQuestion, i.Place, id, len(all))
	}
	b, err := l.book(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	clocks, err := b.clockSets(ctx, n)
	if err != nil {
		return 0, nil, err
	}
	number := clockAt(clocks, i.Place.LSN).Number
	found := false
	for rec, err := range replay.Records(ctx, b, i.Place.LSN) {
		if err != nil {
			return 0, nil, err
		}
		if rec.LSN != i.Place.LSN {
			break
		}
		at, found = rec.At, true
	}
	if !found {
		return 0, nil, fmt.Errorf("%w of %s: no frame with events begins there", ErrNothing, i.Place)
	}
	return at, []era{{number: number, from: at, until: at}}, nil
}

// state returns a log's state at an instant, in an era. If entities are given it is correct for
// those alone.
func (l *Ledger) state(ctx context.Context, b *book, i Instant, at event.Time, e era, of ...*life) (*replay.State, error) {
	part := l.names.narrow(b.ID(), of...)
	s, err := l.start(b, i, at, e)
	if err != nil {
		return nil, err
	}
	var look progress
	what := fmt.Sprintf("the state of log %d", b.ID())
	here := i.Place != nil && log.PartitionID(i.Place.Partition) == b.ID()
	for rec, err := range part.records(ctx, s) {
		if err != nil {
			return nil, err
		}
		if here && rec.LSN > i.Place.LSN || !here && beyond(s.Index, rec, at, e) {
			break
		}
		for _, ev := range rec.Events {
			b.see(ev)
		}
		err := part.apply(s, rec)
		if err == nil {
			err = l.tellProgress(&look, len(rec.Events), rec.At, what)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// beyond reports whether a record is later than a time of an era.
func beyond(x *index.Index, rec *replay.Record, at event.Time, e era) bool {
	now := x.Clock().Number
	for _, ev := range rec.Events {
		if c, ok := ev.(*event.ClockSet); ok {
			if c.Number > e.number {
				return true
			}
			now = c.Number
		}
	}
	return now == e.number && rec.At > at
}

// start returns the newest kept state that is not later than an instant; at and e are the instant's
// time and era.
func (l *Ledger) start(b *book, i Instant, at event.Time, e era) (*replay.State, error) {
	limit, err := l.limit(b, i, at)
	if err != nil {
		return nil, err
	}
	for _, c := range b.Checkpoints() {
		if c.LSN > limit {
			continue
		}
		s := replay.Newest(b, c.LSN, nil)
		if now := s.Index.Clock().Number; now < e.number || now == e.number && s.Index.LastAt() <= at {
			return s, nil
		}
	}
	s := replay.Begin(b)
	here := i.Place != nil && log.PartitionID(i.Place.Partition) == b.ID()
	// many frames may have one time
	if here && s.From > i.Place.LSN || s.Index.LastAt() > at && s.Index.Clock().Number >= e.number {
		return nil, fmt.Errorf("%w of partition %d at %s: its history begins at %s, %s", ErrNothing, b.ID(), at, s.Index.LastAt(), address.At(b.ID(), s.From))
	}
	return s, nil
}

// limit returns an LSN after which, according to the indexes, a log is later than an instant:
// checkpoints after it need not be read.
func (l *Ledger) limit(b *book, i Instant, at event.Time) (event.LSN, error) {
	_, limit := b.Bounds()
	switch {
	case i.Place != nil && log.PartitionID(i.Place.Partition) == b.ID():
		return min(limit, i.Place.LSN), nil
	case len(l.names.clocks) > 1 || at == 0: // later frames may have an earlier time
		return limit, nil
	}
	list, err := b.Find(log.Search{Until: at})
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return min(limit, list[len(list)-1].To), nil
}
