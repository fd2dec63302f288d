package host

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// attaches asks for a receiver of an entity, with what follows in the receiver, and returns it with the answer's code.
func (h *hand) attaches(path string, q event.SubQueue, session *engine.SessionRequest) (*engine.Receiver, engine.Code) {
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

// 16.3: the receivers of a queue are counted together, of its dead-letter queue too, and so are those that hold a session or wait
// for one, and those of all subscriptions of a topic. Each that goes makes room for another.
func TestConcurrentReceivers(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.loop.waiting.limit = 3
	for _, cmd := range []*engine.PutEntity{
		{Kind: event.Queue, Path: "tasks", Properties: sessionQueue()}, {Kind: event.Queue, Path: "other", Properties: testQueue()},
	} {
		if r := h.ask(cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, path := range []string{"events", "events/Subscriptions/a", "events/Subscriptions/b", "news", "news/Subscriptions/a"} {
		kind := event.Topic
		if strings.Contains(path, "/") {
			kind = event.Subscription
		}
		if r := h.ask(&engine.PutEntity{Kind: kind, Path: path, Properties: engine.DefaultProperties(kind)}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	h.configure()
	type place struct {
		path    string
		q       event.SubQueue
		session *engine.SessionRequest
	}
	named := func(id string) *engine.SessionRequest { return &engine.SessionRequest{ID: []byte(id)} }
	next := &engine.SessionRequest{Any: true, Wait: time.Hour}
	for _, c := range []struct {
		full []place // all of what there may be
		more []place // one too many, each
		free place   // elsewhere
	}{
		{[]place{{path: "orders"}, {path: "orders"}, {path: "orders", q: event.DeadLetter}},
			[]place{{path: "orders"}, {path: "orders", q: event.DeadLetter}}, place{path: "other"}},
		{[]place{{path: "tasks", session: named("A")}, {path: "tasks", session: next}, {path: "tasks", q: event.DeadLetter}},
			[]place{{path: "tasks", session: named("B")}, {path: "tasks", session: next}, {path: "tasks", q: event.DeadLetter}}, place{path: "other"}},
		{[]place{{path: "events/Subscriptions/a"}, {path: "events/Subscriptions/b"}, {path: "events/Subscriptions/b", q: event.DeadLetter}},
			[]place{{path: "events/Subscriptions/a"}, {path: "events/Subscriptions/b"}}, place{path: "news/Subscriptions/a"}},
	} {
		var there []*engine.Receiver
		for _, p := range c.full {
			r, code := h.attaches(p.path, p.q, p.session)
			if code != 0 {
				t.Fatalf("%+v: code %d", p, code)
			}
			there = append(there, r)
		}
		for _, p := range c.more {
			r, code := h.attaches(p.path, p.q, p.session)
			if code != engine.QuotaExceeded {
				t.Errorf("%+v, one too many: code %d", p, code)
			}
			h.turn(&engine.Flow{Receiver: r, Limit: 9}, &engine.Detach{Receiver: r}) // of a link that is told so; it was never counted
		}
		if r, code := h.attaches(c.free.path, c.free.q, nil); code != 0 {
			t.Errorf("%+v: code %d", c.free, code)
		} else {
			h.turn(&engine.Detach{Receiver: r})
		}
		for i, p := range c.full { // each in its place goes, and another comes
			h.turn(&engine.Detach{Receiver: there[i]})
			if r, code := h.attaches(p.path, p.q, p.session); code != 0 {
				t.Errorf("%+v, after one has gone: code %d", p, code)
			} else {
				there[i] = r
			}
		}
		for _, r := range there {
			h.turn(&engine.Detach{Receiver: r})
		}
	}
	if n := len(h.loop.waiting.counts); n != 0 {
		t.Errorf("receivers of %d entities are counted when all have gone", n)
	}
}

// 16.3: a receiver that loses its session, or gives up waiting for one, or finds its session taken, is not counted any more.
func TestReceiversThatAreToldToGo(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.loop.waiting.limit = 2
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
	if h.heard(); len(h.loop.waiting.counts) != 0 {
		t.Errorf("%v are counted", h.loop.waiting.counts)
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
		t.Fatal(r.Err)
	}
	h.turn(&engine.Detach{Receiver: all[7].(*engine.Attach).Receiver})
	if r := h.ask(&engine.Attach{Receiver: more}); r.Err != nil {
		t.Fatal(r.Err)
	}
}
