package host

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// activityTest is a broker whose activity is counted, with its own time.
type activityTest struct {
	*broker
	t   *testing.T
	d   *manualTime
	dir string
}

func newActivityTest(t *testing.T) *activityTest {
	t.Helper()
	a := &activityTest{t: t, d: &manualTime{}, dir: t.TempDir()}
	a.start()
	return a
}

func (a *activityTest) start() {
	a.t.Helper()
	store, err := log.Open(a.t.Context(), a.dir, log.Options{Partitions: 2})
	if err != nil {
		a.t.Fatal(err)
	}
	n, err := Open(a.t.Context(), store, Options{Time: a.d, Fence: true, Properties: readPacked, Reread: rereads})
	if err != nil {
		a.t.Fatal(err)
	}
	a.broker = &broker{n, store}
}

// pass lets time pass, and tells the loops of it.
func (a *activityTest) pass(d time.Duration) {
	a.t.Helper()
	a.d.turn(d)
	a.counted("")
}

// counted returns what happened in an entity: received, delivered, completed, failed and died.
func (a *activityTest) counted(path string) (got [5]uint64) {
	a.t.Helper()
	all, err := a.Present().Activity(a.t.Context())
	if err != nil || len(all) != 2 {
		a.t.Fatal(all, err)
	}
	e, _ := a.Find(path)
	for _, p := range all {
		for _, s := range p.Slices {
			if path == "" || s.Slice.Entity == e.ID {
				for i, n := range [...]uint64{s.Received, s.Delivered, s.Completed, s.Failed, s.Died} {
					got[i] += n
				}
			}
		}
	}
	return got
}

// comesTo checks what happened in an entity.
func (a *activityTest) comesTo(path string, want ...uint64) {
	a.t.Helper()
	if got := a.counted(path); got != [5]uint64(want) {
		a.t.Errorf("%s: received, delivered, completed, failed and died are %v, want %v", path, got, want)
	}
}

// settle settles a delivery.
func (a *activityTest) settle(q engine.Target, r engine.Reply, how engine.SettleOutcome) {
	a.t.Helper()
	if _, err := a.ask(a.t.Context(), q.Host(0), &engine.Settle{Entity: q.Entity, Slice: q.Slice(0), Token: r.Delivery().Token, Outcome: how}); err != nil {
		a.t.Fatal(err)
	}
}

// The counts of entities follow what clients and time do.
func TestActivityOfEntities(t *testing.T) {
	t.Parallel()
	a := newActivityTest(t)
	defer func() { a.close(t) }()
	p := testQueue()
	p.DeadLetteringOnMessageExpiration = true
	orders := a.queue(t, "orders", p)
	a.comesTo("orders", 0, 0, 0, 0, 0)

	a.send(t, orders, 5)
	_, in := a.receiver(orders, 1, 5)
	got := in.wait(5)
	a.comesTo("orders", 5, 5, 0, 0, 0)
	for i, how := range []engine.SettleOutcome{engine.Complete, engine.Complete, engine.Abandon, engine.MoveToDeadLetter, engine.Release} {
		a.settle(orders, got[i], how)
	}
	a.comesTo("orders", 5, 5, 2, 1, 1)

	sink := newInbox()
	r := &engine.Receiver{Entity: orders.Entity, Slice: orders.Slice(0), Mode: engine.ReceiveAndDelete, Sink: sink, Tag: 2}
	a.Submit(orders.Host(0), []engine.Request{{Command: &engine.Attach{Receiver: r}}, {Command: &engine.Flow{Receiver: r, Limit: 1}}})
	sink.wait(1)
	a.comesTo("orders", 5, 6, 3, 1, 1)

	_, in = a.receiver(orders, 3, 1)
	in.wait(1)
	a.pass(31 * time.Second) // its lock ends
	a.comesTo("orders", 5, 7, 3, 2, 1)

	if _, err := a.ask(t.Context(), orders.Host(0), &engine.Send{Entity: orders.Entity, Slice: orders.Slice(0), Messages: []engine.Message{{ID: []byte("short"), Body: []byte("x"), TimeToLive: 10 * time.Second}}}); err != nil {
		t.Fatal(err)
	}
	a.pass(11 * time.Second)
	_, in = a.receiver(orders, 4, 2)
	a.settle(orders, in.wait(1)[0], engine.Complete)
	a.comesTo("orders", 6, 8, 4, 2, 2) // the other one has expired

	news, _ := a.entity(t, event.Topic, "news"), a.entity(t, event.Subscription, "news/Subscriptions/a")
	a.publish(t, news, "now", 0, nil)
	a.publish(t, news, "later", a.Now().Add(time.Minute), nil)
	a.comesTo("news", 2, 0, 0, 0, 0)
	a.comesTo("news/Subscriptions/a", 1, 0, 0, 0, 0)
	a.pass(time.Minute)
	a.comesToHold(t, a.target("news/Subscriptions/a"), 2, 0)
	a.comesTo("news", 2, 0, 0, 0, 0)
	a.comesTo("news/Subscriptions/a", 2, 0, 0, 0, 0)

	to := a.queue(t, "to", testQueue())
	a.send(t, a.queue(t, "from", forwardTo("to")), 3)
	a.comesToHold(t, to, 3, 0)
	a.comesTo("from", 3, 0, 0, 0, 0)
	a.comesTo("to", 3, 0, 0, 0, 0)
}

func (a *activityTest) target(path string) engine.Target {
	a.t.Helper()
	target, err := a.Resolve(path)
	if err != nil {
		a.t.Fatal(err)
	}
	return target
}

// The counts begin at zero with the broker, and with an entity, also one of an earlier one's name.
func TestActivityBeginsAgain(t *testing.T) {
	t.Parallel()
	a := newActivityTest(t)
	defer func() { a.close(t) }()
	a.send(t, a.queue(t, "orders", testQueue()), 3)
	if err := a.DeleteEntity(t.Context(), engine.DeleteEntity{Path: "orders"}); err != nil {
		t.Fatal(err)
	}
	a.comesTo("", 0, 0, 0, 0, 0)
	a.send(t, a.queue(t, "orders", testQueue()), 2)
	a.comesTo("orders", 2, 0, 0, 0, 0)
	before := a.since()

	a.close(t)
	a.d.turn(time.Second)
	a.start()
	a.comesTo("", 0, 0, 0, 0, 0)
	if after := a.since(); after[0] == before[0] || after[1] == before[1] {
		t.Errorf("since %v, and then since %v", before, after)
	}
	a.send(t, a.target("orders"), 1)
	a.comesTo("orders", 1, 0, 0, 0, 0)
}

// since returns when the counts of each partition were zero.
func (a *activityTest) since() map[int]event.Time {
	a.t.Helper()
	all, err := a.Present().Activity(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	since := map[int]event.Time{}
	for _, p := range all {
		since[p.Partition] = p.Since
	}
	return since
}

// A partition that does not serve is left out of the answer.
func TestActivityWithoutPartition(t *testing.T) {
	t.Parallel()
	a := newActivityTest(t)
	defer func() { a.close(t) }()
	if err := a.FencePartition(t.Context(), 1, nil, event.ReasonGiven{}); err != nil {
		t.Fatal(err)
	}
	all, err := a.Present().Activity(t.Context())
	if err != nil || len(all) != 1 || all[0].Partition != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
