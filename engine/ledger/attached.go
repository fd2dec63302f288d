package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	present "github.com/ledgerbus/ledgerbus/engine/present/rows"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// notInLog lists the fields of [present.Receivers] that only a running broker knows.
var notInLog = []string{"partitions", "refused", "credit", "passed", "inLoop", "unsettled", "unsent", "verdict"}

// attachedLinks has the receiver links of a sub-queue that logs show as open at their ends.
type attachedLinks struct {
	all     map[event.Origin]*present.Receiver // a link with ports in several logs is one
	unknown []string
	closed  int // number of messages locked by other links
	end     event.Time
}

// Attached returns the receivers of an entity, or of a sub-queue such as orders/$dlq, that were
// attached at the end of the logs. An error wraps [ErrQuestion] if the path is at fault, or
// [ErrNothing] if there was no such entity.
func (l *Ledger) Attached(ctx context.Context, path string) (present.Receivers, error) {
	e, q, err := l.lastEntity(ctx, path)
	if err != nil {
		return present.Receivers{}, err
	}
	list := present.Receivers{Entity: address.Address{Entity: e.path, SubQueue: q}.Path(), Why: []string{}, Partitions: []present.ReceiverPartition{}, Receivers: []present.Receiver{}, Refused: []present.RefusedReceiver{}, NotRecorded: notInLog}
	links := attachedLinks{all: map[event.Origin]*present.Receiver{}}
	sum, available := count{}, 0
	for _, id := range l.names.logs(e) {
		err := l.attachedIn(ctx, id, e, q, &links, func(x *index.Index, s event.Slice) {
			add(&sum, x, s, q)
			available += x.Count(s, q, index.Active)
		})
		if ctx.Err() != nil {
			return present.Receivers{}, ctx.Err()
		}
		if err != nil {
			list.Missing = append(list.Missing, int(id))
			links.unknown = append(links.unknown, fmt.Sprintf("the log of partition %d cannot be read: %v", id, err))
		}
	}
	list.At, list.Unknown, list.LockedByClosed = links.end.Std().UTC(), links.unknown, links.closed
	if len(list.Missing) == 0 {
		list.Messages, list.Available = sum.shown(), &available
	}
	if e.kind == event.Topic && q == event.Main {
		list.Why = append(list.Why, "it is a topic: messages are received from its subscriptions")
	}
	if len(links.all) == 0 && len(links.unknown) == 0 {
		list.Why = append(list.Why, "no receiver was attached at the end of the log")
	}
	for _, r := range links.all {
		list.Receivers = append(list.Receivers, *r)
	}
	slices.SortFunc(list.Receivers, func(a, b present.Receiver) int {
		return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.Link, b.Link))
	})
	list.More = max(0, len(list.Receivers)-present.Max)
	list.Receivers = list.Receivers[:len(list.Receivers)-list.More]
	return list, nil
}

// lastEntity returns the entity of a path, or of the path of a sub-queue, at the end of the logs.
func (l *Ledger) lastEntity(ctx context.Context, path string) (*life, event.SubQueue, error) {
	path, q, err := place(path)
	if err != nil {
		return nil, q, err
	}
	n, err := l.catalogue(ctx)
	if err != nil {
		return nil, q, err
	}
	e, err := n.find(path)
	if err != nil {
		return nil, q, err
	}
	if e.deleted != 0 {
		return nil, q, fmt.Errorf("%w of %s at the end of the log: it was deleted at %s", ErrNothing, e.path, e.deleted)
	}
	return e, q, e.has(q)
}

// shown returns the counts as answers about the present have them.
func (c *count) shown() *present.Counts {
	return &present.Counts{Messages: c.messages(), Active: c.Active, Locked: c.Locked, Deferred: c.Deferred, Scheduled: c.Scheduled,
		DeadLetter: c.DeadLetter, Transfer: c.Transfer, TransferDeadLetter: c.TransferDeadLetter, SizeBytes: c.Bytes}
}

// attachedIn adds the links of one log. It calls tally with the state of each slice at the end.
func (l *Ledger) attachedIn(ctx context.Context, id log.PartitionID, e *life, q event.SubQueue, links *attachedLinks, tally func(*index.Index, event.Slice)) error {
	b, err := l.book(ctx, id)
	if err != nil {
		return err
	}
	state, err := l.state(ctx, b, Instant{At: event.EndOfTime}, event.EndOfTime, l.names.clocks[len(l.names.clocks)-1], e)
	if err != nil {
		return err
	}
	open, unknown, err := b.openLinks(ctx, e.id, q)
	if err != nil {
		return err
	}
	locks := map[lockedMessage]event.Time{}
	for _, s := range l.names.slices(e, id) {
		tally(state.Index, s)
		if state.Index.Count(s, q, index.Locked)+state.Index.Count(s, q, index.DeferredLocked) == 0 {
			continue
		}
		for m := range state.Index.Browse(s, q, 0) {
			if m.State == index.Locked || m.State == index.DeferredLocked {
				locks[lockedMessage{s, m.Sequence}] = m.LockedUntil
			}
		}
	}
	owners, err := l.lockOwners(ctx, b, locks, open, state.Index.LastAt(), e)
	if err != nil {
		return err
	}
	if err := b.learn(ctx, slices.Collect(maps.Keys(open))...); err != nil {
		return err
	}
	links.end = max(links.end, state.Index.LastAt())
	for _, text := range unknown {
		if !slices.Contains(links.unknown, text) {
			links.unknown = append(links.unknown, text)
		}
	}
	for as, k := range open {
		r := links.row(b.origins.Get(as), k.since)
		if k.inSession {
			r.Session = &k.session
			if held, ok := state.Index.Session(k.slice, []byte(k.session)); ok && held.Held {
				r.LockedUntil = earlier(r.LockedUntil, held.Until)
			}
		}
	}
	for m, until := range locks {
		as := owners[m]
		if _, there := open[as]; !there {
			links.closed++
			continue
		}
		r := links.row(b.origins.Get(as), 0)
		*r.Locks++
		r.LockedUntil = earlier(r.LockedUntil, until)
	}
	return nil
}

