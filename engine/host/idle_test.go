package host

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// dial is a time source that is turned by hand.
type dial struct{ passed atomic.Int64 }

func (d *dial) Elapsed() time.Duration { return time.Duration(d.passed.Load()) }
func (d *dial) Wall() time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(d.Elapsed())
}
func (d *dial) turn(by time.Duration) { d.passed.Add(int64(by)) }

func openAt(t *testing.T, dir string, d *dial) *broker {
	t.Helper()
	store, err := log.Open(context.Background(), dir, log.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(context.Background(), store, Options{Time: d, Properties: readPacked})
	if err != nil {
		t.Fatal(err)
	}
	return &broker{n, store}
}

// TestIdle: SM-300, SM-302, SM-306, SM-315. Every use keeps a queue: a send, a peek, a receive that ends empty, a receiver that
// waits, a change of its properties, a schedule that waits. Waiting messages do not. What was noted outlives a restart; in the
// first minute after a start nothing goes.
func TestIdle(t *testing.T) {
	t.Parallel()
	ctx, dir, d := t.Context(), t.TempDir(), &dial{}
	b := openAt(t, dir, d)
	props := testQueue()
	props.AutoDeleteOnIdle = 5 * time.Minute
	for _, path := range []string{"sent", "peeked", "received", "updated", "waited", "scheduled", "quiet"} {
		if _, err := b.PutEntity(ctx, engine.PutEntity{Kind: event.Queue, Path: path, Properties: props}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.PutEntity(ctx, engine.PutEntity{Kind: event.Queue, Path: "kept", Properties: testQueue()}); err != nil {
		t.Fatal(err)
	}
	target := func(path string) engine.Target {
		target, err := b.Resolve(path)
		if err != nil {
			t.Fatal(path, err)
		}
		return target
	}
	there := func(path string) bool {
		_, err := b.Resolve(path)
		var refusal *engine.Error
		if err != nil && (!errors.As(err, &refusal) || refusal.Code != engine.NotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	do := func(path string, cmd engine.Command) {
		t.Helper()
		if _, err := b.ask(ctx, target(path).Host(0), cmd); err != nil {
			t.Fatal(path, err)
		}
	}
	send := func(path string, at event.Time) {
		e := target(path)
		do(path, &engine.Send{Entity: e.Entity, Slice: e.Slice(0), Messages: []engine.Message{{Body: []byte("x"), ID: []byte("id"), ScheduledFor: at}}})
	}
	use := func() {
		t.Helper()
		send("sent", 0)
		do("peeked", &engine.Peek{Slice: target("peeked").Slice(0), Count: 1, MaxBytes: 1})
		received := target("received") // nothing
		in := newInbox()
		short := &engine.Receiver{Entity: received.Entity, Slice: received.Slice(0), Sink: in}
		b.Submit(received.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: short}}, {Command: &engine.Flow{Receiver: short, Limit: 1, Drain: true}}})
		if r := in.wait(1)[0]; r.Kind != engine.ReplyDrained {
			t.Fatalf("an empty queue gave %+v", r)
		}
		do("received", &engine.Detach{Receiver: short})
		changed := props
		changed.MaxDeliveryCount++
		if _, err := b.PutEntity(ctx, engine.PutEntity{Kind: event.Queue, Path: "updated", Properties: changed, Mode: engine.UpdateOnly}); err != nil {
			t.Fatal(err)
		}
	}
	collect := func() {
		t.Helper()
		if err := b.CollectIdle(ctx); err != nil {
			t.Fatal(err)
		}
	}
	send("scheduled", b.Now().Add(time.Hour))
	send("quiet", 0) // a message that waits does not protect its queue
	receiver := &engine.Receiver{Entity: target("waited").Entity, Slice: target("waited").Slice(0), Sink: newInbox()}
	do("waited", &engine.Attach{Receiver: receiver})

	d.turn(4 * time.Minute)
	use()
	collect()
	for _, path := range []string{"sent", "peeked", "received", "updated", "waited", "scheduled", "quiet", "kept"} {
		if !there(path) {
			t.Errorf("%s is gone after four minutes", path)
		}
	}
	d.turn(90 * time.Second)
	collect()
	for path, want := range map[string]bool{"sent": true, "peeked": true, "received": true, "updated": true, "waited": true, "scheduled": true,
		"quiet": false, "kept": true} {
		if there(path) != want {
			t.Errorf("%s is there: %v, want %v", path, !want, want)
		}
	}
	b.close(t)

	b = openAt(t, dir, d) // the receiver is gone; when it was there last had been noted
	d.turn(50 * time.Second)
	collect()
	for _, path := range []string{"sent", "peeked", "received", "updated", "waited"} {
		if !there(path) {
			t.Errorf("%s is gone in the first minute", path)
		}
	}
	d.turn(6 * time.Minute)
	collect()
	for path, want := range map[string]bool{"sent": false, "peeked": false, "received": false, "updated": false, "waited": false, "scheduled": true,
		"kept": true} {
		if there(path) != want {
			t.Errorf("%s is there: %v after the restart, want %v", path, !want, want)
		}
	}
	b.close(t)
}

// TestIdleMeanwhile: SM-300. What was found idle is looked at again before it goes: it may have been used, updated, or deleted and made anew
// meanwhile. The note of a last use may come too late as well.
func TestIdleMeanwhile(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), &dial{}
	b := openAt(t, t.TempDir(), d)
	defer b.close(t)
	props := testQueue()
	props.AutoDeleteOnIdle = 5 * time.Minute
	put := func(path string, mode engine.PutMode) *engine.Entity {
		t.Helper()
		e, err := b.PutEntity(ctx, engine.PutEntity{Kind: event.Queue, Path: path, Properties: props, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	paths := []string{"quiet", "used", "updated", "again", "held"}
	found := map[string]*engine.Entity{}
	for _, path := range paths {
		found[path] = put(path, engine.CreateOnly)
	}
	d.turn(6 * time.Minute)
	used := engine.Target{Entity: found["used"]}
	if _, err := b.ask(ctx, used.Host(0), &engine.Peek{Slice: used.Slice(0), Count: 1, MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	put("updated", engine.UpdateOnly)
	if err := b.DeleteEntity(ctx, engine.DeleteEntity{Path: "again"}); err != nil {
		t.Fatal(err)
	}
	put("again", engine.CreateOnly)
	for _, path := range paths {
		if err := b.deleteIdle(ctx, found[path], []event.EntityID{found["held"].ID}); err != nil {
			t.Fatal(err)
		}
		if _, there := b.Find(path); there != (path != "quiet") {
			t.Errorf("%s is there: %t", path, there)
		}
	}
	gone := found["again"]
	gone.Use(b.Now())
	note := engine.NewIdleness(0, nil, nil).Note(b.Now(), gone)
	if _, err := b.ask(ctx, 0, note); err != nil {
		t.Error("the note of a queue that is gone:", err)
	}
}
