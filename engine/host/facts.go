package host

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A peer decides how often it is refused, so facts of refusals are bounded. An honest client is refused in bursts: what it prefetched has
// outlived its locks. Of these each is noted, since each explains a repeat; what goes on all the time says nothing new. So a log takes
// notedBurst refusals of settlements at once and one each notedEvery on average, at most 40 MB a day, and the next one says how many it did not
// take. It is one budget for a log, not one for each link or entity, for a peer makes as many of these as it likes.
const (
	notedBurst = 1000
	notedEvery = 100 * time.Millisecond
)

// Refused sends are counted for a second, by entity and reason. maxWindows bounds how many such counts go on at a time in a log; what finds no
// room among them is not counted.
const (
	refusedWindow = time.Second
	maxWindows    = 64
)

// facts decides which refusals a loop notes, and when. What is in it may die with the process. The zero value is ready for use.
type facts struct {
	paid    event.Time // until when the refusals of settlements that were noted use up what may be noted
	missed  uint64     // refusals that were not noted since the last one that was
	windows []*engine.NoteSends
}

// settlement reports whether a refusal is noted, and fills in how many before it were not.
func (f *facts) settlement(now event.Time, note *engine.NoteSettlement) bool {
	f.paid = max(f.paid, now)
	if f.paid.Sub(now) > (notedBurst-1)*notedEvery {
		f.missed++
		return false
	}
	f.paid = f.paid.Add(notedEvery)
	note.Missed, f.missed = f.missed, 0
	return true
}

// sends counts messages that were refused.
func (f *facts) sends(now event.Time, note engine.NoteSends) {
	for _, w := range f.windows {
		if w.Slice == note.Slice && w.Why == note.Why {
			w.Count, w.Origin = w.Count+note.Count, note.Origin
			return
		}
	}
	if len(f.windows) < maxWindows {
		note.Since = now
		f.windows = append(f.windows, &note)
	}
}

// over takes a count of refused sends out whose time is over; nil: there is none.
func (f *facts) over(now event.Time) *engine.NoteSends {
	if at := f.deadline(); at == 0 || now < at {
		return nil
	}
	first := f.windows[0]
	if f.windows[0] = nil; len(f.windows) == 1 {
		f.windows = nil
		return first
	}
	f.windows = f.windows[1:]
	return first
}

// deadline is when the next count is over; 0: there is none.
func (f *facts) deadline() event.Time {
	if len(f.windows) == 0 {
		return 0
	}
	return f.windows[0].Since.Add(refusedWindow) // they are as long as each other
}

// Begin notes the start of a run. It is called once, behind SetClock and before anything else is written.
func (l *Loop) Begin(p Program, r log.Partition) {
	now := l.recorder.now()
	run := engine.Run{Version: p.Version, Settings: p.Settings, Stop: r.LastStop(), Cut: uint64(r.Recovery().CutBytes)}
	l.recorder.write(now, l.part.Decide(now, engine.NoteRun(run)))
}

// Program is what the log says of who writes it.
type Program struct {
	Version  string // of the broker
	Settings string // a fingerprint of what it was started with; equal settings have equal ones
}

// note puts a refusal into the log, unless there are too many.
func (l *Loop) note(now event.Time, cmd engine.Command) {
	switch cmd := cmd.(type) {
	case *engine.NoteSettlement:
		if l.facts.settlement(now, cmd) {
			l.recorder.write(now, l.part.Decide(now, cmd))
		}
	case *engine.NoteSends:
		l.facts.sends(now, *cmd)
	}
}

// refused counts the messages of a send that was refused.
func (l *Loop) refused(now event.Time, cmd *engine.Send, err error) {
	if e, ok := err.(*engine.Error); ok {
		l.facts.sends(now, engine.NoteSends{Slice: cmd.Slice, Origin: cmd.Origin, Why: e.Code, Count: uint64(len(cmd.Messages))})
	}
}

// counted puts the counts of refused sends that are over into the log.
func (l *Loop) counted(now event.Time) {
	for note := l.facts.over(now); note != nil; note = l.facts.over(now) {
		l.recorder.write(now, l.part.Decide(now, note))
	}
}

// Finish is for the end of a run: what was counted goes into the log, and no fact waits for company any more.
func (l *Loop) Finish() {
	l.frames.hurry(event.EndOfTime)
	l.frames.hasty = true
	for now := l.recorder.now(); len(l.facts.windows) > 0; {
		l.recorder.write(now, l.part.Decide(now, l.facts.over(event.EndOfTime)))
	}
	l.seal()
}