// row returns the row of a link, which is new if no other log has had it.
func (a *attachedLinks) row(o event.Origin, since event.Time) *present.Receiver {
	r := a.all[o]
	if r == nil {
		r = &present.Receiver{Connection: o.Connection, Remote: o.RemoteAddress, Client: o.Product, Container: o.ContainerID, By: o.Principal, Link: o.Link, Locks: new(int)}
		a.all[o] = r
	}
	r.Since = earlier(r.Since, since)
	return r
}

// earlier returns the earlier of two times; nil and 0: none.
func earlier(a *time.Time, b event.Time) *time.Time {
	if at := b.Std().UTC(); b != 0 && (a == nil || at.Before(*a)) {
		return &at
	}
	return a
}

// openLink is a receiver link that a log shows as open.
type openLink struct {
	since     event.Time
	slice     event.Slice
	inSession bool
	session   string
}

// openLinks returns the receiver links of a sub-queue that the log shows as open at its end, by
// their origins, and what it does not tell about them.
func (b *book) openLinks(ctx context.Context, id event.EntityID, q event.SubQueue) (open map[event.OriginID]openLink, unknown []string, err error) {
	open = map[event.OriginID]openLink{}
	missed, began := uint64(0), false
	for rec, err := range replay.Found(ctx, b, log.Search{Kinds: []event.Kind{event.KindLinkOpened, event.KindLinkClosed, event.KindRunStarted}}) {
		if err != nil {
			return nil, nil, err
		}
		for _, ev := range rec.Events {
			b.see(ev)
			switch ev := ev.(type) {
			case *event.RunStarted: // all links of the previous run have ended
				clear(open)
				missed, began = 0, true
			case *event.LinkOpened:
				if ev.Slice.Entity != id {
					continue
				}
				missed += ev.Missed
				if ev.Role != event.Sender && ev.SubQueue == q {
					open[ev.Origin] = openLink{rec.At, ev.Slice, ev.InSession, strings.Clone(string(ev.SessionID))}
				}
			case *event.LinkClosed:
				delete(open, ev.Origin)
			}
		}
	}
	if !began {
		since := "the log has no start of a broker"
		if at, _, gone := horizon(b); gone {
			since = fmt.Sprintf("older history was removed at %s", at.at)
			if at.at == 0 {
				since = "older history was removed"
			}
		}
		unknown = append(unknown, fmt.Sprintf("partition %d: receivers that were attached before its history begins are unknown: %s", b.ID(), since))
	}
	if missed > 0 {
		unknown = append(unknown, fmt.Sprintf("partition %d: %s opened too fast to be recorded", b.ID(), many(int(missed), "link was", "links were")))
	}
	return open, unknown, nil
}

// lockedMessage identifies a message that is locked at the end of a log.
type lockedMessage struct {
	slice    event.Slice
	sequence event.SequenceNumber
}

// recentLocks is the part of a log, before its end, in which most of the locks began that it ends
// with.
const recentLocks = 10 * time.Minute

// lockOwners returns the links that took locks: the origin of the last lock of each message. It
// reads the log no further back than the first of the open links: older locks have no open link.
func (l *Ledger) lockOwners(ctx context.Context, b *book, locks map[lockedMessage]event.Time, open map[event.OriginID]openLink, end event.Time, e *life) (map[lockedMessage]event.OriginID, error) {
	owners := map[lockedMessage]event.OriginID{}
	if len(locks) == 0 || len(open) == 0 {
		return owners, nil
	}
	first := end
	for _, k := range open {
		first = min(first, k.since)
	}
	starts := []event.Time{max(first, end.Add(-recentLocks)), first}
	if !l.names.steady() { // later records may have earlier times
		starts = []event.Time{0}
	}
	for _, from := range starts {
		var searches []log.Search
		for _, s := range l.names.slices(e, b.ID()) {
			searches = append(searches, log.Search{Named: true, Slice: s, From: from, Kinds: []event.Kind{event.KindMessageLocked}})
		}
		for rec, err := range replay.FoundAny(ctx, b, 0, searches) {
			if err != nil {
				return nil, err
			}
			for _, ev := range rec.Events {
				b.see(ev)
				locked, ok := ev.(*event.MessageLocked)
				if !ok {
					continue
				}
				m := lockedMessage{locked.Slice, locked.Sequence}
				if _, ends := locks[m]; ends {
					owners[m] = locked.Origin
				}
			}
		}
		if len(owners) == len(locks) {
			break
		}
	}
	return owners, nil
}
