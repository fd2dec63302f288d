package host

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/background"
	"github.com/ledgerbus/ledgerbus/engine/loop"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// manualTime is a time source that a test sets.
type manualTime struct{ passed atomic.Int64 }

func (d *manualTime) Elapsed() time.Duration { return time.Duration(d.passed.Load()) }
func (d *manualTime) Wall() time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(d.Elapsed())
}
func (d *manualTime) turn(by time.Duration) { d.passed.Add(int64(by)) }

func openAt(t *testing.T, dir string, d *manualTime) *broker {
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

// idleTest finds out what keeps queues from being idle, on a broker with its own time source.
type idleTest struct {
	*broker
	t     *testing.T
	d     *manualTime
	dir   string
	props event.Properties
}

func newIdleTest(t *testing.T) *idleTest {
	t.Helper()
	i := &idleTest{t: t, d: &manualTime{}, dir: t.TempDir(), props: testQueue()}
	i.props.AutoDeleteOnIdle = 5 * time.Minute
	i.broker = openAt(t, i.dir, i.d)
	return i
}

func (i *idleTest) put(path string, p event.Properties, mode engine.PutMode) {
	i.t.Helper()
	if _, err := i.PutEntity(i.t.Context(), engine.PutEntity{Kind: event.Queue, Path: path, Properties: p, Mode: mode}); err != nil {
		i.t.Fatal(path, err)
	}
}

func (i *idleTest) target(path string) engine.Target {
	i.t.Helper()
	target, err := i.Resolve(path)
	if err != nil {
		i.t.Fatal(path, err)
	}
	return target
}

func (i *idleTest) do(path string, cmd engine.Command) {
	i.t.Helper()
	if _, err := i.ask(i.t.Context(), i.target(path).Host(0), cmd); err != nil {
		i.t.Fatal(path, err)
	}
}

func (i *idleTest) send(path string, at event.Time) {
	i.t.Helper()
	e := i.target(path)
	i.do(path, &engine.Send{Entity: e.Entity, Slice: e.Slice(0), Messages: []engine.Message{{Body: []byte("x"), ID: []byte("id"), ScheduledFor: at}}})
}

// receivesNothing receives from an empty queue.
func (i *idleTest) receivesNothing(path string) {
	i.t.Helper()
	e, in := i.target(path), newInbox()
	r := &engine.Receiver{Entity: e.Entity, Slice: e.Slice(0), Sink: in}
	i.Submit(e.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 1, Drain: true}}})
	if got := in.wait(1)[0]; got.Kind != engine.ReplyDrained {
		i.t.Fatalf("an empty queue gave %+v", got)
	}
	i.do(path, &engine.Detach{Receiver: r})
}

