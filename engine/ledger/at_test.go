package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/print"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// one is a slice with one message, in a sub-queue and a state.
type one struct {
	queue event.SubQueue
	state index.State
}

func (o one) Bytes(event.Slice) int64 { return 7 }

func (o one) Count(_ event.Slice, q event.SubQueue, st index.State) int {
	if q == o.queue && st == o.state {
		return 1
	}
	return 0
}

// TestCountsOfEveryState checks the columns in which [Ledger.At] counts a message, for every
// sub-queue and state that it can have, when the question is about the sub-queue. A locked deferred
// message counts as locked, and still as deferred.
func TestCountsOfEveryState(t *testing.T) {
	t.Parallel()
	for of, want := range map[one]count{
		{event.Main, index.Active}:                       {Tally: index.Tally{Active: 1}},
		{event.Main, index.Locked}:                       {Tally: index.Tally{Active: 1}, Locked: 1},
		{event.Main, index.Deferred}:                     {Tally: index.Tally{Active: 1}, Deferred: 1},
		{event.Main, index.DeferredLocked}:               {Tally: index.Tally{Active: 1}, Locked: 1, Deferred: 1},
		{event.Main, index.Scheduled}:                    {Tally: index.Tally{Scheduled: 1}},
		{event.Main, index.Transferring}:                 {Tally: index.Tally{Transfer: 1}},
		{event.DeadLetter, index.Active}:                 {Tally: index.Tally{DeadLetter: 1}},
		{event.DeadLetter, index.Locked}:                 {Tally: index.Tally{DeadLetter: 1}, Locked: 1},
		{event.DeadLetter, index.Deferred}:               {Tally: index.Tally{DeadLetter: 1}, Deferred: 1},
		{event.DeadLetter, index.DeferredLocked}:         {Tally: index.Tally{DeadLetter: 1}, Locked: 1, Deferred: 1},
		{event.DeadLetter, index.Transferring}:           {Tally: index.Tally{DeadLetter: 1}},
		{event.TransferDeadLetter, index.Active}:         {Tally: index.Tally{TransferDeadLetter: 1}},
		{event.TransferDeadLetter, index.Locked}:         {Tally: index.Tally{TransferDeadLetter: 1}, Locked: 1},
		{event.TransferDeadLetter, index.Deferred}:       {Tally: index.Tally{TransferDeadLetter: 1}, Deferred: 1},
		{event.TransferDeadLetter, index.DeferredLocked}: {Tally: index.Tally{TransferDeadLetter: 1}, Locked: 1, Deferred: 1},
	} {
		var got count
		add(&got, of, event.Slice{}, of.queue)
		got.Bytes = 0
		if got != want {
			t.Errorf("sub-queue %v, state %v: %+v, want %+v", of.queue, of.state, got, want)
		}
	}
}

