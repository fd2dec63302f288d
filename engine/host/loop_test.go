package host

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// send stores n messages and waits until they are durable.
func (b *broker) send(t testing.TB, q engine.Target, n int) {
	t.Helper()
	in := newInbox()
	for i := range n {
		b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0),
			Messages: []engine.Message{{ID: fmt.Appendf(nil, "%d", i), Body: []byte("x")}}}}})
	}
	for _, r := range in.wait(n) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// receiver attaches a receiver with credit and returns the sink of its deliveries.
func (b *broker) receiver(q engine.Target, tag uint64, credit uint32) (*engine.Receiver, *inbox) {
	in := newInbox()
	r := &engine.Receiver{Entity: q.Entity, Slice: q.Slice(0), SubQueue: q.SubQueue, Sink: in, Tag: tag}
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: credit}}})
	return r, in
}

// Deliveries to a link that never reached the wire are made to the next receiver, in their old
// place and not counted; those that did reach the wire stay locked (wire-protocol.md 4.7).
func TestDetachReturnsUnsent(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	q := b.queue(t, "orders", testQueue())
	b.send(t, q, 4)
	r1, in1 := b.receiver(q, 1, 3)
	got := in1.wait(3)
	unsent := []event.LockToken{got[1].Delivery().Token, got[2].Delivery().Token}
	_, in2 := b.receiver(q, 2, 10)
	if d := in2.wait(1)[0].Delivery(); d.Sequence != 4 {
		t.Fatalf("the second receiver got %d first", d.Sequence)
	}
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Detach{Receiver: r1, Unsent: unsent}}})
	for i, r := range in2.wait(2) {
		if d := r.Delivery(); d.Sequence != event.SequenceNumber(i+2) || d.DeliveryCount != 0 {
			t.Errorf("delivery %d: number %d, count %d", i, d.Sequence, d.DeliveryCount)
		}
	}
	in := newInbox()
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Settle{Slice: q.Slice(0), Token: got[0].Delivery().Token, Outcome: engine.Complete}},
		{Sink: in, Command: &engine.Settle{Slice: q.Slice(0), Token: unsent[0], Outcome: engine.Complete}}})
	replies := in.wait(2)
	var refusal *engine.Error
	if replies[0].Err != nil || !errors.As(replies[1].Err, &refusal) || refusal.Code != engine.LockLost {
		t.Errorf("settling: %v, %v", replies[0].Err, replies[1].Err)
	}
}

// Withdrawn credit is taken from the newest grants; a credit of zero stops deliveries (WP-125).
func TestCreditIsTakenBack(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	q := b.queue(t, "orders", testQueue())
	r1, in1 := b.receiver(q, 1, 5)
	_, in2 := b.receiver(q, 2, 5)
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Flow{Receiver: r1, Limit: 0}}})
	b.send(t, q, 5)
	in2.wait(5)
	b.Submit(q.Host(0), []engine.Request{{Command: &engine.Flow{Receiver: r1, Limit: 2, Drain: true}}})
	if r := in1.wait(1)[0]; r.Kind != engine.ReplyDrained {
		t.Fatalf("got %v", r.Kind)
	}
}

// F5: once a damaged body has been reported, the partition refuses sends and continues with
// everything else.
func TestDamageStopsSends(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	q := b.queue(t, "orders", testQueue())
	b.send(t, q, 1)
	b.ReportDamage(q.Host(0), event.LockToken{}, errors.New("checksum"))
	in := newInbox()
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Send{Slice: q.Slice(0), Messages: []engine.Message{{Body: []byte("x")}}}}})
	var refusal *engine.Error
	if err := in.wait(1)[0].Err; !errors.As(err, &refusal) || refusal.Code != engine.Busy {
		t.Fatalf("send: %v", err)
	}
	_, deliveries := b.receiver(q, 1, 1)
	deliveries.wait(1)
}

// Requests after the stop are refused, because nothing of them was carried out.
func TestSubmitAfterClose(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	q := b.queue(t, "orders", testQueue())
	b.close(t)
	in := newInbox()
	b.Submit(q.Host(0), []engine.Request{{Sink: in, Command: &engine.Peek{Slice: q.Slice(0), Count: 1}}})
	if err := in.wait(1)[0].Err; !isBusy(err) {
		t.Fatalf("got %v", err)
	}
}

// Requests of more bytes than a frame should have are spread over frames; none is lost and the
// order stays.
func TestLargeMailIsSpreadOverFrames(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir())
	defer b.close(t)
	q := b.queue(t, "orders", testQueue())
	in := newInbox()
	body := make([]byte, 200<<10)
	const n = 400 // 80 MB in one mailbox
	reqs := make([]engine.Request, n)
	for i := range reqs {
		reqs[i] = engine.Request{Sink: in, Tag: uint64(i), Command: &engine.Send{Entity: q.Entity, Slice: q.Slice(0), Messages: []engine.Message{{ID: []byte("x"), Body: body}}}}
	}
	b.Submit(q.Host(0), reqs)
	for i, r := range in.wait(n) {
		if r.Err != nil || r.Tag != uint64(i) {
			t.Fatalf("reply %d: tag %d, %v", i, r.Tag, r.Err)
		}
	}
	largest := event.LSN(0)
	_, end := b.slots[q.Host(0)].last.log.Bounds()
	for f, err := range b.slots[q.Host(0)].last.log.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, f.Next-f.LSN)
	}
	if largest > 2*(4<<20) || end == 0 {
		t.Fatalf("a frame of %d bytes", largest)
	}
}
