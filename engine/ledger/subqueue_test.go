package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// checkpoint keeps the states of both logs.
func (m *model) checkpoint() {
	for _, p := range m.part {
		s := replay.Begin(p)
		if err := s.Run(m.t.Context(), replay.Watch{}); err != nil {
			m.t.Fatal(err)
		}
		m.dir.Save(p, s.At(), s.Index.Encode(nil))
	}
}

// An answer about a sub-queue has the events of messages while they were in it, and how they came
// there, and nothing else: whenever it begins, with a kept state or without, and whenever it ends.
func TestEventsOfSubQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		m := newModel(t, seed)
		m.checkpoint()
		for range 200 {
			m.step()
		}
		for q, name := range []string{"orders", "bills"} {
			for range 20 {
				since, until := m.past[m.rng.IntN(len(m.past))].at, m.past[m.rng.IntN(len(m.past))].at
				since, until = min(since, until), max(since, until)
				var want []string
				for _, d := range m.dead {
					if d.queue == q && d.at >= since && d.at <= until {
						want = append(want, d.text)
					}
				}
				lines, err := m.ask(func(l *Ledger) error {
					return l.Events(t.Context(), Range{Since: &Instant{At: since}, Until: &Instant{At: until}, Entity: name + "/$dlq"})
				})
				got := column(lines, "Type")
				for i, number := range column(lines, "Number") {
					got[i] += " " + number
				}
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("seed %d: %s from %s to %s: %q, %v\nwant %q", seed, name, since, until, got, err, want)
				}
			}
		}
	}
}

// buried is a namespace with dead letters of a queue and of a subscription, some of which are
// settled after a time.
func buried(t *testing.T) (dir *logdir.Dir, behind, now event.Time) {
	t.Helper()
	dir = logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	t.Cleanup(dir.Close)
	_, w := dir.Lead(0)
	of := func(id event.EntityID, origin event.OriginID) event.Envelope {
		return event.Envelope{Slice: event.Slice{Entity: id}, Origin: origin}
	}
	now = 1000
	add := func(events ...event.Event) {
		now += 1000
		dir.Append(w, now, events...)
	}
	for i, e := range []event.EntityCreated{{EntityKind: event.Queue, Path: "orders"}, {EntityKind: event.Topic, Path: "weather"},
		{EntityKind: event.Subscription, Path: "weather/Subscriptions/rain", Topic: 2}, {EntityKind: event.Subscription, Path: "weather/Subscriptions/sun", Topic: 2}} {
		e.Envelope, e.HashVersion = of(event.EntityID(i+1), 0), 1
		if e.Topic == 0 {
			e.Hosts = []byte{0}
		}
		e.Properties = event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}
		add(&e)
	}
	token := func(n byte) event.LockToken { return event.LockToken{n} }
	for n := range event.SequenceNumber(3) {
		add(&event.MessageEnqueued{Envelope: of(1, 0), Sequence: n + 1, MessageID: []byte("m"), EnqueuedAt: now})
	}
	add(&event.OriginDefined{ID: 1, Origin: event.Origin{Entity: "orders"}}, &event.LinkOpened{Envelope: of(1, 1), Role: event.Receiver})
	add(&event.MessageLocked{Envelope: of(1, 1), Sequence: 1, Token: token(1), LockedUntil: now + 60_000})
	add(&event.LockExpired{Envelope: of(1, 0), Sequence: 1, Token: token(1), DeliveryCount: 1},
		// one record: the first is about the queue
		&event.MessageDeadLettered{Envelope: of(1, 0), Sequence: 1, Cause: event.CauseMaxDelivery})
	add(&event.MessageDeadLettered{Envelope: of(1, 0), Sequence: 2, Cause: event.CauseExpired})
	add(&event.SettlementRefused{Envelope: of(1, 1), Sequence: 3, Token: token(1), Wanted: event.WantedComplete, Why: event.RefusedLockLost})
	add(&event.OriginDefined{ID: 2, Origin: event.Origin{Entity: "orders/$DeadLetterQueue"}},
		&event.LinkOpened{Envelope: of(1, 2), Role: event.Receiver, SubQueue: event.DeadLetter})
	behind = now
	add(&event.MessageLocked{Envelope: of(1, 2), Sequence: 1, Token: token(2), LockedUntil: now + 60_000})
	add(&event.SettlementRefused{Envelope: of(1, 2), SubQueue: event.DeadLetter, Token: token(9), Wanted: event.WantedComplete, Why: event.RefusedLockLost})
	add(&event.MessageCompleted{Envelope: of(1, 2), Sequence: 1, Token: token(2)})
	add(&event.LinkClosed{Envelope: of(1, 1), Cause: event.ClosedByPeer})
	add(&event.LinkClosed{Envelope: of(1, 2), Cause: event.ClosedByPeer})
	add(&event.MessagesBatchDeleted{Envelope: of(1, 0), Before: now, Sequences: []event.SequenceNumber{2}}, &event.ReasonGiven{Reason: "INC-1"})
	add(&event.MessagesBatchDeleted{Envelope: of(1, 0), Before: now, Sequences: []event.SequenceNumber{3}})
	add(&event.EntityUpdated{Envelope: of(1, 0), Properties: event.Properties{LockDuration: time.Second, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}})
	add(&event.MessagePublished{Envelope: of(2, 0), Sequence: 1, MessageID: []byte("Y"), EnqueuedAt: now,
		Copies: []event.Copy{{Subscription: 3, Sequence: 1, Cause: event.CauseFilter, Reason: "wet"}, {Subscription: 4, Sequence: 1}}})
	add(&event.SliceDropped{Envelope: of(3, 0)}, &event.EntityDeleted{Envelope: of(3, 0), Reason: "client", EntityKind: event.Subscription, Path: "weather/Subscriptions/rain"})
	add(&event.SliceDropped{Envelope: of(4, 0)}, &event.EntityDeleted{Envelope: of(4, 0), Reason: "client", EntityKind: event.Subscription, Path: "weather/Subscriptions/sun"})
	return dir, behind, now
}

