package host

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// I23, SM-313, SM-055: a queue that is deleted with receivers attached is deleted with everything
// in it; a queue created later under the same name is new.
func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	var changes []engine.Change
	defer b.Watch(func(c engine.Change) { changes = append(changes, c) })()
	p := testQueue()
	p.RequiresDuplicateDetection, p.DuplicateDetectionWindow = true, time.Hour
	old := b.queue(t, "orders", p)
	b.send(t, old, 5)
	r, got := b.receiver(old, 1, 2)
	got.wait(2)
	_, dead := b.receiver(engine.Target{Entity: old.Entity, SubQueue: event.DeadLetter}, 2, 2)
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "ORDERS", Reason: "client"}); err != nil {
		t.Fatal(err)
	}
	if len(changes) != 1 || !changes[0].Deleted || changes[0].Entity != old.Entity {
		t.Errorf("told %+v", changes)
	}
	if _, err := b.Resolve("orders"); code(err) != engine.NotFound {
		t.Errorf("resolve: %v", err)
	}
	if err := b.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "orders"}); err == nil {
		t.Error("deleted twice")
	}
	in := newInbox()
	late := &engine.Receiver{Entity: old.Entity, Slice: old.Slice(0), Sink: in, Tag: 3}
	session := &engine.Receiver{Entity: old.Entity, Slice: old.Slice(0), Sink: in, Tag: 3, Session: &engine.SessionRequest{Any: true, Wait: time.Hour}}
	for _, cmd := range []engine.Command{&engine.Attach{Receiver: late}, &engine.Attach{Receiver: session}, &engine.Send{Slice: old.Slice(0), Messages: []engine.Message{{Body: []byte("x")}}},
		&engine.Peek{Slice: old.Slice(0), Count: 9}, &engine.ListSessions{Slice: old.Slice(0), All: true, Top: 9}, &engine.BatchDelete{Slice: old.Slice(0), Count: 9}} {
		b.Submit(old.Host(0), []engine.Request{{Command: cmd, Sink: in}})
		if r := in.wait(1)[0]; code(r.Err) != engine.NotFound {
			t.Errorf("%T: %v; want code(r.Err) == engine.NotFound", cmd, r.Err)
		}
	}

	q := b.queue(t, "orders", p)
	if q.Entity.ID == old.Entity.ID {
		t.Fatal("the same id again")
	}
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Peek{Slice: q.Slice(0), Count: 10, MaxBytes: 1000}}})
	if r := in.wait(1)[0]; len(r.Messages()) > 0 {
		t.Errorf("%d messages in the new queue", len(r.Messages()))
	}
	b.send(t, q, 5) // the same ids
	_, news := b.receiver(q, 4, 5)
	for i, d := range news.wait(5) {
		if d.Delivery().Sequence != event.SequenceNumber(i+1) {
			t.Errorf("delivery %d: %d", i, d.Delivery().Sequence)
		}
	}
	b.Submit(old.Host(0), []engine.Request{{Command: &engine.Flow{Receiver: r, Limit: 50}}, {Command: &engine.Detach{Receiver: r}, Sink: in}})
	in.wait(1)
	if len(got.got)+len(dead.got) > 0 {
		t.Error("receivers of the deleted queue got something")
	}
}

// P14: a queue whose deletion is in the catalogue, but of which its partition was never told, is
// forgotten by the next start.
func TestForgottenSliceIsDropped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	var old engine.Target
	for i := 0; i == 0 || old.Host(0) == 0; i++ { // one hosted away from the catalogue
		old = b.queue(t, fmt.Sprintf("q%d", i), testQueue())
	}
	b.send(t, old, 5)
	_, got := b.receiver(old, 1, 2)
	got.wait(2)
	if _, err := b.ask(t.Context(), 0, &engine.DeleteEntity{Path: old.Entity.Path, Reason: "client"}); err != nil {
		t.Fatal(err)
	}
	b.close(t)

	b = open(t, dir)
	q := b.queue(t, old.Entity.Path, testQueue())
	in := newInbox()
	for _, slice := range []event.Slice{q.Slice(0), old.Slice(0)} {
		b.Submit(old.Host(0), []engine.Request{{Sink: in, Command: &engine.Peek{Slice: slice, Count: 10, MaxBytes: 1000}}})
		if r := in.wait(1)[0]; len(r.Messages()) > 0 {
			t.Errorf("slice %v: %d messages", slice, len(r.Messages()))
		}
	}
	b.close(t)
	b = open(t, dir)
	defer b.close(t)
	if r := b.Recovered()[old.Host(0)]; r.Messages != 0 || r.Locks != 0 {
		t.Errorf("%+v; want r.Messages == 0 && r.Locks == 0", r)
	}
	if s := replayed(t, b.slots[old.Host(0)].last.log); s.Events > 1 {
		t.Errorf("%d events behind the checkpoint", s.Events)
	}
}

// unknownEvent is an event of a kind that this program does not know.
type unknownEvent struct{ *event.MessageExpired }

func (unknownEvent) Kind() event.Kind { return 200 }

// SM-375, R11: a log with an event of an unknown kind, as a later version may have written, refuses
// the start and says so.
func TestUnknownEventRefusesTheStart(t *testing.T) {
	t.Parallel()
	for partition := range log.PartitionID(2) { // the one with the catalogue, and another
		dir := t.TempDir()
		b := open(t, dir)
		b.close(t)
		d := logdir.Open(t, dir, log.Options{})
		_, w := d.Lead(partition)
		at := w.Batch().LSN()
		d.Append(w, event.TimeOf(time.Now()), unknownEvent{&event.MessageExpired{Sequence: 1}})
		d.Close()
		d = logdir.Open(t, dir, log.Options{})
		_, err := Open(t.Context(), d.Store, Options{})
		want := fmt.Sprintf("engine: partition %d: frame %d: record 1: event: unknown event: kind 200 version 1", partition, at)
		if !errors.Is(err, event.ErrUnknown) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		d.Close()
	}
}
