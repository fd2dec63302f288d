package loop

import (
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"golang.org/x/time/rate"
)

// Links that are opened and closed stand in the log, each under its origin. What a peer that does
// nothing else can make of that is bounded by a token bucket for each slice: it holds linksAtOnce
// links and gets one back every linkPause. A link beyond that is left out, its end with it, and
// counted in the next one that is not. Links that were given a session are all noted: their session
// is, anyway.
const (
	linksAtOnce = 8192
	linkPause   = 250 * time.Millisecond
)

// linkFacts notes links that are opened and closed. It dies with the process: the next run says
// that there are none any more.
type linkFacts struct {
	// set once in New
	part     *engine.Partition
	recorder *recorder

	// owned by the loop
	open    map[*engine.Origin]openLink // links whose opening is in the log
	buckets map[event.Slice]*linkBucket // those that are not full
	sweep   int                         // how many buckets make it worth looking for full ones
}

// openLink is how the log knows a link.
type openLink struct {
	number event.OriginID
	slice  event.Slice // of those that it has here the one that its opening is in: it says so once
}

// linkBucket is the bucket of a slice.
type linkBucket struct {
	limit  *rate.Limiter
	missed uint64 // links left out since the last that was noted
}

func newLinkFacts(part *engine.Partition, recorder *recorder) linkFacts {
	return linkFacts{part: part, recorder: recorder, open: map[*engine.Origin]openLink{}, buckets: map[event.Slice]*linkBucket{}, sweep: 64}
}

// attached notes a receiver that is served from now on. A port that receives from no slice, and is
// only counted, is not noted.
func (f *linkFacts) attached(now event.Time, r *receiver) {
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
	f.opened(now, event.Slice{Entity: r.Entity.ID, Partition: first}, r.Origin, fact)
}

// note notes what is known of a sender's link.
func (f *linkFacts) note(now event.Time, cmd *engine.Note) {
	slice := cmd.Fact.Common().Slice
	switch fact := cmd.Fact.(type) {
	case *event.LinkOpened:
		if _, gone := f.part.Entity(slice); gone == nil {
			f.opened(now, slice, cmd.Origin, fact)
		}
	case *event.LinkClosed:
		f.closed(now, cmd.Origin, fact)
	}
}

// opened notes a link, unless nobody says whose it is or there are too many.
func (f *linkFacts) opened(now event.Time, id event.Slice, link *engine.Origin, fact *event.LinkOpened) {
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

// closed notes the end of a link whose opening is in the log.
func (f *linkFacts) closed(now event.Time, link *engine.Origin, fact *event.LinkClosed) {
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

// take takes a link out of the bucket of a slice, or counts it as one that is left out.
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

// forget drops the buckets that are full and have nothing to tell.
func (f *linkFacts) forget(now event.Time) {
	for id, b := range f.buckets {
		if b.limit.TokensAt(now.Std()) >= linksAtOnce && b.missed == 0 {
			delete(f.buckets, id)
		}
	}
	f.sweep = max(64, 2*len(f.buckets))
}
