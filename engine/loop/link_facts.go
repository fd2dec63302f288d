package loop

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"golang.org/x/time/rate"
)

// The log records when links are opened and closed, each under its origin. A peer can open links
// all the time, so a token bucket for each slice bounds the records: it holds linksAtOnce links and
// regains one every linkPause. Further links are left out, with their ends, and the next recorded
// link says how many. Links with a session are all recorded, because their session is recorded
// anyway.
const (
	linksAtOnce = 8192
	linkPause   = 250 * time.Millisecond
)

// linkFacts records when links are opened and closed. It dies with the process: the next run
// records that no links are open.
type linkFacts struct {
	// set once in New
	part     *engine.Partition
	recorder *recorder

	// owned by the loop
	open    map[*engine.Origin]openLink // links whose opening is in the log
	buckets map[event.Slice]*linkBucket // buckets that are not full
	sweep   int                         // number of buckets from which full ones are dropped
}

// openLink is a link as the log knows it.
type openLink struct {
	number event.OriginID
	slice  event.Slice // slice of its opening: a link with several slices here is recorded once
}

// linkBucket is the bucket of a slice.
type linkBucket struct {
	limit  *rate.Limiter
	missed uint64 // links left out since the last recorded one
}

func newLinkFacts(part *engine.Partition, recorder *recorder) linkFacts {
	return linkFacts{part: part, recorder: recorder, open: map[*engine.Origin]openLink{}, buckets: map[event.Slice]*linkBucket{}, sweep: 64}
}

// recordAttached records a receiver that is served from now on. A port that receives from no slice,
// and is only counted, is not recorded.
func (f *linkFacts) recordAttached(now event.Time, r *receiver) {
	if !r.noted || !r.served {
		return
	}
	fact := &event.LinkOpened{Role: event.Receiver, SubQueue: r.SubQueue}
	switch r.Mode {
	case engine.ReceiveAndDelete:
		fact.Role = event.DeletingReceiver
	case engine.Browse:
		fact.Role = event.Browser
	}
	first, _ := r.local.after(15)
	if r.Session != nil {
		fact.InSession, fact.SessionID = true, r.sessionID
		first = r.session.Partition()
	}
	f.recordOpened(now, event.Slice{Entity: r.Entity.ID, Partition: first}, r.Origin, fact)
}

// note records the opening or the end of a sender's link.
func (f *linkFacts) note(now event.Time, cmd *engine.Note) {
	slice := cmd.Fact.Common().Slice
	switch fact := cmd.Fact.(type) {
	case *event.LinkOpened:
		if _, gone := f.part.Entity(slice); gone == nil {
			f.recordOpened(now, slice, cmd.Origin, fact)
		}
	case *event.LinkClosed:
		f.recordClosed(now, cmd.Origin, fact)
	}
}

// recordOpened records a link, unless its owner is unknown or there are too many.
func (f *linkFacts) recordOpened(now event.Time, id event.Slice, link *engine.Origin, fact *event.LinkOpened) {
	if _, known := f.open[link]; known || link == nil || !fact.InSession && !f.take(now, id) {
		return
	}
	if b, ok := f.buckets[id]; ok {
		fact.Missed, b.missed = b.missed, 0
	}
	fact.Slice = id
	f.recorder.write(now, f.part.Decide(now, &engine.Note{Fact: fact, Origin: link}))
	f.open[link] = openLink{fact.Origin, id}
}

// recordClosed records the end of a link whose opening is in the log.
func (f *linkFacts) recordClosed(now event.Time, link *engine.Origin, fact *event.LinkClosed) {
	as, noted := f.open[link]
	if !noted {
		return
	}
	delete(f.open, link)
	own := *fact // other partitions have the same command
	if own.Cause == 0 {
		own.Cause = event.ClosedByPeer
	}
	own.Slice, own.Origin = as.slice, as.number
	f.recorder.write(now, f.part.Decide(now, &engine.Note{Fact: &own, Origin: link}))
}

// take takes a token for a link from the bucket of a slice, or counts the link as left out.
func (f *linkFacts) take(now event.Time, id event.Slice) bool {
	b, known := f.buckets[id]
	if !known {
		if len(f.buckets) >= f.sweep {
			f.forget(now)
		}
		b = &linkBucket{limit: rate.NewLimiter(rate.Every(linkPause), linksAtOnce)}
		f.buckets[id] = b
	}
	if onlyReserveLeft(f.recorder.frames.writer) || !b.limit.AllowN(now.Std(), 1) {
		b.missed++
		return false
	}
	return true
}

// forget drops the buckets that are full and have nothing to report.
func (f *linkFacts) forget(now event.Time) {
	for id, b := range f.buckets {
		if b.limit.TokensAt(now.Std()) >= linksAtOnce && b.missed == 0 {
			delete(f.buckets, id)
		}
	}
	f.sweep = max(64, 2*len(f.buckets))
}
