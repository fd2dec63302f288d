package loop

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"golang.org/x/time/rate"
)

// A peer decides how often it is refused, so facts of refusals are bounded. An honest client is
// refused in bursts, when what it prefetched has outlived its locks. Each of these refusals is
// noted, since each explains a repeated delivery; those that go on all the time say nothing new. So
// a log takes notedBurst refusals of settlements at once and one each notedEvery on average, at
// most 40 MB a day beside the origins, and the next one that is noted says how many were left out.
// It is one budget for a log, not one for each link or entity, for a peer makes as many of these as
// it likes.
const (
	notedBurst = 1000
	notedEvery = 100 * time.Millisecond
)

// Refused sends are counted for a second, by entity and reason. maxWindows bounds how many such
// counts go on at a time in a log; what finds no room among them is not counted.
const (
	refusedWindow = time.Second
	maxWindows    = 64
)

// facts puts into the log what changes nothing, and decides which refusals are noted, and when.
// What is in it may die with the process.
type facts struct {
	// set once in New
	recorder *recorder
	links    *linkFacts

	// owned by the loop
	noted   *rate.Limiter  // refusals of settlements
	missed  uint64         // those that were not noted since the last one that was
	windows []*engine.Note // of refused sends, the one that is over first in front
}

func newFacts() facts { return facts{noted: rate.NewLimiter(rate.Every(notedEvery), notedBurst)} }

// admitSettlement reports whether a refusal is noted, and fills in how many before it were not.
func (f *facts) admitSettlement(now event.Time, fact *event.SettlementRefused) bool {
	if !f.noted.AllowN(now.Std(), 1) {
		f.missed++
		return false
	}
	fact.Missed, f.missed = f.missed, 0
	return true
}

// countSends counts messages that were refused.
func (f *facts) countSends(now event.Time, fact event.SendsRefused, from *engine.Origin) {
	for _, w := range f.windows {
		if counted := w.Fact.(*event.SendsRefused); counted.Slice == fact.Slice && counted.Why == fact.Why {
			counted.Count += fact.Count
			w.Origin = from
			return
		}
	}
	if fact.Count > 0 && len(f.windows) < maxWindows {
		fact.Since = now
		f.windows = append(f.windows, &engine.Note{Fact: &fact, Origin: from})
	}
}

// takeEnded takes out a count of refused sends whose time is over; nil: there is none.
func (f *facts) takeEnded(now event.Time) *engine.Note {
	if at := f.deadline(); at == 0 || now < at {
		return nil
	}
	first := f.windows[0]
	f.windows = slices.Delete(f.windows, 0, 1)
	return first
}

// deadline is when the next count is over; 0: there is none.
func (f *facts) deadline() event.Time {
	if len(f.windows) == 0 {
		return 0
	}
	return f.windows[0].Fact.(*event.SendsRefused).Since.Add(refusedWindow) // all are as long
}

// Begin notes the start of a run, with the version of the program and a fingerprint of its
// settings. It is called once, behind SetClock and before anything else is written.
func (l *Loop) Begin(version, settings string, plog log.Partition) {
	l.facts.note(l.recorder.now(), &engine.Note{Fact: &event.RunStarted{Version: version, Settings: settings, Stop: plog.LastStop(),
		Cut: uint64(plog.Recovery().CutBytes)}})
}

// note puts a fact into the log, or adds it to others, unless there are too many.
func (f *facts) note(now event.Time, cmd *engine.Note) {
	switch fact := cmd.Fact.(type) {
	case *event.SettlementRefused:
		if onlyReserveLeft(f.recorder.frames.writer) {
			f.missed++
			return
		}
		if !f.admitSettlement(now, fact) {
			return
		}
	case *event.SendsRefused:
		f.countSends(now, *fact, cmd.Origin)
		return
	case *event.LinkOpened, *event.LinkClosed:
		f.links.note(now, cmd)
		return
	}
	f.recorder.write(now, f.recorder.part.Decide(now, cmd))
}

// noteRefused counts the messages of a send that was refused.
func (f *facts) noteRefused(now event.Time, cmd *engine.Send, err error) {
	if e, ok := err.(*engine.Error); ok && !onlyReserveLeft(f.recorder.frames.writer) {
		f.countSends(now, event.SendsRefused{Envelope: event.Envelope{Slice: cmd.Slice}, Why: e.Code.Refusal(), Count: uint64(len(cmd.Messages))}, cmd.Origin)
	}
}

// flushCounts puts the counts of refused sends that are over by a time into the log.
func (f *facts) flushCounts(now, by event.Time) {
	for note := f.takeEnded(by); note != nil; note = f.takeEnded(by) {
		f.recorder.write(now, f.recorder.part.Decide(now, note))
	}
}

// Finish is for the end of a run: what was counted goes into the log, and no fact waits for company
// any more.
func (l *Loop) Finish() {
	l.frames.ripen(event.EndOfTime)
	l.frames.hasty = true
	l.facts.flushCounts(l.recorder.now(), event.EndOfTime)
	l.seal()
}
