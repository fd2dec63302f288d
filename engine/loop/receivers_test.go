package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// attaches attaches a receiver to a sub-queue, with or without a session, and returns it with the
// code of the answer.
func (h *drivenLoop) attaches(path string, q event.SubQueue, session *engine.SessionRequest) (*engine.Receiver, engine.Code) {
	h.t.Helper()
	e, ok := h.loop.part.Index().Catalogue.Find(path)
	if !ok {
		h.t.Fatalf("no %s", path)
	}
	h.tag++
	r := &engine.Receiver{Entity: engine.View(e, nil), Slice: event.Slice{Entity: e.ID}, SubQueue: q, Sink: h, Tag: h.tag, Session: session}
	h.requests([]engine.Request{{Command: &engine.Attach{Receiver: r}, Sink: h, Tag: 1<<32 | h.tag}})
	for i, got := range h.got {
		if got.Kind == engine.ReplyDone && got.Tag == 1<<32|h.tag {
			h.got = append(h.got[:i], h.got[i+1:]...)
			return r, code(got.Err)
		}
	}
	return r, 0 // it waits
}

// receiverPlace is where a receiver can be.
type receiverPlace struct {
	path    string
	q       event.SubQueue
	session *engine.SessionRequest
}

// 16.3: all receivers of a queue are counted together, including those of its dead-letter queue and
// those that hold a session or wait for one; so are those of all subscriptions of a topic. Each
// detached receiver makes room for another.
func TestConcurrentReceivers(t *testing.T) {
	t.Parallel()
	named := func(id string) *engine.SessionRequest { return &engine.SessionRequest{ID: []byte(id)} }
	next := &engine.SessionRequest{Any: true, Wait: time.Hour}
	for _, c := range []struct {
		name string
		full []receiverPlace // as many as allowed
		more []receiverPlace // one too many, each
		free receiverPlace   // elsewhere
	}{
		{"a queue", []receiverPlace{{path: "orders"}, {path: "orders"}, {path: "orders", q: event.DeadLetter}},
			[]receiverPlace{{path: "orders"}, {path: "orders", q: event.DeadLetter}}, receiverPlace{path: "other"}},
		{"sessions", []receiverPlace{{path: "tasks", session: named("A")}, {path: "tasks", session: next}, {path: "tasks", q: event.DeadLetter}},
			[]receiverPlace{{path: "tasks", session: named("B")}, {path: "tasks", session: next}, {path: "tasks", q: event.DeadLetter}}, receiverPlace{path: "other"}},
		{"subscriptions", []receiverPlace{{path: "events/Subscriptions/a"}, {path: "events/Subscriptions/b"}, {path: "events/Subscriptions/b", q: event.DeadLetter}},
			[]receiverPlace{{path: "events/Subscriptions/a"}, {path: "events/Subscriptions/b"}}, receiverPlace{path: "news/Subscriptions/a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := withEntities(t)
			h.loop.receivers.limit = 3
			var there []*engine.Receiver
			for _, p := range c.full {
				there = append(there, h.attachesTo(p, 0))
			}
			for _, p := range c.more {
				r := h.attachesTo(p, engine.QuotaExceeded)
				// of a refused link, which was never counted
				h.turn(&engine.Flow{Receiver: r, Limit: 9}, &engine.Detach{Receiver: r})
			}
			there = append(there, h.attachesTo(c.free, 0))
			for i, p := range c.full { // each in its place leaves, and another comes
				h.turn(&engine.Detach{Receiver: there[i]})
				there[i] = h.attachesTo(p, 0)
			}
			for _, r := range there {
				h.turn(&engine.Detach{Receiver: r})
			}
			if n := len(h.loop.receivers.counts); n != 0 {
				t.Errorf("receivers of %d entities are counted when all have gone", n)
			}
		})
	}
}

// withEntities returns a loop with queues, one of them with sessions, and topics with
// subscriptions.
func withEntities(t *testing.T) *drivenLoop {
	t.Helper()
	h := byHand(t, testQueue())
	puts := []*engine.PutEntity{
		{Kind: event.Queue, Path: "tasks", Properties: sessionQueue()}, {Kind: event.Queue, Path: "other", Properties: testQueue()},
	}
	for _, path := range []string{"events", "events/Subscriptions/a", "events/Subscriptions/b", "news", "news/Subscriptions/a"} {
		kind := event.Topic
		if strings.Contains(path, "/") {
			kind = event.Subscription
		}
		puts = append(puts, &engine.PutEntity{Kind: kind, Path: path, Properties: engine.DefaultProperties(kind)})
	}
	for _, put := range puts {
		if r := h.ask(put); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	h.configure()
	return h
}

// attachesTo asks for a receiver in a place; the answer must have the code, 0 where the receiver is
// attached.
func (h *drivenLoop) attachesTo(p receiverPlace, want engine.Code) *engine.Receiver {
	h.t.Helper()
	r, code := h.attaches(p.path, p.q, p.session)
	if code != want {
		h.t.Fatalf("%+v: code %d, want %d", p, code, want)
	}
	return r
}

// 16.3: a receiver that loses its session, or gives up waiting for one, or finds its session taken,
// is no longer counted.
func TestReceiversThatAreToldToGo(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.loop.receivers.limit = 2
	h.accepts(1, "A")
	h.accepts(2, "A")
	h.wants(3, 10*time.Second)
	h.accepts(4, "B")
	h.hears("1:A", "2:!13", "4:!5")
	h.after(10 * time.Second)
	h.hears("3:!14")
	h.accepts(5, "B")
	h.hears("5:B")
	h.after(31 * time.Second)
	if h.heard(); len(h.loop.receivers.counts) != 0 {
		t.Errorf("%v are counted", h.loop.receivers.counts)
	}
}

// 16.3: there may be 5000.
func TestMostReceivers(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	var all []engine.Command
	for i := range 5000 {
		all = append(all, &engine.Attach{Receiver: h.receiver(uint64(i), event.Main)})
	}
	h.turn(all...)
	more := h.receiver(5001, event.Main)
	r := h.ask(&engine.Attach{Receiver: more})
	if code(r.Err) != engine.QuotaExceeded || r.Err.Error() != "The maximum of 5000 concurrent receivers of 'orders' is reached." {
		t.Fatalf(`%+v; want code(r.Err) == engine.QuotaExceeded && r.Err.Error() == "The maximum of 5000 concurrent receivers of 'orders' is reached."`, r.Err)
	}
	h.turn(&engine.Detach{Receiver: all[7].(*engine.Attach).Receiver})
	if r := h.ask(&engine.Attach{Receiver: more}); r.Err != nil {
		t.Fatal(r.Err)
	}
}
