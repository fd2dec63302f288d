package loop

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Recover ends what did not survive the stop: sessions were held by links that are gone, locks have
// passed, and schedules have become due (semantics.md 4.3 R3, 7.6). It is called once, before
// anything is asked, and nothing of that is left when it returns: the first client finds none of
// it, and what it sends stands behind (SM-370). Where there is more than two frames of it, it waits
// for the disk.
func (l *Loop) Recover() {
	now := l.recorder.now()
	l.frames.budget = min(maxBackground, l.startBytes)
	defer func() { l.frames.budget = maxBackground }()
	for again := true; again && l.recorder.err == nil; {
		out := l.part.Decide(now, engine.ReleaseAll())
		again = out.Again
		l.recorder.write(now, out)
		l.makeRoom()
	}
	for l.recorder.err == nil && !l.endDue(now) {
		l.makeRoom()
	}
}

// makeRoom hands a large frame on, and waits where another one is being synced.
func (l *Loop) makeRoom() {
	l.frames.background = 0
	if l.frames.writer.Batch().Len() <= l.startBytes {
		return
	}
	for l.frames.syncing() && l.recorder.err == nil {
		l.await()
	}
	l.seal()
}

// SetClock carries out what was decided about a clock, and waits until it is durable. It is called
// once, before DropUnknown, and before anything else is written: the record may be older than the
// one in front of it, which no record of its frame may be. Reason is what the operator says about
// it; "": nothing.
func (l *Loop) SetClock(set *event.ClockSet, reason string) error {
	if l.frames.writer.Batch().Count() > 0 {
		panic(fmt.Sprintf("engine: partition %d: the clock is set after other records", l.part.ID()))
	}
	events := []event.Event{set}
	if reason != "" {
		events = append(events, &event.ReasonGiven{Reason: reason})
	}
	l.frames.writer.Batch().AppendRecord(set.To, events, log.Durable)
	l.part.Apply(set.To, set)
	ticket := l.frames.writer.Append(l.frames.writer.Batch())
	l.frames.work()
	<-ticket.Done()
	if err := ticket.Err(); err != nil {
		l.recorder.fail(err)
	}
	return l.recorder.err
}

// DropUnknown forgets slices of entities that were deleted when this partition could not be told.
// It is called once, before Recover, which then has nothing to end in them.
func (l *Loop) DropUnknown() {
	for _, id := range l.part.Index().Slices() {
		if _, gone := l.part.Entity(id); gone != nil {
			l.recorder.write(l.recorder.now(), l.part.Decide(l.recorder.now(), engine.DropSlice(id)))
		}
	}
}

// Resume tells the courier what is in transfer, and forgets what came from entities that are no
// more. It is called once, behind Recover. lives is the entity of an id, or nil.
func (l *Loop) Resume(lives func(event.EntityID) *engine.Entity) {
	x := l.part.Index()
	for _, id := range x.Slices() {
		for _, source := range x.ArrivalSources(id) {
			if lives(source.Entity) != nil {
				continue
			}
			now := l.recorder.now()
			l.recorder.write(now, l.part.Decide(now, &engine.ForgetSource{Slice: id, Source: source}))
			l.makeRoom()
		}
	}
	l.transfers.resume(lives)
}
