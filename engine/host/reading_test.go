package host

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestUnreadDeliveriesKeepBodies: a message that was received and deleted no longer has a row, and
// its body is read when the peer has room for it. Whatever policies say, the body is kept until
// then, with its file and alone; then it is deleted; it is also deleted when the receiver leaves.
func TestUnreadDeliveriesKeepBodies(t *testing.T) {
	t.Parallel()
	for name, detached := range map[string]bool{"read": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, q := openReading(t)
			defer b.close(t)
			in := newInbox()
			b.sendMany(t, q, 100)
			r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 7, Mode: engine.ReceiveAndDelete}
			b.Submit(0, []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 100}}})
			var bodies []event.Blob
			for _, d := range in.wait(100) {
				bodies = append(bodies, d.Delivery().Body)
			}
			k := hasty(b)
			look := func() int { return b.lookReading(t, k, q, bodies) }
			if there := look(); there != 100 {
				t.Fatalf("%d of 100 bodies are there that are still to be read", there)
			}
			r.Read[0].Add(40)
			if there := look(); there < 60 {
				t.Errorf("%d of 60 bodies are there that are still to be read", there)
			}
			if detached {
				b.Submit(0, []engine.Request{{Command: &engine.Detach{Receiver: r}, Sink: in}})
				in.wait(1)
			} else {
				r.Read[0].Add(60)
			}
			if there := look(); there != 0 {
				t.Errorf("%d bodies are there that nobody reads any more", there)
			}
		})
	}
}

// openReading returns a broker that keeps nothing, with a queue through which much has passed.
func openReading(t *testing.T) (*broker, engine.Target) {
	t.Helper()
	store, err := log.Open(t.Context(), t.TempDir(), log.Options{Partitions: 1, SegmentBytes: 8 << 10, ChapterBytes: 16 << 10, SealAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, Options{CheckpointBytes: 4 << 10, keepAllHistory: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{n, store}
	b.retain(t, event.KeepNone, event.KeepNone, event.KeepNone)
	q := b.queue(t, "orders", testQueue())
	b.sendMany(t, q, 1000)
	b.complete(t, q, 1000)
	return b, q
}

// lookReading deletes history up to now, and returns how many of the bodies are still there.
func (b *broker) lookReading(t *testing.T, k *background.Retention, q engine.Target, bodies []event.Blob) (there int) {
	t.Helper()
	for range 3 { // a checkpoint after all of it
		b.sendMany(t, q, 100)
		b.complete(t, q, 100)
	}
	b.seal(t)
	k.Look(t.Context())
	for _, body := range bodies {
		if got, err := b.readBlob(0, body); err == nil && strings.HasPrefix(string(got), "000") {
			there++
		}
	}
	return there
}

// TestUnreadAnswersKeepBodies: a message that was received and deleted by its number, or peeked and
// then completed by another receiver, is kept, with its file and alone, until the caller has read
// it. Then it is deleted.
func TestUnreadAnswersKeepBodies(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"received by number", "peeked", "peeked in parts"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b, q := openReading(t)
			defer b.close(t)
			b.sendMany(t, q, 100)
			read := new(atomic.Bool)
			bodies := b.answered(t, q, how, read)
			if len(bodies) != 100 {
				t.Fatalf("%d messages in the answer", len(bodies))
			}
			k := hasty(b)
			if there := b.lookReading(t, k, q, bodies); there != 100 {
				t.Fatalf("%d of 100 bodies are there that are still to be read", there)
			}
			read.Store(true)
			if there := b.lookReading(t, k, q, bodies); there != 0 {
				t.Errorf("%d bodies are there that nobody reads any more", there)
			}
		})
	}
}

// answered asks for all messages of a queue and settles them, and returns the bodies in the answer.
func (b *broker) answered(t *testing.T, q engine.Target, how string, read *atomic.Bool) (bodies []event.Blob) {
	t.Helper()
	in := newInbox()
	ask := func(tag uint64, cmd engine.Command) {
		t.Helper()
		b.Submit(0, []engine.Request{{Command: cmd, Sink: in, Tag: tag, Read: read}})
		r := in.wait(1)[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		for _, d := range r.Messages() {
			bodies = append(bodies, d.Body)
		}
	}
	switch how {
	case "peeked":
		ask(1, &engine.Peek{Slice: q.Slice(0), Count: 100, MaxBytes: 1 << 20})
	case "peeked in parts":
		// as of an entity with several partitions in one log: one sender, two answers
		ask(1, &engine.Peek{Slice: q.Slice(0), Count: 40, MaxBytes: 1 << 20})
		ask(2, &engine.Peek{Slice: q.Slice(0), From: 1041, Count: 100, MaxBytes: 1 << 20})
	default:
		numbers := b.deferAll(t, q, 100)
		ask(1, &engine.ReceiveDeferred{Entity: q.Entity, Slice: q.Slice(0), Mode: engine.ReceiveAndDelete, Sequences: numbers})
		return bodies
	}
	b.complete(t, q, 100)
	return bodies
}

// deferAll defers that many messages and returns their numbers.
func (b *broker) deferAll(t *testing.T, q engine.Target, n int) (numbers []event.SequenceNumber) {
	t.Helper()
	in := newInbox()
	r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), Sink: in, Tag: 9}
	b.Submit(0, []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: uint32(n)}}})
	for _, reply := range in.wait(n) {
		d := reply.Delivery()
		numbers = append(numbers, d.Sequence)
		b.Submit(0, []engine.Request{{Command: &engine.Settle{Entity: q.Entity, Slice: q.Slice(0), Token: d.Token, Outcome: engine.Defer}, Sink: in}})
	}
	for _, reply := range in.wait(n) {
		if reply.Err != nil {
			t.Fatal(fmt.Errorf("deferred: %w", reply.Err))
		}
	}
	b.Submit(0, []engine.Request{{Command: &engine.Detach{Receiver: r}, Sink: in}})
	in.wait(1)
	return numbers
}
