package host

import (
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// answersTo is for how many syncs the answer to a send to an entity waits.
func (w *waiting) answersTo(id event.EntityID) int { return w.balances.syncs(id, w.entities) }

// docs/decisions/0076: an answer to a send waits for as many syncs as there are groups of messages waiting for consumers that nearly keep up; consumers
// that are few, slow or far behind are not waited for.
func TestBalance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what                string
		came, gone, waiting int
		want                int // parts of a sync
	}{
		{"nothing waits", 40, 40, 0, 0},
		{"half a group waits", 40, 40, 20, syncParts / 2},
		{"two groups wait", 60, 40, 80, 2 * syncParts},
		{"many groups wait", 40, 40, 1000, mostSyncs * syncParts},
		{"more wait than can be made up for", 40, 40, 40 * mostBehind, 0},
		{"consumers are less than half as fast", 40, 19, 20, 0},
		{"nobody settles", 40, 0, 20, 0},
		{"few come and go", 7, 7, 20, 0},
	} {
		var b balance
		for range 50 {
			b.came, b.gone = c.came, c.gone
			b.group(c.waiting)
		}
		if b.syncs < c.want*9/10 || b.syncs > c.want*11/10 {
			t.Errorf("%s: %d parts of a sync, not %d", c.what, b.syncs, c.want)
		}
	}
	b := balance{syncs: syncParts * 3 / 2}
	if a, z := b.next(), b.next(); a != 1 || z != 2 {
		t.Errorf("one and a half syncs each are %d and %d", a, z)
	}
	for groups := 0; b.group(0); groups++ {
		if groups > 100 {
			t.Fatal("an entity of which nothing comes or goes is counted for ever")
		}
	}
}

// The answer to a send that waits for one more sync leaves with that, when there is none, or when it takes long; a refusal waits for nothing.
func TestAnswersWaitForSyncs(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	wait := 1
	s.loop.waiting.balances.forced = func() int { return wait }
	s.asks(1, s.send("a"))
	s.hears("before its sync")
	s.syncs()
	s.hears("no other sync follows", "1")

	s.asks(2, s.send("b"))
	s.asks(3, s.send("c")) // of the next group
	s.syncs()
	s.hears("its own sync has ended, another goes on")
	wait = 0
	s.asks(4, s.send("d")) // of the one behind it
	s.syncs()
	s.hears("that one has ended", "2")
	s.syncs()
	s.hears("the last has ended", "3", "4")

	wait = 2
	s.asks(5, s.send("e"))
	s.asks(6, s.send("f"))
	s.syncs()
	s.hears("another goes on, and takes its time")
	if at := s.loop.NextDeadline(); at != s.now.Add(maxRest) {
		t.Errorf("the loop wakes up at %d, %v from now", at, at.Sub(s.now))
	}
	s.now = s.now.Add(maxRest)
	s.asks(0)
	s.hears("it takes too long", "5")
	s.syncs()
	s.hears("the last has ended", "6")
	if s.loop.Busy() || s.loop.NextDeadline() != 0 {
		t.Errorf("busy %v, next deadline %d", s.loop.Busy(), s.loop.NextDeadline())
	}

	big := s.send("g")
	big.Messages[0].Body = make([]byte, 2<<20) // more than a message may have
	s.asks(7, big, s.send("h"))
	s.syncs()
	s.hears("one is refused, one is stored", "7 refused", "7")
}

// P1: whoever waits for an answer when the log fails is told the truth: what is durable was stored.
func TestAnswersWhenTheLogFails(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	s.loop.waiting.balances.forced = func() int { return 3 }
	s.asks(1, s.send("a"))
	s.asks(2, s.send("b"))
	s.syncs()
	s.hears("another sync goes on")
	s.loop.recorder.fail(fmt.Errorf("planted"))
	s.loop.abort()
	s.hears("one is durable, of the other nobody knows", "1", "2 refused")
}

