package budget

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"
)

// Level is how much memory there is. More is worse.
type Level uint8

const (
	Enough Level = iota
	// connections get less than they may have: what takes more than is promised to each is refused
	Low
	Critical // nothing is left for what lasts: all that is new is refused
)

func (l Level) String() string { return [...]string{"enough", "low", "critical"}[l] }

const (
	// Idle is what a connection takes that does nothing, bytes.
	Idle = 32 << 10
	// Promised is how much a connection may take at any time, bytes.
	Promised = 64 << 10
	// part bounds what a share may have beyond that: what is left, divided by part.
	part = 4
	// toCome sets how much shares have to leave for connections to come when there is no room for
	// them: what may be in use, divided by toCome.
	toCome = 16
	// leastGarbage is how much of the limit is for garbage at least, bytes: with less the collector
	// is at work all the time. It is not more than half.
	leastGarbage = 64 << 20
	// calm is how long a level must not have been reached before it is left: otherwise it would
	// come and go all the time.
	calm = 3 * time.Second
	// stale is how long the collector's last finding is trusted while memory is short.
	stale = 5 * time.Second
	// lookEvery is how often the account is looked at.
	lookEvery = 100 * time.Millisecond
)

// Budget is the account. Its methods may be called by several goroutines; of a nil one there is
// always enough.
type Budget struct {
	// set once in New
	limit  int64 // bytes
	usable int64 // of these, what may be in use
	most   int64 // with more in use nothing new is taken
	logger *slog.Logger
	// told while there is not enough, once a second, and once when there is again
	press func(Level)

	shares atomic.Int64 // open ones
	taken  atomic.Int64 // what shares have, of what is promised too
	over   atomic.Int64 // what shares have beyond that
	other  atomic.Int64 // what is in use beside shares, as was last found

	level   atomic.Uint32
	since   atomic.Int64 // of the level, nanoseconds; 0: of the beginning
	refused atomic.Bool  // something was refused since the last look

	// owned by the caller of Look
	recent  [2]int64  // what was found to be in use beside shares by the last collections
	found   time.Time // when
	seen    time.Time // when the level was last come to
	pressed time.Time // when press was last called
	measure func() int64
	collect func()
}

// New returns an account of limit bytes, nil for a limit of 0 or less: then nothing bounds memory.
func New(limit int64, logger *slog.Logger) *Budget {
	if limit <= 0 {
		return nil
	}
	garbage := min(max(limit/4, leastGarbage), limit/2)
	return &Budget{limit: limit, usable: limit - garbage, most: limit - garbage/2, logger: logger,
		press: func(Level) {}, measure: inUse(), collect: runtime.GC}
}

// Press has f called once a second while connections have to take less, and once when that is over.
// It has to be called before Watch.
func (b *Budget) Press(f func(Level)) {
	if b != nil {
		b.press = f
	}
}

// Level says how much there is.
func (b *Budget) Level() Level {
	if b == nil {
		return Enough
	}
	return Level(b.level.Load())
}

// Since is when the level was reached; zero: it has been the same from the beginning.
func (b *Budget) Since() time.Time {
	if b == nil || b.since.Load() == 0 {
		return time.Time{}
	}
	return time.Unix(0, b.since.Load())
}

// Taken is what shares have, in bytes.
func (b *Budget) Taken() int64 { return b.taken.Load() }

// free is how much is left of what may be in use when every share has what is promised to it.
func (b *Budget) free() int64 {
	return b.usable - b.shares.Load()*(Idle+Promised) - b.over.Load() - b.other.Load()
}

// Missing is how many bytes shares have to give back of what they have beyond what is promised to
// them, so that there is room for what is promised to all of them and to connections to come; 0:
// there is.
func (b *Budget) Missing() int64 {
	if b == nil {
		return 0
	}
	free := b.free()
	if free >= 0 {
		return 0
	}
	return b.usable/toCome - free
}

// used is what is in use.
func (b *Budget) used() int64 { return b.shares.Load()*Idle + b.taken.Load() + b.other.Load() }

// Watch keeps the account until ctx ends.
func (b *Budget) Watch(ctx context.Context) {
	if b == nil {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	shares := b.collections(ctx)
	for {
		select {
		case had := <-shares:
			b.collected(time.Now(), had)
		case <-tick.C:
			b.Look(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// shared is what shares have taken, with what their connections take when idle.
func (b *Budget) shared() int64 { return b.taken.Load() + b.shares.Load()*Idle }

// collected notes what a collection has found in use, and that shares had had bytes then. A finding
// is too high where something was released meanwhile, so the smaller of the last two counts.
func (b *Budget) collected(now time.Time, had int64) {
	b.recent[0], b.recent[1] = max(0, b.measure()-had), b.recent[0]
	b.other.Store(min(b.recent[0], b.recent[1]))
	b.found = now
}

// Look decides what the level is, and has connections told. Watch does so ten times a second.
func (b *Budget) Look(now time.Time) {
	if b.Level() > Enough && now.Sub(b.found) > stale {
		b.found = now
		b.collect()
	}
	b.judge(now)
	if level := b.Level(); level > Enough && now.Sub(b.pressed) >= time.Second {
		b.pressed = now
		b.press(level)
	}
}

// judge says what the level is, and notes when it changes.
func (b *Budget) judge(now time.Time) {
	was, is := b.Level(), Enough
	used := b.used()
	switch {
	case used > b.most:
		is = Critical
	case b.free() < 0, b.refused.Swap(false):
		is = Low
	}
	if is >= was {
		b.seen = now
	} else if now.Sub(b.seen) < calm {
		return
	}
	if is == was {
		return
	}
	told := []any{"was", was.String(), "limit", b.limit, "in_use", used, "by_connections", b.taken.Load(), "connections", b.shares.Load()}
	if since := b.Since(); !since.IsZero() {
		told = append(told, "for", now.Sub(since).Round(time.Millisecond))
	}
	b.since.Store(now.UnixNano())
	b.level.Store(uint32(is))
	switch is {
	case Enough:
		b.logger.Info("memory is available again; all requests are accepted", told...)
		b.press(Enough)
	case Low:
		b.logger.Warn("memory is short; connections get less than their budget, and requests that need more are refused", told...)
	case Critical:
		b.logger.Error("memory is exhausted; new requests are refused, settlements continue", told...)
	}
}
