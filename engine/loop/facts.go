package loop

import (
	"slices"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"golang.org/x/time/rate"
)

// A peer decides how often it is refused, so facts about refusals are bounded. An honest client is
// refused in bursts, when its prefetched messages have outlived their locks. Each of these refusals
// is recorded, because each explains a repeated delivery; refusals that continue all the time say
// nothing new. So a log records notedBurst refusals of settlements at once and one each notedEvery
// on average, at most 40 MB a day besides the origins. The next recorded refusal says how many were
// left out. The budget is for a log, not for each link or entity, because a peer can make as many
// of these as it likes.
const (
	notedBurst = 1000
	notedEvery = 100 * time.Millisecond
)

// Refused sends are counted for a second, by entity and reason. maxWindows bounds the counts that
// are open at a time in a log; further refusals are not counted.
const (
	refusedWindow = time.Second
	maxWindows    = 64
)

// facts records events that change no state, and decides which refusals are recorded, and when. Its
// content may die with the process.
type facts struct {
	// set once in New
	recorder *recorder
	links    *linkFacts

	// owned by the loop
	noted   *rate.Limiter  // limits recorded refusals of settlements
	missed  uint64         // refusals of settlements since the last recorded one
	windows []*engine.Note // counts of refused sends, the first to end in front
}

func newFacts() facts { return facts{noted: rate.NewLimiter(rate.Every(notedEvery), notedBurst)} }

// admitSettlement reports whether a refusal is recorded, and fills in how many before it were not.
func (f *facts) admitSettlement(now event.Time, fact *event.SettlementRefused) bool {
	if !f.noted.AllowN(now.Std(), 1) {
		f.missed++
		return false
	}
	fact.Missed, f.missed = f.missed, 0
	return true
}

// countSends counts refused messages.
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

// takeEnded removes a count of refused sends whose time has ended; nil: there is none.
func (f *facts) takeEnded(now event.Time) *engine.Note {
	if at := f.deadline(); at == 0 || now < at {
		return nil
	}
	first := f.windows[0]
	f.windows = slices.Delete(f.windows, 0, 1)
	return first
}

// deadline returns when the next count ends; 0: there is none.
func (f *facts) deadline() event.Time {
	if len(f.windows) == 0 {
		return 0
	}
	return f.windows[0].Fact.(*event.SendsRefused).Since.Add(refusedWindow) // all last equally long
}

// Begin records the start of a run, with the version of the program and a fingerprint of its
// settings. It is called once, after SetClock and before anything else is written.
func (l *Loop) Begin(version, settings string, plog log.Partition) {
	l.facts.note(l.recorder.now(), &engine.Note{Fact: &event.RunStarted{Version: version, Settings: settings, Stop: plog.LastStop(),
		Cut: uint64(plog.Recovery().CutBytes)}})
}

// note records a fact, or adds it to others, unless there are too many.
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

// noteRefused counts the messages of a refused send.
func (f *facts) noteRefused(now event.Time, cmd *engine.Send, err error) {
	if e, ok := err.(*engine.Error); ok && !onlyReserveLeft(f.recorder.frames.writer) {
		f.countSends(now, event.SendsRefused{Envelope: event.Envelope{Slice: cmd.Slice}, Why: e.Code.Refusal(), Count: uint64(len(cmd.Messages))}, cmd.Origin)
	}
}

// flushCounts records the counts of refused sends that end by a time.
func (f *facts) flushCounts(now, by event.Time) {
	for note := f.takeEnded(by); note != nil; note = f.takeEnded(by) {
		f.recorder.write(now, f.recorder.part.Decide(now, note))
	}
}

// Finish is called at the end of a run: it records the open counts, and no fact waits for other
// records any more.
func (l *Loop) Finish() {
	l.frames.ripen(event.EndOfTime)
	l.frames.hasty = true
	l.facts.flushCounts(l.recorder.now(), event.EndOfTime)
	l.seal()
}
