package log

import (
	"testing"
	"time"
)

// Readers never slow sealing down, and get the rest of its budget, measured with a clock that the
// test controls.
func TestBackgroundPriorities(t *testing.T) {
	t.Parallel()
	const long = 10 * time.Second
	for name, c := range map[string]struct {
		writes, reads  bool
		wrote, hasRead int // MiB a second
	}{
		"sealing alone":     {true, false, writingRate >> 20, 0},
		"readers alone":     {false, true, 0, backgroundRate >> 20},
		"sealing and three": {true, true, writingRate >> 20, (backgroundRate - writingRate) >> 20},
	} {
		b := newBackground()
		var wrote, read int
		start := time.Unix(1_900_000_000, 0)
		next := [4]time.Time{start, start, start, start} // when each goes on; the first one seals
		for now := start; now.Sub(start) < long; now = now.Add(time.Millisecond) {
			for c.writes && !next[0].After(now) {
				next[0] = now.Add(b.wrote(now, pieceBytes))
				wrote += pieceBytes
			}
			for i, size := range []int{0, pieceBytes, 64 << 10, 2 * pieceBytes} {
				for c.reads && i > 0 && !next[i].After(now) {
					next[i] = now.Add(b.read(now, size))
					read += min(size, pieceBytes)
				}
			}
		}
		const most = 3 // MiB, of bursts and of pieces in progress
		if got, want := wrote>>20, c.wrote*int(long/time.Second); got < want || got > want+most {
			t.Errorf("%s: %d MiB are written, want %d", name, got, want)
		}
		if got, want := read>>20, c.hasRead*int(long/time.Second); got < want-most || got > want+2*most {
			t.Errorf("%s: %d MiB are read, want %d", name, got, want)
		}
	}
}

// A store is busy while its logs grow, and for a moment after it.
func TestBackgroundBusy(t *testing.T) {
	t.Parallel()
	var b background
	now := time.Unix(1_900_000_000, 0)
	for i, c := range []struct {
		after time.Duration
		ends  uint64
		busy  bool
	}{{0, 8, true}, {busyTime - 1, 8, true}, {1, 8, false}, {time.Hour, 8, false}, {time.Hour, 9, true}} {
		now = now.Add(c.after)
		if got := b.busy(now, c.ends); got != c.busy {
			t.Errorf("look %d: busy %t", i, got)
		}
	}
}
