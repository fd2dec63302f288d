package host

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// drivenLoop is a loop with one queue that a test drives directly, with a clock that it sets.
type drivenLoop struct {
	t      *testing.T
	plog   log.Partition
	writer log.Writer
	part   *engine.Partition
	loop   *loop.Loop
	now    event.Time
	got    []engine.Reply
}

func newDriven(t *testing.T) *drivenLoop {
	t.Helper()
	store, err := log.Open(t.Context(), t.TempDir(), log.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := &drivenLoop{t: t, now: event.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	if d.plog, err = store.Open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	d.lead(index.New())
	t.Cleanup(func() {
		if err := errors.Join(d.writer.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	d.turn(&engine.PutEntity{Kind: event.Queue, Path: "orders", Properties: testQueue()})
	d.configure()
	return d
}

func (d *drivenLoop) lead(x *index.Index) {
	d.t.Helper()
	var err error
	if d.writer, err = d.plog.Lead(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.part = engine.NewPartition(0, 1, x)
	d.loop = loop.New(d.part, d.plog, d.writer, loop.Options{Clock: func() event.Time { return d.now }, Logger: slog.New(slog.DiscardHandler),
		CheckpointBytes: -1, Inline: true, Tokens: newTokens()})
	d.configure()
}

func (d *drivenLoop) configure() {
	for _, e := range d.part.Index().Catalogue.All() {
		d.loop.Prepare(loop.Configure(engine.View(e, nil), false, nil))
	}
}

func (d *drivenLoop) restart() {
	d.t.Helper()
	if err := d.writer.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.lead(replayed(d.t, d.plog).Index)
	d.loop.Recover()
}

// Post implements [engine.Sink].
func (d *drivenLoop) Post(rs []engine.Reply) { d.got = append(d.got, rs...) }

// turn carries out commands, and everything that follows from them.
func (d *drivenLoop) turn(cmds ...engine.Command) {
	d.t.Helper()
	var requests []engine.Request
	for _, cmd := range cmds {
		requests = append(requests, engine.Request{Command: cmd})
	}
	for more := true; more; requests = nil {
		d.loop.Turn(requests)
		for d.loop.Busy() && d.loop.Err() == nil {
			<-d.writer.Moved()
			d.loop.Committed()
		}
		at := d.loop.NextDeadline()
		more = d.loop.Pending() || at != 0 && at <= d.now
	}
	if err := d.loop.Err(); err != nil {
		d.t.Fatal(err)
	}
}

// fill stores n messages.
func (d *drivenLoop) fill(n int, ttl time.Duration) {
	for range n {
		d.turn(&engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x"), TimeToLive: ttl}}})
	}
}

func (d *drivenLoop) receiver(tag uint64, q event.SubQueue) *engine.Receiver {
	return &engine.Receiver{Entity: &engine.Entity{ID: 1, Path: "orders"}, Slice: handEntity, SubQueue: q, Sink: d, Tag: tag}
}

// hears compares the deliveries since the last call: "1:3+2" is message 3 for receiver 1, after two
// failed deliveries.
func (d *drivenLoop) hears(want ...string) {
	d.t.Helper()
	var got []string
	for _, r := range d.got {
		if r.Kind == engine.ReplyDelivery {
			s := fmt.Sprintf("%d:%d", r.Tag, r.Delivery().Sequence)
			if n := r.Delivery().DeliveryCount; n > 0 {
				s += fmt.Sprintf("+%d", n)
			}
			got = append(got, s)
		}
	}
	if d.got = nil; !slices.Equal(got, want) {
		d.t.Fatalf("heard %v, want %v", got, want)
	}
}
