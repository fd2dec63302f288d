package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// moved writes a namespace with two messages. One is scheduled in a queue of one log, activated,
// moves to a queue of another, and is completed there. One is published to a topic with two
// subscriptions, one of which lets it die.
func moved(t *testing.T, name string) {
	t.Helper()
	dir := logdir.Open(t, name, log.Options{Partitions: 2})
	defer dir.Close()
	_, w0 := dir.Lead(0)
	_, w1 := dir.Lead(1)
	of := func(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }
	for i, e := range []event.EntityCreated{
		{EntityKind: event.Queue, Path: "first", Hosts: []byte{0}}, {EntityKind: event.Queue, Path: "second", Hosts: []byte{1}},
		{EntityKind: event.Topic, Path: "weather", Hosts: []byte{1}}, {EntityKind: event.Subscription, Path: "weather/Subscriptions/rain", Topic: 3}, {EntityKind: event.Subscription, Path: "weather/Subscriptions/sun", Topic: 3},
	} {
		e.Envelope, e.HashVersion = of(event.EntityID(i+1)), 1
		e.Properties = event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}
		dir.Append(w0, 1000, &e)
	}
	dir.Append(w0, 2000, &event.MessageScheduled{Envelope: of(1), Sequence: 1, MessageID: []byte("X"), ScheduledFor: 3000, Body: event.Blob{Data: []byte("b")}})
	dir.Append(w0, 3000, &event.ScheduledActivated{Envelope: of(1), Sequence: 1, NewSequence: 2, EnqueuedAt: 3000})
	dir.Append(w0, 3001, &event.TransferStarted{Envelope: of(1), Destination: 2, Trigger: event.TriggerForward, First: 1, Sequences: []event.SequenceNumber{2}})
	dir.Append(w1, 3002, &event.MessageEnqueued{Envelope: of(2), Sequence: 1, MessageID: []byte("X"), EnqueuedAt: 3002, Body: event.Blob{Data: []byte("b")},
		Arrival: &event.Arrival{Source: event.Slice{Entity: 1}, Number: 1, Hops: 1, First: 2}})
	dir.Append(w0, 3003, &event.TransfersFinished{Envelope: of(1), Numbers: []event.TransferNumber{1}})
	dir.Append(w1, 4000, &event.MessageLocked{Envelope: of(2), Sequence: 1, Token: event.LockToken{1}, LockedUntil: 64_000})
	dir.Append(w1, 4001, &event.MessageCompleted{Envelope: of(2), Sequence: 1, Token: event.LockToken{1}})
	dir.Append(w1, 5000, &event.MessagePublished{Envelope: of(3), Sequence: 1, MessageID: []byte("Y"), EnqueuedAt: 5000, Body: event.Blob{Data: []byte("b")},
		Copies: []event.Copy{{Subscription: 4, Sequence: 1}, {Subscription: 5, Sequence: 1}}})
	dir.Append(w1, 5001, &event.MessageLocked{Envelope: of(4), Sequence: 1, Token: event.LockToken{2}, LockedUntil: 65_000})
	dir.Append(w1, 5002, &event.MessageDeadLettered{Envelope: of(4), Sequence: 1, Token: event.LockToken{2}, Cause: event.CauseApplication, Reason: "wet"})
}

// A life is told over a schedule, a move between logs and the copies of a topic, whichever of its
// numbers, or its id, the question names.
func TestStoryOverEntities(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	moved(t, name)
	s, err := log.Open(t.Context(), name, log.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	told := func(of, id string) []string {
		t.Helper()
		var a address.Address
		if of != "" {
			var err error
			if a, err = address.Parse(of); err != nil {
				t.Fatal(err)
			}
		}
		var rows []string
		err := New(s, func(l Line) error {
			if l.Part == Row {
				rows = append(rows, fmt.Sprint(l.Fields[1].Value(), " ", l.Fields[2].Value()))
			}
			return nil
		}).Story(t.Context(), a, id)
		if err != nil {
			t.Fatal(of, id, err)
		}
		return rows
	}
	want := "scheduled first#1|activated first#1|activated first#2|moving first#2|arrived second#1|moved first#2|locked second#1|completed second#1"
	for _, ask := range [][2]string{{"first#1", ""}, {"first#2", ""}, {"second#1", ""}, {"", "X"}} {
		rows := strings.Join(told(ask[0], ask[1]), "|")
		for _, part := range strings.Split(want, "|") {
			if strings.HasPrefix(part, "activated") {
				part = "activated first#"
			}
			if strings.Count(rows, part) == 0 {
				t.Errorf("%q: %s, there is no %q", ask, rows, part)
			}
		}
		if at, to := strings.Index(rows, "arrived"), strings.Index(rows, "moved"); at > to {
			t.Errorf("%q: it has moved before it arrives: %s", ask, rows)
		}
	}
	for _, ask := range [][2]string{{"weather#1", ""}, {"", "Y"}} {
		rows := strings.Join(told(ask[0], ask[1]), "|")
		for _, part := range []string{"published weather#1", "copied weather/Subscriptions/rain#1", "copied weather/Subscriptions/sun#1", "locked weather/Subscriptions/rain#1", "dead weather/Subscriptions/rain#1"} {
			if !strings.Contains(rows, part) {
				t.Errorf("%q: %s, there is no %q", ask, rows, part)
			}
		}
	}
	if rows := strings.Join(told("weather/Subscriptions/sun#1", ""), "|"); strings.Contains(rows, "rain") || !strings.Contains(rows, "published weather#1") && !strings.Contains(rows, "copied") {
		t.Errorf("the copy of one subscription: %s", rows)
	}
}
