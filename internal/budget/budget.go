package budget

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"
)

// Level is how much memory there is. Higher values mean less memory.
type Level uint8

const (
	Enough Level = iota
	// connections may have only their guaranteed share: requests for more are refused
	Low
	Critical // no memory for lasting data: all new requests are refused
)

func (l Level) String() string { return [...]string{"enough", "low", "critical"}[l] }

const (
	// Idle is how much memory an idle connection takes, bytes.
	Idle = 32 << 10
	// Promised is how much memory each connection is guaranteed, bytes.
	Promised = 64 << 10
	// part limits what a share may have beyond that: the rest, divided by part.
	part = 4
	// toCome sets how much shares must leave for future connections when there is no room for them:
	// the usable memory, divided by toCome.
	toCome = 16
	// leastGarbage is the smallest part of the limit for garbage, bytes: with less, the collector
	// would run all the time. It is at most half of the limit.
	leastGarbage = 64 << 20
	// calm is how long a level must not have been reached before it is left. Otherwise the level
	// would flap.
	calm = 3 * time.Second
	// stale is how long the collector's last result is trusted while memory is short.
	stale = 5 * time.Second
	// lookEvery is how often the account is checked.
	lookEvery = 100 * time.Millisecond
)

// Budget is the account. Its methods may be called by several goroutines. A nil budget always has
// enough.
type Budget struct {
	// set once in New
	limit  int64 // bytes
	usable int64 // of the limit, how much may be in use
	most   int64 // with more in use, new requests are refused
	logger *slog.Logger
	// called once a second while memory is short, and once when there is enough again
	press func(Level)

	shares atomic.Int64 // number of open ones
	taken  atomic.Int64 // bytes of all shares, including guaranteed ones
	over   atomic.Int64 // bytes of shares beyond the guaranteed ones
	other  atomic.Int64 // bytes in use outside of shares, as last measured

	level   atomic.Uint32
	since   atomic.Int64 // when the level was reached, nanoseconds; 0: it is the first one
	refused atomic.Bool  // something was refused since the last look

	// owned by the caller of Look
	recent  [2]int64  // bytes in use outside of shares, as measured by the last collections
	found   time.Time // time of the last measurement
	seen    time.Time // when the level was last reached
	pressed time.Time // when press was last called
	measure func() int64
	collect func()
}

// New returns an account of limit bytes, nil for a limit of 0 or less: then memory is unlimited.
func New(limit int64, logger *slog.Logger) *Budget {
	if limit <= 0 {
		return nil
	}
	garbage := min(max(limit/4, leastGarbage), limit/2)
	return &Budget{limit: limit, usable: limit - garbage, most: limit - garbage/2, logger: logger,
		press: func(Level) {}, measure: inUse(), collect: runtime.GC}
}

// Press sets a function that is called once a second while connections must take less, and once
// when that has ended. Call it before Watch.
func (b *Budget) Press(f func(Level)) {
	if b != nil {
		b.press = f
	}
}

// Level returns how much memory there is.
func (b *Budget) Level() Level {
	if b == nil {
		return Enough
	}
	return Level(b.level.Load())
}

// Since returns when the level was reached; zero: it has been the same from the beginning.
func (b *Budget) Since() time.Time {
	if b == nil || b.since.Load() == 0 {
		return time.Time{}
	}
	return time.Unix(0, b.since.Load())
}

// Taken returns how much shares have, in bytes.
func (b *Budget) Taken() int64 { return b.taken.Load() }

// free returns the usable bytes that are left after every share has its guaranteed bytes.
func (b *Budget) free() int64 {
	return b.usable - b.shares.Load()*(Idle+Promised) - b.over.Load() - b.other.Load()
}

// Missing returns how many bytes shares must free of those beyond their guaranteed ones, so that
// there is room for the guaranteed bytes of all of them and of future connections; 0: there is
// room.
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

// Usage returns the bytes in use and the limit; 0, 0: there is no limit.
func (b *Budget) Usage() (used, limit int64) {
	if b == nil {
		return 0, 0
	}
	return b.usedBytes(), b.limit
}

// usedBytes returns the bytes in use.
func (b *Budget) usedBytes() int64 { return b.shares.Load()*Idle + b.taken.Load() + b.other.Load() }

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
			b.noteCollection(time.Now(), had)
		case <-tick.C:
			b.Look(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// shareBytes returns the bytes of shares and of their idle connections.
func (b *Budget) shareBytes() int64 { return b.taken.Load() + b.shares.Load()*Idle }

// noteCollection records the bytes in use after a collection, and the bytes that shares had then.
// The result is too high if something was freed meanwhile, so the smaller of the last two counts.
func (b *Budget) noteCollection(now time.Time, had int64) {
	b.recent[0], b.recent[1] = max(0, b.measure()-had), b.recent[0]
	b.other.Store(min(b.recent[0], b.recent[1]))
	b.found = now
}

// Look computes the level, and informs connections. Watch calls it ten times a second.
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

// judge computes the level, and logs it when it changes.
func (b *Budget) judge(now time.Time) {
	was, is := b.Level(), Enough
	used := b.usedBytes()
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