// docs/decisions/0076: where a consumer settles as many messages as its credit and more come, answers to sends wait.
func TestProducersWaitForConsumers(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	const credit = 16
	r := s.receiver(7, engine.PeekLock)
	s.asks(0, &engine.Attach{Receiver: r}, &engine.Flow{Receiver: r, Limit: credit})
	sends := func(n int) (list []engine.Command) {
		for range n {
			list = append(list, s.send("x"))
		}
		return list
	}
	s.asks(0, sends(5*credit)...)
	s.syncs()
	for i := range 12 {
		ask := sends(credit)
		for _, token := range s.tokens {
			ask = append(ask, &engine.Settle{Entity: r.Entity, Slice: handEntity, Token: token, Outcome: engine.Complete})
		}
		clear(s.tokens)
		ask = append(ask, &engine.Flow{Receiver: r, Limit: uint32(credit * (i + 2))})
		s.asks(0, ask...)
		s.syncs()
		s.syncs()
	}
	if got := s.loop.waiting.answersTo(handEntity.Entity); got == 0 {
		t.Fatalf("with %d waiting of which %d go at a time an answer waits for no other sync: %+v", s.loop.part.Index().Live(), credit, s.loop.waiting.entities[handEntity.Entity].balance)
	}
	s.heard = nil
	s.asks(1, s.send("a"))
	s.asks(2, s.send("b"))
	s.syncs()
	s.hears("a sync goes on behind that of the send")
	for s.loop.Busy() {
		s.syncs()
	}
	s.hears("there is no other one", "1", "2")
	s.asks(0, &engine.Detach{Receiver: r})
	if got := s.loop.waiting.answersTo(handEntity.Entity); got != 0 {
		t.Errorf("without consumers an answer waits for %d syncs", got)
	}
}

// An answer that waits for one more sync is not left waiting when there is none.
func TestNoAnswerIsLeft(t *testing.T) {
	t.Parallel()
	s := onSlowDisk(t, testQueue())
	s.loop.waiting.balances.forced = func() int { return 2 }
	for i := range uint64(40) {
		s.asks(i+1, s.send("x"))
		if i%3 == 0 {
			s.syncs()
		}
	}
	for s.loop.Busy() {
		before := len(s.heard)
		s.syncs()
		if !s.loop.frames.busy() && s.loop.Busy() {
			t.Fatalf("nothing is under way, and %d answers wait", 40-before)
		}
	}
	if len(s.heard) != 40 {
		t.Errorf("%d answers to 40 sends", len(s.heard))
	}
}

// docs/decisions/0076: producers of a topic wait for its subscription, those of another topic do not.
func TestProducersOfATopicWait(t *testing.T) {
	t.Parallel()
	h := withEntities(t)
	const credit = 16
	sub, _ := h.loop.part.Index().Catalogue.Find("events/Subscriptions/a")
	h.loop.configure(&configure{entity: engine.View(sub, nil), ruled: true, rules: []event.Rule{{Name: "all", Filter: event.Filter{Kind: event.TrueFilter}}}})
	r := h.attachesTo(place{path: sub.Path}, 0)
	var topics []event.EntityID
	for _, path := range []string{"events", "news"} {
		e, ok := h.loop.part.Index().Catalogue.Find(path)
		if !ok {
			t.Fatalf("no topic %s", path)
		}
		topics = append(topics, e.ID)
	}
	for i := range 40 {
		n := credit
		if i == 0 {
			n *= 5
		}
		var ask []engine.Command
		for range n {
			ask = append(ask, &engine.Send{Slice: event.Slice{Entity: topics[0]}, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x")}}})
		}
		for _, reply := range h.got {
			if d := reply.Delivery(); d != nil {
				ask = append(ask, &engine.Settle{Entity: r.Entity, Slice: r.Slice, Token: d.Token, Outcome: engine.Complete})
			}
		}
		h.got = nil
		h.turn(append(ask, &engine.Flow{Receiver: r, Limit: uint32(credit * (i + 1))})...)
	}
	if a, b := h.loop.waiting.answersTo(topics[0]), h.loop.waiting.answersTo(topics[1]); a == 0 || b != 0 {
		t.Errorf("an answer waits for %d syncs, one of another topic for %d", a, b)
	}
	h.turn(&engine.Detach{Receiver: r})
	h.turn(&engine.Send{Slice: event.Slice{Entity: topics[0]}, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x")}}})
	if got := h.loop.waiting.answersTo(topics[0]); got != 0 {
		t.Errorf("without consumers an answer waits for %d syncs", got)
	}
}