// after advances the time, deletes idle entities, and checks that only the named queues are left.
func (i *idleTest) after(d time.Duration, there ...string) {
	i.t.Helper()
	i.d.turn(d)
	if err := i.collectIdle(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
	var got []string
	for _, e := range i.Entities() {
		got = append(got, e.Path)
	}
	if slices.Sort(there); !slices.Equal(got, there) {
		i.t.Errorf("there are %v, want %v", got, there)
	}
}

// TestIdle: SM-300, SM-302, SM-306, SM-315. Every use keeps a queue: a send, a peek, an empty
// receive, a waiting receiver, a change of its properties, a waiting scheduled message. Waiting
// messages do not. A recorded use outlives a restart; in the first minute after a start nothing is
// deleted.
func TestIdle(t *testing.T) {
	t.Parallel()
	i := newIdleTest(t)
	for _, path := range []string{"sent", "peeked", "received", "updated", "waited", "scheduled", "quiet"} {
		i.put(path, i.props, engine.CreateOrUpdate)
	}
	i.put("kept", testQueue(), engine.CreateOrUpdate)
	i.send("scheduled", i.Now().Add(time.Hour))
	i.send("quiet", 0) // a message that waits does not protect its queue
	waited := i.target("waited")
	i.do("waited", &engine.Attach{Receiver: &engine.Receiver{Entity: waited.Entity, Slice: waited.Slice(0), Sink: newInbox()}})

	i.d.turn(4 * time.Minute)
	i.send("sent", 0)
	i.do("peeked", &engine.Peek{Slice: i.target("peeked").Slice(0), Count: 1, MaxBytes: 1})
	i.receivesNothing("received")
	changed := i.props
	changed.MaxDeliveryCount++
	i.put("updated", changed, engine.UpdateOnly)
	i.after(0, "sent", "peeked", "received", "updated", "waited", "scheduled", "quiet", "kept")
	i.after(90*time.Second, "sent", "peeked", "received", "updated", "waited", "scheduled", "kept")
	i.close(t)

	i.broker = openAt(t, i.dir, i.d) // the receiver is gone; its last use had been recorded
	i.after(50*time.Second, "sent", "peeked", "received", "updated", "waited", "scheduled", "kept")
	i.after(6*time.Minute, "scheduled", "kept")
	i.close(t)
}

// collectIdle deletes the entities that were unused for too long, as the broker does at intervals.
func (b *broker) collectIdle(ctx context.Context) error {
	return (&background.Idle{Of: b.surroundings(), Started: b.started}).Look(ctx)
}

// changingIdle is a broker with a queue that turns out to be in use, and in which something changes
// before the first queue that was found idle is deleted.
type changingIdle struct {
	surroundings
	busy   []event.EntityID // none is in use so far
	change func()
}

func (c *changingIdle) InUse(context.Context) ([]event.EntityID, func(engine.PartitionID) bool, error) {
	return c.busy, func(engine.PartitionID) bool { return false }, nil
}

func (c *changingIdle) DeleteIdle(ctx context.Context, found *engine.Entity, over func(*engine.Entity, []*engine.Entity) bool) error {
	if c.change != nil {
		c.change()
	}
	c.change = nil
	return c.surroundings.DeleteIdle(ctx, found, over)
}

// TestIdleMeanwhile: SM-300. An entity that was found idle is checked again before it is deleted:
// it may have been used, updated, or deleted and created again in between. The note of a last use
// may also come too late.
func TestIdleMeanwhile(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), &manualTime{}
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
	of := &changingIdle{surroundings: b.surroundings(), busy: make([]event.EntityID, 1)}
	changed := false
	of.change = func() {
		changed = true
		of.busy[0] = found["held"].ID
		used := engine.Target{Entity: found["used"]}
		if _, err := b.ask(ctx, used.Host(0), &engine.Peek{Slice: used.Slice(0), Count: 1, MaxBytes: 1}); err != nil {
			t.Fatal(err)
		}
		put("updated", engine.UpdateOnly)
		if err := b.DeleteEntity(ctx, engine.DeleteEntity{Path: "again"}); err != nil {
			t.Fatal(err)
		}
		put("again", engine.CreateOnly)
	}
	if err := (&background.Idle{Of: of, Started: b.started}).Look(ctx); err != nil || !changed {
		t.Fatal(err, changed)
	}
	for _, path := range paths {
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

// The use of an entity with several partitions may be on any of its hosts; a host that cannot be
// asked counts as using it.
func TestIdleAsksAllHosts(t *testing.T) {
	t.Parallel()
	d := &manualTime{}
	b := openAt(t, t.TempDir(), d)
	defer b.close(t)
	props := testQueue()
	props.AutoDeleteOnIdle = 5 * time.Minute
	wide := engine.View(index.Entity{ID: 99, Kind: event.Queue, Path: "wide", Properties: props, Hosts: []byte{0, 1}}, nil)
	b.directory.put(wide)
	tried := func() bool { // the catalogue does not know it
		var e *engine.Error
		return errors.As(b.collectIdle(t.Context()), &e) && e.Code == engine.NotFound
	}
	ask := func(cmd engine.Command) {
		t.Helper()
		if _, err := b.ask(t.Context(), 1, cmd); err != nil {
			t.Fatal(err)
		}
	}
	ask(loop.Configure(wide, false, nil))
	r := &engine.Receiver{Entity: wide, Slice: event.Slice{Entity: wide.ID, Partition: 1}, Sink: newInbox()}
	b.Submit(1, []engine.Request{{Command: &engine.Attach{Receiver: r}}})
	ask(loop.Ping())
	d.turn(6 * time.Minute)
	if tried() {
		t.Error("an entity with a receiver at its second host is idle")
	}
	b.Submit(1, []engine.Request{{Command: &engine.Detach{Receiver: r}}})
	ask(loop.Ping())
	d.turn(6 * time.Minute)
	there := b.slots[1].running.Swap(nil)
	if tried() {
		t.Error("an entity is idle of which one host cannot be asked")
	}
	b.slots[1].running.Store(there)
	if !tried() {
		t.Error("an entity that nobody uses is not idle")
	}
}
