package servicebus

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/engine/host"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/access"
)

var testQueue, testSubscription = testProperties(event.Queue), testProperties(event.Subscription)

func testProperties(kind event.EntityKind) event.Properties {
	p := engine.DefaultProperties(kind)
	p.LockDuration, p.MaxDeliveryCount = 30*time.Second, 3
	return p
}

var testRules = []event.AccessRule{
	{Name: "root", Primary: "root-key", Secondary: "root-key-2", Rights: event.Rights{event.Manage}},
	{Name: "listen", Primary: "listen-key", Rights: event.Rights{event.Listen}},
	{Name: "send", Primary: "send-key", Rights: event.Rights{event.Send}},
}

// testAccess accepts tokens of the test rules for any host, and tokens of rules that a test adds.
func testAccess(change func(*access.Options)) *access.Verifier {
	o := access.Options{Rules: testRules, Development: true}
	if change != nil {
		change(&o)
	}
	return access.New(o)
}

// bench is a server over a real engine inside a bubble of fake time, with queues q, q2 and others a
// test adds.
type bench struct {
	*testing.T
	ns      *host.Namespace
	broker  *faultyBroker
	server  *Server
	clients []net.Conn
	panics  uint64 // expected
	putters map[string]*peerConn
}

// put sends messages to an entity over a connection of its own.
func (b *bench) put(entity string, messages ...[]byte) {
	b.Helper()
	p := b.putters[entity]
	if p == nil || p.gone() {
		p = b.root()
		p.attachSender(1, entity)
		if b.putters == nil {
			b.putters = map[string]*peerConn{}
		}
		b.putters[entity] = p
	}
	for _, m := range messages {
		p.send(1, p.sent, m)
		p.sent++
	}
}

// faultyBroker is the engine with the faults a test asks for.
type faultyBroker struct {
	engine.Broker
	refusal atomic.Pointer[func(engine.Command) error]
	damage  atomic.Int32

	unreadable atomic.Pointer[error] // why stored bytes cannot be read; nil: they can
	starved    atomic.Bool           // of file descriptors
	slow       atomic.Int64          // ns that the next read takes

	mu      sync.Mutex
	holding bool
	held    []func()
	// of the requests that came, whether what their answers point to has been read
	read []*atomic.Bool
}

// unread counts the requests whose senders may still read the data of the answer.
func (b *faultyBroker) unread() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, read := range b.read {
		if !read.Load() {
			n++
		}
	}
	return n
}

// refuse has requests answered with what why says, where that is not nil, instead of carried out.
// It is asked in a turn of the connection, so it waits for nothing: see hold.
func (b *faultyBroker) refuse(why func(engine.Command) error) { b.refusal.Store(&why) }

func (b *faultyBroker) refused(cmd engine.Command) error {
	if why := b.refusal.Load(); why != nil && *why != nil {
		return (*why)(cmd)
	}
	return nil
}

// hold keeps requests back while f runs.
func (b *faultyBroker) hold(f func()) {
	b.mu.Lock()
	b.holding = true
	b.mu.Unlock()
	f()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, submit := range b.held {
		submit()
	}
	b.holding, b.held = false, nil
}

