package sim

import (
	"time"
)

// epoch is when a run begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Wall implements [engine.TimeSource].
func (w *world) Wall() time.Time { return epoch.Add(w.mono + w.offset) }

// Elapsed implements [engine.TimeSource].
func (w *world) Elapsed() time.Duration { return w.mono }

func (w *world) advance() {
	d := time.Duration(w.rng.Int64N(int64(w.o.longStep)))
	switch n := w.rng.IntN(200); {
	case n < 5:
		d = time.Duration(w.rng.Int64N(int64(6 * time.Second)))
	case n < 30: // to the next thing that is due
		if at := w.nextDeadline(); at > w.newest {
			d = time.Duration(at-w.newest) * time.Millisecond
		}
	case n == 30: // the process was stopped, or the machine slept (F16)
		d = time.Second + time.Duration(w.rng.Int64N(int64(time.Hour)))
		w.stats.Pauses++
	}
	w.mono += d
}

// nextDeadline is when a loop wants to be woken first; 0 is never.
func (w *world) nextDeadline() (next int64) {
	for _, p := range w.parts {
		if at := int64(p.loop.NextDeadline()); at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// jump sets the wall clock (F15).
func (w *world) jump() {
	most := pick(w.rng, 2*time.Millisecond, time.Second, 10*time.Second, time.Minute, time.Hour, 24*time.Hour, 365*24*time.Hour, 3650*24*time.Hour)
	d := time.Millisecond + time.Duration(w.rng.Int64N(int64(most)))
	switch {
	case w.offset+d > 3650*24*time.Hour || w.chance(50) && w.offset-d > -3650*24*time.Hour:
		d = -d
	case w.chance(5):
		d = -w.offset // put right again
	}
	w.offset += d
	w.stats.Jumps++
	w.note("wall clock set", int64(d))
}

// broker is broker time. However the wall clock is set, it goes on with the other one, at most 5 % faster or slower.
func (w *world) broker() int64 {
	now := int64(w.clock.Now())
	passed := (w.mono - w.read).Milliseconds()
	switch d := now - w.newest; {
	case d < 0:
		w.broken("I5 (F15)", "broker time went back from %d to %d", w.newest, now)
	case d < passed-passed/20-2 || d > passed+passed/20+2:
		w.broken("I5 (F15)", "broker time went on by %d ms, it were %d: locks end early or late, or everything expires", d, passed)
	}
	w.newest, w.read = now, w.mono
	return now
}

// now is the time of the next decision of a partition.
func (w *world) now(p *part) int64 { return max(w.broker(), p.model.LastAt) }
