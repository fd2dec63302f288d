package host

import (
	"context"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// Links to a queue with its slices on three running loops: what TestPorts shows step by step also
// holds if the loops are goroutines. Each client gives credit in small pieces, drains at intervals,
// and leaves; together they get every message once.
func TestPortsAtOnce(t *testing.T) {
	t.Parallel()
	const clients, each = 3, 400
	b, wide := wideQueue(t)
	defer b.close(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan event.SequenceNumber, clients*each)
	for range clients {
		go receiveSome(ctx, b, wide, got)
	}
	sendWide(b, wide, clients*each)
	seen := map[event.SequenceNumber]bool{}
	for range clients * each {
		select {
		case seq := <-got:
			if seen[seq] {
				t.Fatalf("%d comes twice", seq)
			}
			seen[seq] = true
		case <-time.After(time.Minute):
			t.Fatalf("only %d of %d messages came", len(seen), clients*each)
		}
	}
}

// wideQueue is a queue with five slices on three loops.
func wideQueue(t *testing.T) (*broker, *engine.Entity) {
	t.Helper()
	store, err := log.Open(t.Context(), t.TempDir(), log.Options{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), store, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{n, store}
	wide := engine.View(index.Entity{ID: 99, Kind: event.Queue, Path: "wide", Properties: testQueue(), Hosts: []byte{0, 1, 2, 0, 1}}, nil)
	for h := range engine.PartitionID(3) {
		if _, err := b.ask(t.Context(), h, loop.Configure(wide, false, nil)); err != nil {
			t.Fatal(err)
		}
	}
	return b, wide
}

// sendWide stores messages, the same number in each slice.
func sendWide(b *broker, wide *engine.Entity, messages int) {
	for i := range messages {
		p := i % len(wide.Hosts)
		b.Submit(wide.Hosts[p], []engine.Request{{Command: &engine.Send{Entity: wide, Slice: event.Slice{Entity: wide.ID, Partition: uint8(p)},
			Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x")}}}}})
	}
}

// A receiver that browses is shown every message of every slice once, and those of one slice in
// order.
func TestPortsBrowse(t *testing.T) {
	t.Parallel()
	b, wide := wideQueue(t)
	defer b.close(t)
	got := make(chan event.SequenceNumber, 50)
	c := portClient{ctx: t.Context(), b: b, in: make(portInbox, 100), got: got}
	c.r = &engine.Receiver{Entity: wide, Mode: engine.Browse, Sink: c.in}
	c.submit(&engine.Attach{Receiver: c.r})
	c.until(engine.ReplyDone, 1)
	sendWide(b, wide, 25)
	c.submit(&engine.Flow{Receiver: c.r, Limit: 50})
	sendWide(b, wide, 25)
	c.until(engine.ReplyDelivery, 50)
	var newest [16]event.SequenceNumber
	for range 50 {
		seq := <-got
		if p := seq.Partition(); seq <= newest[p] {
			t.Errorf("%d comes behind %d", seq, newest[p])
		} else {
			newest[p] = seq
		}
	}
}

// receiveSome takes messages, over one link after the other, until the test has ended.
func receiveSome(ctx context.Context, b *broker, e *engine.Entity, got chan<- event.SequenceNumber) {
	for ctx.Err() == nil {
		c := portClient{ctx: ctx, b: b, in: make(portInbox, 1000), got: got}
		c.r = &engine.Receiver{Entity: e, Mode: engine.ReceiveAndDelete, Sink: c.in}
		c.submit(&engine.Attach{Receiver: c.r})
		c.until(engine.ReplyDone, 1)
		for round := range 9 { // the last round drains, so no deleted message is lost
			c.limit += 7
			if drains := round%3 == 2; drains {
				c.submit(&engine.Flow{Receiver: c.r, Limit: c.limit, Drain: true})
				c.until(engine.ReplyDrained, 1)
				c.count = c.limit
			} else {
				c.submit(&engine.Flow{Receiver: c.r, Limit: c.limit})
				c.until(engine.ReplyDelivery, int(c.limit-c.count)-3)
			}
		}
		c.submit(&engine.Detach{Receiver: c.r})
		c.until(engine.ReplyDone, 1)
	}
}

// portClient is a client with a link.
type portClient struct {
	ctx          context.Context
	b            *broker
	r            *engine.Receiver
	in           portInbox
	got          chan<- event.SequenceNumber
	limit, count uint32
}

func (c *portClient) submit(cmd engine.Command) {
	for _, h := range c.r.Hosts() {
		c.b.Submit(h, []engine.Request{{Command: cmd, Sink: c.in}})
	}
}

// until takes replies, up to some replies of a kind.
func (c *portClient) until(kind engine.ReplyKind, n int) {
	for n > 0 {
		select {
		case <-c.ctx.Done():
			return
		case r := <-c.in:
			if r.Kind == kind {
				n--
			}
			if d := r.Delivery(); d != nil {
				c.count++
				c.got <- d.Sequence
			}
		}
	}
}

type portInbox chan engine.Reply

// Post implements [engine.Sink].
func (in portInbox) Post(rs []engine.Reply) {
	for _, r := range rs {
		in <- r
	}
}