// Submit passes on the requests that are not refused in one run, unchanged, because that decides
// whether answers are sent together.
func (b *faultyBroker) Submit(p engine.PartitionID, rs []engine.Request) {
	var run []engine.Request
	for _, r := range rs {
		if err := b.refused(r.Command); err != nil {
			if s, ok := r.Command.(*engine.Send); ok && s.Buffer != nil {
				s.Buffer.Release()
			}
			if r.Sink != nil {
				r.Sink.Post([]engine.Reply{{Tag: r.Tag, Err: err}})
			}
			continue
		}
		run = append(run, r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range run {
		if r.Read != nil {
			b.read = append(b.read, r.Read)
		}
	}
	if b.holding {
		b.held = append(b.held, func() { b.Broker.Submit(p, run) })
	} else {
		b.Broker.Submit(p, run)
	}
}

// Manage holds back and refuses as Submit does.
func (b *faultyBroker) Manage(r engine.Request) {
	if err := b.refused(r.Command); err != nil {
		r.Sink.Post([]engine.Reply{{Tag: r.Tag, Err: err}})
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holding {
		b.held = append(b.held, func() { b.Broker.Manage(r) })
	} else {
		b.Broker.Manage(r)
	}
}

func (b *faultyBroker) ReadInto(p engine.PartitionID, blob event.Blob, dst []byte) (int, error) {
	if err := b.unreadable.Load(); err != nil {
		return 0, *err
	}
	if b.starved.Load() {
		time.Sleep(100 * time.Millisecond) // so long it waits for one
		return 0, &engine.Error{Code: engine.Busy, Text: "Not now."}
	}
	time.Sleep(time.Duration(b.slow.Swap(0)))
	return b.Broker.ReadInto(p, blob, dst)
}

func (b *faultyBroker) ReportDamage(engine.PartitionID, event.LockToken, error) { b.damage.Add(1) }

// bubbleTime is the fake time of a bubble.
type bubbleTime struct{ start time.Time }

func (t bubbleTime) Elapsed() time.Duration { return time.Since(t.start) }

// bubble runs a test in fake time. change, when not nil, adjusts the options.
func bubble(t *testing.T, change func(*Options), test func(b *bench)) {
	t.Helper()
	bubbleOn(t, nil, change, test)
}

// bubbleOn is bubble on a disk of the test's.
func bubbleOn(t *testing.T, disk disk.FS, change func(*Options), test func(b *bench)) {
	t.Helper()
	bubbleIn(t, t.TempDir(), disk, change, test)
}

// bubbleIn is bubbleOn in a directory of the test's, which may have been used before.
func bubbleIn(t *testing.T, dir string, disk disk.FS, change func(*Options), test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := log.Open(context.Background(), dir, log.Options{FS: disk, Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		ns, err := host.Open(context.Background(), store, host.Options{Time: bubbleTime{time.Now()}, Properties: readProperties, Reread: reread, EntityPartitions: event.MaxEntityPartitions})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, ns: ns, broker: &faultyBroker{Broker: ns}}
		b.queue("q", nil)
		b.queue("q2", nil)
		options := Options{
			Namespace: "ns", AllowPlainWithoutTLS: true, Access: testAccess(nil),
			Logger: slog.New(slog.DiscardHandler),
		}
		if change != nil {
			change(&options)
		}
		b.server = &Server{Broker: b.broker, Options: options}
		defer func() {
			checkBooks(t, b.server)
			for _, c := range b.clients {
				c.Close()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			b.server.Close(ctx)
			if n := b.server.Panics(); n != b.panics {
				t.Errorf("%d connections ended in a panic", n)
			}
			ns.Close()
			store.Close()
		}()
		test(b)
	})
}

func (b *bench) queue(path string, change func(*event.Properties)) {
	b.Helper()
	b.entity(engine.PutEntity{Kind: event.Queue, Path: path, Properties: testQueue}, change)
}

// topic makes or changes a topic.
func (b *bench) topic(path string, change func(*event.Properties)) {
	b.Helper()
	b.entity(engine.PutEntity{Kind: event.Topic, Path: path, Properties: engine.DefaultProperties(event.Topic)}, change)
}

// subscription makes or changes a subscription. Without rules it is made with the one that every
// message matches.
func (b *bench) subscription(topic, name string, change func(*event.Properties), rules ...event.Rule) {
	b.Helper()
	b.entity(engine.PutEntity{Kind: event.Subscription, Path: engine.SubscriptionPath(topic, name), Properties: testSubscription, Rules: rules}, change)
}

func (b *bench) entity(put engine.PutEntity, change func(*event.Properties)) {
	b.Helper()
	if change != nil {
		change(&put.Properties)
	}
	if _, err := b.ns.PutEntity(context.Background(), put); err != nil {
		b.Fatal(err)
	}
}

func (bubbleTime) Wall() time.Time { return time.Now() }