// The sub-queue that an event names counts as well, as do events that name no message: links,
// refusals, a queue that is deleted with everything in it. A topic has no dead letters.
func TestWhatIsOfSubQueue(t *testing.T) {
	t.Parallel()
	dir, behind, now := buried(t)
	types := func(question func(*Ledger) error) string {
		var lines []Line
		err := question(New(dir, keep(&lines)))
		return fmt.Sprint(column(lines, "Type"), err)
	}
	for _, c := range []struct{ got, want string }{
		{types(func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: "orders/$dlq"}) }), "[dead dead link-opened locked refused completed link-closed purged] <nil>"},
		{types(func(l *Ledger) error {
			return l.Events(t.Context(), Range{Entity: "Orders/$DeadLetterQueue", Since: &Instant{At: behind}, Types: []string{"link-closed", "dead"}})
		}), "[link-closed] <nil>"},
		{types(func(l *Ledger) error {
			return l.Events(t.Context(), Range{Entity: "orders/$dlq", MessageID: "m", Until: &Instant{At: behind}})
		}), "[dead dead] <nil>"},
		{types(func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: "weather/Subscriptions/rain/$dlq"}) }), "[published dropped] <nil>"},
		{types(func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: "weather/Subscriptions/sun/$dlq"}) }), "[] <nil>"},
		{types(func(l *Ledger) error { return l.Audit(t.Context(), Range{Entity: "orders/$dlq"}) }), "[purged] <nil>"},
		{types(func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: "orders/$transfer/$dlq"}) }), "[] <nil>"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	for _, question := range []func(*Ledger) error{
		func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: "weather/$dlq"}) },
		func(l *Ledger) error { return l.At(t.Context(), Instant{At: now}, "weather/$dlq", false) },
		func(l *Ledger) error {
			return l.Diff(t.Context(), Instant{At: behind}, Instant{At: now}, "weather/$dlq", false)
		},
	} {
		if err := question(New(dir, func(Line) error { return nil })); !errors.Is(err, ErrQuestion) || !strings.Contains(err.Error(), "weather/Subscriptions/NAME/$dlq") {
			t.Errorf("of a topic: %v", err)
		}
	}
	var told []string
	if err := New(dir, func(l Line) error { told = append(told, l.Text); return nil }).Diff(t.Context(), Instant{At: behind}, Instant{At: now}, "orders/$dlq", false); err != nil {
		t.Error(err)
	}
	text := strings.Join(told, "\n")
	for _, want := range []string{"\norders/$dlq: messages 2 → 0\n", "\norders/$dlq between: 1 completed · 1 purged or cancelled · 1 settlements refused\n", "\nact: "} {
		if !strings.Contains(text, want) {
			t.Errorf("%s; want %q", text, want)
		}
	}
	if strings.Count(text, "act: ") != 1 || strings.Contains(text, "LockDuration") {
		t.Errorf("%s; want the purge of the sub-queue alone", text)
	}
}

// A range that ends at a place has no later events of the same millisecond, and one that begins at
// a place has no earlier ones.
func TestRangeOfPlaces(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	t.Cleanup(dir.Close)
	_, w := dir.Lead(0)
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	end := dir.Append(w, 1000, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}})
	var places []Instant
	for n := range event.SequenceNumber(4) {
		a := address.At(log.PartitionID(0), end)
		places = append(places, Instant{Place: &a})
		end = dir.Append(w, 2000, &event.MessageEnqueued{Envelope: own, Sequence: n + 1, MessageID: []byte("m"), EnqueuedAt: 2000})
	}
	for _, c := range []struct {
		since, until *Instant
		want         string
	}{{&places[1], &places[2], "[2 3]"}, {nil, &places[0], "[1]"}, {&places[3], nil, "[4]"}, {&Instant{At: 2000}, &Instant{At: 2000}, "[1 2 3 4]"}} {
		var lines []Line
		err := New(dir, keep(&lines)).Events(t.Context(), Range{Since: c.since, Until: c.until, Entity: "orders", Types: []string{"sent"}})
		if got := fmt.Sprint(column(lines, "Number")); err != nil || got != c.want {
			t.Errorf("%v to %v: %s, %v, want %s", c.since, c.until, got, err, c.want)
		}
	}
}
