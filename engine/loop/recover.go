package loop

import (
	"fmt"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Recover ends what did not survive the stop: the links that held sessions are gone, locks have
// ended, and scheduled messages are due (semantics.md 4.3 R3, 7.6). It is called once, before any
// request. When it returns nothing of that is left: the first client sees none of it, and its
// messages come after (SM-370). If there is more than two frames of it, Recover waits for the disk.
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

// makeRoom hands a large frame on. It waits if another frame is being synced.
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

// SetClock applies a decision about a clock, and waits until it is durable. It is called once,
// before DropUnknown, and before anything else is written. The reason is that the record may be
// older than the one before it, which no record in its frame may be. The argument reason is the
// operator's; "": none was given.
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

// DropUnknown forgets slices of entities that were deleted while this partition was away. It is
// called once, before Recover, which then has nothing to end in them.
func (l *Loop) DropUnknown() {
	for _, id := range l.part.Index().Slices() {
		if _, gone := l.part.Entity(id); gone != nil {
			l.recorder.write(l.recorder.now(), l.part.Decide(l.recorder.now(), engine.DropSlice(id)))
		}
	}
}

// Resume tells the courier which messages are in transfer, and forgets arrivals from entities that
// were deleted. It is called once, after Recover. lives returns the entity with an id, or nil.
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
