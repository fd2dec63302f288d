package sim

import (
	"errors"
	"math"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/model"
)

// epoch is when a run begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Wall implements [host.TimeSource].
func (w *world) Wall() time.Time { return epoch.Add(w.mono + w.offset) }

// Elapsed implements [host.TimeSource].
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
	for _, p := range w.running() {
		for _, at := range [...]int64{int64(p.loop.NextDeadline()), p.rest} {
			if at != 0 && (next == 0 || at < next) {
				next = at
			}
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

// broker is broker time. However the wall clock is set, it goes on with the monotonic one, at most
// 5 % faster or slower.
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

// lastClock is the newest decision about the clock that any log knows of, and newestRecord the time
// of the newest record by it.
func (w *world) lastClock() (last model.Clock, newestRecord int64) {
	for _, p := range w.running() {
		if p.model.Clock.Number > last.Number {
			last = p.model.Clock
		}
	}
	for _, p := range w.running() {
		if p.model.LastAt != 0 {
			newestRecord = max(newestRecord, p.model.LastAt+last.Shift-p.model.Clock.Shift)
		}
	}
	return last, newestRecord
}

// beginTime is the start of broker time. A clock that is refused is put right, or the operator
// believes the log, or the clock (reliability.md 1.4); what a start before this one had begun to
// carry out goes on.
func (w *world) beginTime(states []*index.Index) host.ClockStart {
	var rules host.ClockRules
	last, newest := w.lastClock()
	if w.o.jumps && w.chance(10) { // the operator says so at once
		rules.Accept = pick(w.rng, host.AcceptLog, host.AcceptWall)
	}
	for {
		wall := event.TimeOf(w.Wall())
		off := time.Duration(int64(wall)-newest) * time.Millisecond
		refused := newest != 0 && (off < -time.Hour || off > 400*24*time.Hour)
		begin, err := rules.Begin(w.Wall(), states)
		if e := (*host.ClockError)(nil); err != nil && !errors.As(err, &e) || (err != nil) != (refused && rules.Accept == host.AcceptNone) {
			w.broken("F15", "the clock is %v from the newest record, and the start says %v", off, err)
		}
		if counts := rules.Accept != host.AcceptNone && newest != 0 && off.Abs() > 10*time.Minute; err == nil && counts != (begin.Decided != host.AcceptNone) {
			w.broken("F15", "the clock is %v from the newest record, the operator says %d, and that counts: %d", off, rules.Accept, begin.Decided)
		}
		if err == nil {
			w.checkBegin(begin, last, newest, int64(wall))
			return begin
		}
		w.stats.ClocksRefused++
		switch w.rng.IntN(3) {
		case 0:
			w.offset += time.Duration(w.rng.Int64N(int64(time.Hour))) - 30*time.Minute - off
			w.note("clock put right")
		case 1:
			rules.Accept = host.AcceptLog
			w.note("log believed")
		case 2:
			rules.Accept = host.AcceptWall
			w.note("clock believed", int64(off))
		}
	}
}

// checkBegin compares what a start decides about the clock with what it must: where time goes on,
// and that every log gets what it lacks.
func (w *world) checkBegin(begin host.ClockStart, last model.Clock, newest, wall int64) {
	at := max(newest, wall)
	switch begin.Decided {
	case host.AcceptLog:
		at = newest
		last.Number++
	case host.AcceptWall:
		at = wall
		last = model.Clock{Number: last.Number + 1, Shift: last.Shift + wall - newest}
	}
	if int64(begin.At) != at {
		w.broken("F15", "broker time begins at %d, it must at %d", begin.At, at)
	}
	for i, set := range begin.Sets {
		is := w.parts[i].model.Clock
		switch {
		case w.parts[i].away && set == nil:
		case (set != nil) != (is.Number != last.Number):
			w.broken("F15", "partition %d knows of decision %d, there were %d, and it is given %+v", i, is.Number, last.Number, set)
		case set != nil && (int(set.Number) != last.Number || int64(set.To-set.From) != last.Shift-is.Shift || int64(set.To) > at):
			w.broken("F15", "partition %d, moved by %d so far, is given %+v, it must come to %+v", i, is.Shift, set, last)
		}
	}
}

// setClocks carries out what a start decided about the clock, in the order of the logs.
func (w *world) setClocks(begin host.ClockStart) error {
	for i, set := range begin.Sets {
		if set == nil {
			continue
		}
		if err := w.setClock(w.parts[i], set); err != nil {
			return err
		}
	}
	return nil
}

// setClock carries the decision out in one log.
func (w *world) setClock(p *part, set *event.ClockSet) error {
	also := func(int64) {}
	// what is known beside the logs moves with the first of them; nobody asks before all have
	if p.id == 0 {
		also = w.moveTimes
	}
	p.model.SetClock(int(set.Number), int64(set.To), int64(set.To-set.From), also)
	if w.o.deep && !w.draining && w.armed == 0 && w.chance(25) { // on the way, or between two logs
		w.armed = 1 + w.rng.IntN(6)
	}
	p.starting = true
	err := p.loop.SetClock(set, "")
	p.starting = false
	if err == nil {
		p.needKill, p.needPower = p.model.Records, p.model.Records
		w.stats.ClocksSet++
		w.note("clock set", int64(p.id), int64(set.To-set.From))
	}
	return err
}

func (w *world) moveTimes(by int64) {
	for i := range w.catalogue {
		s := &w.catalogue[i]
		s.changed, s.noted = model.Moved(s.changed, by), model.Moved(s.noted, by)
	}
	for l := range w.hist.lives {
		for _, t := range []*int64{&l.due, &l.decidedAt, &l.doneAt, &l.until, &l.latest} {
			if *t != math.MaxInt64 {
				*t = model.Moved(*t, by)
			}
		}
	}
	for _, g := range w.hist.grants {
		g.until = model.Moved(g.until, by)
	}
}