// A locked message shows when its lock ends, which under a session is when that of the session
// does, and when it expires, each under its name: with all messages of a queue at an instant, and
// in the debugger.
func TestLockAndExpiryOfMessages(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	defer dir.Close()
	_, w := dir.Lead(0)
	plain, grouped := event.Envelope{Slice: event.Slice{Entity: 1}}, event.Envelope{Slice: event.Slice{Entity: 2}}
	properties := event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10}
	dir.Append(w, 1000, &event.EntityCreated{Envelope: plain, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}, Properties: properties})
	properties.RequiresSession = true
	dir.Append(w, 1000, &event.EntityCreated{Envelope: grouped, EntityKind: event.Queue, Path: "carts", HashVersion: 1, Hosts: []byte{0}, Properties: properties})
	for n := range event.SequenceNumber(4) {
		dir.Append(w, 2000, &event.MessageEnqueued{Envelope: plain, Sequence: n + 1, MessageID: []byte{'a' + byte(n)}, EnqueuedAt: 2000, ExpiresAt: 900_000, TimeToLive: 898 * time.Second})
	}
	a, b, c, d := event.LockToken{1}, event.LockToken{2}, event.LockToken{3}, event.LockToken{4}
	dir.Append(w, 3000, &event.MessageLocked{Envelope: plain, Sequence: 1, Token: a, LockedUntil: 63_000})
	dir.Append(w, 3000, &event.MessageLocked{Envelope: plain, Sequence: 2, Token: b, LockedUntil: 63_000})
	dir.Append(w, 3000, &event.MessageDeadLettered{Envelope: plain, Sequence: 2, Token: b, Cause: event.CauseApplication})
	dir.Append(w, 4000, &event.MessageLocked{Envelope: plain, Sequence: 2, Token: c, LockedUntil: 64_000})
	dir.Append(w, 4000, &event.MessageEnqueued{Envelope: grouped, Sequence: 1, EnqueuedAt: 4000, HasSession: true, InSession: true, SessionID: []byte("7")})
	dir.Append(w, 5000, &event.SessionAccepted{Envelope: grouped, SessionID: []byte("7"), Token: d, LockedUntil: 65_000})
	dir.Append(w, 5000, &event.MessageLocked{Envelope: grouped, Sequence: 1, Token: event.LockToken{5}})
	before := Instant{At: 5500}
	dir.Append(w, 6000, &event.SessionLockRenewed{Envelope: grouped, SessionID: []byte("7"), LockedUntil: 66_000})
	dir.Append(w, 6000, &event.LockRenewed{Envelope: plain, Sequence: 1, Token: a, LockedUntil: 66_000})

	const day = "1970-01-01T00:"
	rows := func(what string, ask func(*Ledger) error, want ...string) {
		t.Helper()
		var lines []Line
		if err := ask(New(dir, keep(&lines))); err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if l.Part != Row || !slices.ContainsFunc(l.Fields, func(f print.Field) bool { return f.Name == "Message" }) {
				continue
			}
			if len(want) < 4 {
				t.Fatalf("%s: also %s", what, l.Text)
			}
			got := []string{strings.Join(column([]Line{l}, "Message"), ""), strings.Join(column([]Line{l}, "LockedUntil"), ""), strings.Join(column([]Line{l}, "ExpiresAt"), "")}
			if !slices.Equal(got, want[:3]) || !strings.Contains(l.Text, want[3]) {
				t.Errorf("%s: %q in %q, want %q", what, got, l.Text, want[:4])
			}
			want = want[4:]
		}
		if len(want) > 0 {
			t.Errorf("%s: no %s", what, want[0])
		}
	}
	const expiry = day + "15:00.000Z"
	at := func(i Instant, path string) func(*Ledger) error {
		return func(l *Ledger) error { return l.At(t.Context(), i, path, true) }
	}
	rows("orders", at(before, "orders"),
		"orders#1", day+"01:03.000Z", expiry, "  locked until "+day+"01:03.000Z  expires "+expiry+"  0 failed",
		"orders#3", "", expiry, "since "+day+"00:02.000Z  expires "+expiry+"  0 failed",
		"orders#4", "", expiry, "  expires "+expiry,
		"orders#2", day+"01:04.000Z", expiry, "dead-letter  since "+day+"00:02.000Z  locked until "+day+"01:04.000Z  expires "+expiry)
	rows("carts", at(before, "carts"), "carts#1", day+"01:05.000Z", "", "  locked until "+day+"01:05.000Z  session 7  0 failed")
	now := Instant{At: 7000}
	rows("carts, renewed", at(now, "carts"), "carts#1", day+"01:06.000Z", "", "  locked until "+day+"01:06.000Z  session 7")
	rows("orders, dead letters", at(now, "orders/$dlq"), "orders#2", day+"01:04.000Z", expiry, "  locked until ")
	for _, of := range []string{"orders#1", "carts#1"} {
		if got := printed(t, dir, of); !strings.Contains(got, "  locked until "+day+"01:06.000Z") {
			t.Errorf("%s in the debugger:\n%s", of, got)
		}
	}
}

// printed returns the debugger's print of a message at the end of the log.
func printed(t *testing.T, src Source, of string) string {
	t.Helper()
	var text strings.Builder
	d, err := NewDebugger(t.Context(), New(src, func(l Line) error { text.WriteString(l.Text + "\n"); return nil }), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, command := range []string{"go end", "p " + of} {
		if err := d.Do(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
