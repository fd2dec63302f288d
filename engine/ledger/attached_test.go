package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// TestAttached: which receivers a log shows as attached at its end, with their locks. Each case
// continues a log with the queue "orders", the session queue "carts", and two messages in orders.
func TestAttached(t *testing.T) {
	t.Parallel()
	of := func(origin event.OriginID) event.Envelope {
		return event.Envelope{Slice: event.Slice{Entity: 1}, Origin: origin}
	}
	run := &event.RunStarted{Version: "1", Stop: event.StopNone}
	name := func(id event.OriginID) event.Event {
		return &event.OriginDefined{ID: id, Origin: event.Origin{Connection: uint64(id), RemoteAddress: "10.0.0.1:5", Product: "sdk/1", Principal: "app", Link: fmt.Sprint("r", id), Entity: "orders"}}
	}
	opened := func(id event.OriginID) event.Event {
		return &event.LinkOpened{Envelope: of(id), Role: event.Receiver}
	}
	locked := func(id event.OriginID, n event.SequenceNumber) event.Event {
		return &event.MessageLocked{Envelope: of(id), Sequence: n, Token: event.LockToken{byte(n)}, LockedUntil: 60_000 + event.Time(n)}
	}
	inCarts := event.Envelope{Slice: event.Slice{Entity: 2}, Origin: 1}
	for _, c := range []struct {
		name, path string
		events     []event.Event
		want       string // rows, then causes and what is unknown
	}{
		{"no start is recorded", "orders", nil, "unknown"},
		{"none attached", "orders", []event.Event{run}, "no receiver was attached"},
		{"one is attached", "orders", []event.Event{run, name(1), opened(1)}, "r1 0 locks"},
		{"its locks", "orders", []event.Event{run, name(1), opened(1), locked(1, 1), locked(1, 2)}, "r1 2 locks until 1970-01-01T00:01:00.001Z"},
		{"it has closed", "orders", []event.Event{run, name(1), opened(1), locked(1, 1), &event.LinkClosed{Envelope: of(1), Cause: event.ClosedByPeer}},
			"1 locked by closed; no receiver was attached"},
		{"its run has ended", "orders", []event.Event{run, name(1), opened(1), run}, "no receiver was attached"},
		{"another has its lock", "orders", []event.Event{run, name(1), opened(1), locked(1, 1),
			&event.LockExpired{Envelope: of(0), Sequence: 1, Token: event.LockToken{1}, DeliveryCount: 1}, name(2), opened(2),
			&event.MessageLocked{Envelope: of(2), Sequence: 1, Token: event.LockToken{9}, LockedUntil: 70_000}},
			"r1 0 locks; r2 1 locks until 1970-01-01T00:01:10.000Z"},
		{"a sender", "orders", []event.Event{run, name(1), &event.LinkOpened{Envelope: of(1), Role: event.Sender}}, "no receiver was attached"},
		{"of another sub-queue", "orders/$dlq", []event.Event{run, name(1), opened(1)}, "no receiver was attached"},
		{"the dead-letter queue", "orders/$dlq", []event.Event{run, name(1), &event.LinkOpened{Envelope: of(1), Role: event.Browser, SubQueue: event.DeadLetter}}, "r1 0 locks"},
		{"a session", "carts", []event.Event{run, name(1), &event.SessionAccepted{Envelope: inCarts, SessionID: []byte("A"), Token: event.LockToken{7}, LockedUntil: 90_000},
			&event.LinkOpened{Envelope: inCarts, Role: event.Receiver, InSession: true, SessionID: []byte("A")}}, "r1 0 locks until 1970-01-01T00:01:30.000Z in A"},
		{"some are not recorded", "orders", []event.Event{run, name(1), &event.LinkOpened{Envelope: of(1), Role: event.Receiver, Missed: 3}}, "r1 0 locks; partition 0: 3 links were opened too fast"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
			t.Cleanup(dir.Close)
			_, w := dir.Lead(0)
			now := event.Time(1000)
			for i, path := range []string{"orders", "carts"} {
				dir.Append(w, now, &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: event.EntityID(i + 1)}}, EntityKind: event.Queue, Path: path, HashVersion: 1, Hosts: []byte{0},
					Properties: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, MaxSizeMegabytes: 1, RequiresSession: path == "carts"}})
			}
			for n := range event.SequenceNumber(2) {
				dir.Append(w, now, &event.MessageEnqueued{Envelope: of(0), Sequence: n + 1, MessageID: []byte("m"), EnqueuedAt: now})
			}
			for _, ev := range c.events {
				now += 1000
				dir.Append(w, now, ev)
			}
			if got := attached(t, dir, c.path); !strings.Contains(got, c.want) {
				t.Errorf("%s; want %q in it", got, c.want)
			}
		})
	}
}

// attached returns the receivers of an entity in one line.
func attached(t *testing.T, src Source, path string) string {
	t.Helper()
	list, err := New(src, func(Line) error { return nil }).Attached(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, r := range list.Receivers {
		text := fmt.Sprintf("%s %d locks", r.Link, *r.Locks)
		if r.LockedUntil != nil {
			text += " until " + event.TimeOf(*r.LockedUntil).String()
		}
		if r.Session != nil {
			text += " in " + *r.Session
		}
		if r.Since == nil || r.By != "app" || r.Remote != "10.0.0.1:5" || r.Client != "sdk/1" {
			t.Errorf("%+v; want its origin and since when it is attached", r)
		}
		parts = append(parts, text)
	}
	if list.LockedByClosed > 0 {
		parts = append(parts, fmt.Sprintf("%d locked by closed", list.LockedByClosed))
	}
	return strings.Join(append(append(parts, list.Why...), list.Unknown...), "; ")
}

// TestAttachedWhenHistoryWasRemoved: links from before history begins are unknown until a run has
// begun since.
func TestAttachedWhenHistoryWasRemoved(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	opened := &event.LinkOpened{Envelope: queue(0), Role: event.Receiver}
	opened.Origin = 1
	d.do(0, &event.OriginDefined{ID: 1, Origin: event.Origin{Link: "r1"}}, &event.RunStarted{Stop: event.StopNone}, opened)
	since := d.cut(0)
	want := fmt.Sprintf("receivers that were attached before its history begins are unknown: older history was removed at %s", since)
	if got := attached(t, d, "orders"); !strings.Contains(got, want) || strings.Contains(got, "no receiver") {
		t.Errorf("%q; want %q in it", got, want)
	}
	d.do(0, &event.RunStarted{Stop: event.StopKilled})
	if got := attached(t, d, "orders"); got != "no receiver was attached at the end of the log" {
		t.Errorf("%q after the next start", got)
	}
}
