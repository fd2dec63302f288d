package log

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// background is a store's budget for work that no client waits for: bytes written and bytes read
// (docs/decisions/0087). It limits how much of the disk and the processors this work takes. Sealing
// and removal have a part of their own. Scrubbing and history queries share the rest.
type background struct {
	writing *rate.Limiter // bytes that sealing and removal write
	all     *rate.Limiter // those bytes, and the bytes that scrubbing and queries read

	ends atomic.Uint64 // sum of the ends of all logs with a writer, at the last call of busy
	grew atomic.Int64  // when busy last saw that the sum had grown, UnixNano
}

const (
	// pieceBytes is how much is written before a sync and a pause, and how much is read before a
	// pause. The sync of a log waits for one piece at most, which takes a disk a few milliseconds.
	pieceBytes = 1 << 20
	// writingRate is about 80 MiB of chapters a second where bodies are JSON (TestSealedRatio shows
	// how much smaller they become).
	writingRate = 32 << 20
	// backgroundRate leaves 16 MiB a second for scrubbing and queries while chapters are sealed. A
	// reader that follows 5,000 messages a second with bodies needs half of that.
	backgroundRate = 48 << 20
	// busyTime is how long a store counts as busy after a log has grown.
	busyTime = 100 * time.Millisecond
)

func newBackground() background {
	return background{writing: rate.NewLimiter(writingRate, pieceBytes), all: rate.NewLimiter(backgroundRate, pieceBytes)}
}

// wrote counts bytes that sealing or removal wrote, and returns how long they must pause. The
// result never depends on what others read.
func (b *background) wrote(now time.Time, bytes int) time.Duration {
	b.all.ReserveN(now, min(bytes, pieceBytes))
	return b.writing.ReserveN(now, min(bytes, pieceBytes)).DelayFrom(now)
}

// read counts bytes that a scrub or a query read, and returns how long the reader must pause.
func (b *background) read(now time.Time, bytes int) time.Duration {
	return b.all.ReserveN(now, min(bytes, pieceBytes)).DelayFrom(now)
}

// busy reports whether any log has grown lately. ends is the sum of the ends of all logs.
func (b *background) busy(now time.Time, ends uint64) bool {
	if b.ends.Swap(ends) != ends {
		b.grew.Store(now.UnixNano())
	}
	return now.UnixNano()-b.grew.Load() < int64(busyTime)
}

// Pause implements [Background].
func (s *store) Pause(ctx context.Context, bytes int) {
	if now := time.Now(); s.background.busy(now, s.totalDurable()) {
		s.sleep(ctx, s.background.read(now, bytes))
	}
}

// restWriting pauses after sealing or removal has written bytes. It does not pause when the disk
// has little room, because sends are refused until there is more.
func (s *store) restWriting(ctx context.Context, bytes int) {
	if s.reserve.room() == RoomEnough {
		s.sleep(ctx, s.background.wrote(time.Now(), bytes))
	}
}

// totalDurable returns the sum of the durable ends of all logs with a writer. It changes while any
// of them grows.
func (s *store) totalDurable() (sum uint64) {
	for p := range s.all() {
		p.mu.RLock()
		w := p.writer
		p.mu.RUnlock()
		if w != nil {
			sum += w.durable.Load()
		}
	}
	return sum
}

// sleep waits for d, or until the context ends. It does nothing with [Options.Manual].
func (s *store) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 || s.opts.Manual {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
