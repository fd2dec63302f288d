package log

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// background is the budget of a store for work that no client waits for, in bytes written and read
// (docs/decisions/0087). It bounds what is taken of the disk and the processors. Sealing and
// removal have a part of it that is theirs alone. Scrubbing and questions share what those leave.
type background struct {
	writing *rate.Limiter // what sealing and removal write
	all     *rate.Limiter // that, and what scrubbing and questions read

	ends atomic.Uint64 // of all logs that are written, added up, when busy looked last
	grew atomic.Int64  // when it saw that they had grown, UnixNano
}

const (
	// pieceBytes is written before a sync and a rest, and read before a rest. The sync of a log
	// waits for one piece at most, which takes a disk some ms.
	pieceBytes = 1 << 20
	// writingRate is some 80 MiB of chapters a second where bodies are JSON (TestSealedRatio has
	// how much smaller they become).
	writingRate = 32 << 20
	// backgroundRate leaves scrubbing and questions 16 MiB a second beside sealing: a reader
	// follows 5,000 messages a second with bodies in half of that.
	backgroundRate = 48 << 20
	// busyTime is how long a store counts as busy after a log has grown.
	busyTime = 100 * time.Millisecond
)

func newBackground() background {
	return background{writing: rate.NewLimiter(writingRate, pieceBytes), all: rate.NewLimiter(backgroundRate, pieceBytes)}
}

// wrote counts what sealing or removal wrote, and returns how long they rest: it never depends on
// what others read.
func (b *background) wrote(now time.Time, bytes int) time.Duration {
	b.all.ReserveN(now, min(bytes, pieceBytes))
	return b.writing.ReserveN(now, min(bytes, pieceBytes)).DelayFrom(now)
}

// read counts what a scrub or a question read, and returns how long it rests.
func (b *background) read(now time.Time, bytes int) time.Duration {
	return b.all.ReserveN(now, min(bytes, pieceBytes)).DelayFrom(now)
}

// busy reports whether any log has grown lately, to ends if they are added up.
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

// restWriting rests after some bytes were written by sealing or removal: not where the disk has
// little room, since sends are refused until there is more.
func (s *store) restWriting(ctx context.Context, bytes int) {
	if s.reserve.room() == RoomEnough {
		s.sleep(ctx, s.background.wrote(time.Now(), bytes))
	}
}

// totalDurable is how far the logs that are written are durable, added up: it changes while any of them
// grows.
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

// sleep waits for d, or until the context ends. Where all is done by hand there is no time.
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
