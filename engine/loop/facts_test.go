package loop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A log records a bounded number of refusals of settlements, at once and in the long run, from any
// number of clients, and says how many were left out.
func TestRefusedSettlementsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFacts()
	now := event.Time(1_900_000_000_000)
	for _, c := range []struct {
		name   string
		after  time.Duration
		asked  int
		noted  int
		missed uint64 // left out, as the first one says
	}{
		{"a burst", 0, notedBurst + 40, notedBurst, 0},
		{"at once behind it", notedEvery - time.Millisecond, 10, 0, 0},
		{"one more later", time.Millisecond, 3, 1, 50},
		{"a second", time.Second, 100, int(time.Second / notedEvery), 2},
		{"after a long time", time.Hour, 2 * notedBurst, notedBurst, 90},
		{"few of them", time.Hour, 5, 5, notedBurst},
		{"and few again", time.Hour, 5, 5, 0},
	} {
		now = now.Add(c.after)
		var missed uint64
		noted := 0
		for range c.asked {
			var note event.SettlementRefused
			if f.admitSettlement(now, &note) {
				if noted++; noted == 1 {
					missed = note.Missed
				} else if note.Missed != 0 {
					t.Errorf("%s: the %d. says that %d are missing", c.name, noted, note.Missed)
				}
			}
		}
		if noted != c.noted || missed != c.missed {
			t.Errorf("%s: %d of %d are noted, the first says that %d are missing; it must be %d and %d", c.name, noted, c.asked, missed, c.noted, c.missed)
		}
	}
}

// Refused sends are counted by entity and reason, for a second from the first one on; the number of
// counts at a time is bounded.
func TestRefusedSendsAreCounted(t *testing.T) {
	t.Parallel()
	type count struct {
		entity event.EntityID
		why    event.Refusal
		n      uint64
	}
	last := &engine.Origin{Link: "last"}
	f := newFacts()
	now := event.Time(1_900_000_000_000)
	for _, c := range []struct {
		name  string
		after time.Duration
		sent  []count
		over  []count
		next  time.Duration // until there is something to do; 0: there is nothing
	}{
		{"nothing", 0, nil, nil, 0},
		{"one", 0, []count{{1, event.RefusedFull, 1}}, nil, time.Second},
		{"more of them, others", 400 * time.Millisecond, []count{{1, event.RefusedFull, 10}, {1, event.RefusedDisabled, 1}, {2, event.RefusedFull, 1}}, nil, 600 * time.Millisecond},
		{"the first second is over", 600 * time.Millisecond, nil, []count{{1, event.RefusedFull, 11}}, 400 * time.Millisecond},
		{"another begins", 100 * time.Millisecond, []count{{1, event.RefusedFull, 5}}, nil, 300 * time.Millisecond},
		{"all are over", 2 * time.Second, nil, []count{{1, event.RefusedDisabled, 1}, {2, event.RefusedFull, 1}, {1, event.RefusedFull, 5}}, 0},
	} {
		now = now.Add(c.after)
		for _, s := range c.sent {
			f.countSends(now, refusedSends(s.entity, s.why, s.n), last)
		}
		var over []count
		for note := f.takeEnded(now); note != nil; note = f.takeEnded(now) {
			fact := note.Fact.(*event.SendsRefused)
			over = append(over, count{fact.Slice.Entity, fact.Why, fact.Count})
			if note.Origin != last || fact.Since == 0 || now.Sub(fact.Since) < refusedWindow {
				t.Errorf("%s: %+v at %v", c.name, fact, now)
			}
		}
		var next time.Duration
		if at := f.deadline(); at != 0 {
			next = at.Sub(now)
		}
		if len(over) != len(c.over) || next != c.next {
			t.Fatalf("%s: %v are over, the next in %v; it must be %v and %v", c.name, over, next, c.over, c.next)
		}
		for i := range over {
			if over[i] != c.over[i] {
				t.Errorf("%s: %v are over, it must be %v", c.name, over, c.over)
			}
		}
	}
	for entity := range event.EntityID(2 * maxWindows) {
		f.countSends(now, refusedSends(entity, event.RefusedFull, 1), last)
	}
	if n := len(f.windows); n != maxWindows {
		t.Errorf("%d counts at a time", n)
	}
}

// refusedSends returns a refusal of a send of that many messages.
func refusedSends(id event.EntityID, why event.Refusal, n uint64) event.SendsRefused {
	return event.SendsRefused{Envelope: event.Envelope{Slice: event.Slice{Entity: id}}, Why: why, Count: n}
}

// kept returns the events of a type that are in the log.
func kept[E any, P interface {
	*E
	event.Event
}](h *drivenLoop) (all []E) {
	h.t.Helper()
	var dec event.Decoder
	for f, err := range h.plog.Read(h.t.Context(), 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		rest := f.Records
		for range f.Count {
			var rec event.Record
			if rec, rest, err = dec.Record(f.Base, f.Bodies, rest); err != nil {
				h.t.Fatal(err)
			}
			for _, ev := range rec.Events {
				if e, ok := ev.(P); ok {
					all = append(all, *e)
				}
			}
		}
	}
	return all
}

// counter counts the calls of a loop's writer.
type counter struct {
	log.Writer
	frames, syncs int
}

func (c *counter) Append(b *log.Batch) log.Ticket { c.frames++; return c.Writer.Append(b) }
func (c *counter) Write(b *log.Batch) log.Ticket  { c.frames++; return c.Writer.Write(b) }
func (c *counter) Sync()                          { c.syncs++; c.Writer.Sync() }

func (h *drivenLoop) counted() *counter {
	c := &counter{Writer: h.loop.frames.writer}
	h.loop.frames.writer = c
	return c
}

// The refusal of a settlement leaves at once. Its fact waits for other records, a second at most;
// then it is written, and no sync is requested.
func TestFactsWaitForCompany(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	w := h.counted()
	lost := func() {
		t.Helper()
		var refusal *engine.Error
		r := h.ask(&engine.Settle{Slice: handEntity, Token: event.LockToken{1}, Outcome: engine.Complete, Origin: &engine.Origin{Link: "w"}})
		if !errors.As(r.Err, &refusal) || refusal.Code != engine.LockLost {
			t.Fatalf("%+v; want errors.As(r.Err, &refusal) && refusal.Code == engine.LockLost", r.Err)
		}
	}
	lost()
	if w.frames != 0 || h.loop.Busy() || h.loop.NextDeadline() != h.now.Add(maxAlone) {
		t.Fatalf("%d frames, and more at %v", w.frames, h.loop.NextDeadline())
	}
	h.after(maxAlone - time.Millisecond)
	lost()
	if w.frames != 0 {
		t.Fatalf("%d frames before the time is up", w.frames)
	}
	if h.after(time.Millisecond); w.frames != 1 || w.syncs != 0 || h.loop.NextDeadline() != 0 {
		t.Fatalf("%d frames, %d syncs, and more at %v", w.frames, w.syncs, h.loop.NextDeadline())
	}
	lost()
	if h.fill(1, 0); w.frames != 2 || w.syncs != 1 || h.loop.NextDeadline() != 0 {
		t.Fatalf("with company it is %d frames, %d syncs, and more at %v", w.frames, w.syncs, h.loop.NextDeadline())
	}
	if all := kept[event.SettlementRefused](h); len(all) != 3 || all[0].Why != event.RefusedLockLost || all[0].Wanted != event.WantedComplete ||
		all[0].Token != (event.LockToken{1}) || all[0].Origin == 0 || all[0].Slice != handEntity {
		t.Errorf("%d are in the log, the first is %+v", len(all), all[0])
	}
}

// A client that only sends causes one frame and one sync for each group, as without facts; the fact
// that the run began is written with the first.
func TestSendsCostWhatTheyCost(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	h.restart()
	w := h.counted()
	h.loop.Begin("1.2.3", "abc", h.plog)
	if w.frames != 0 || h.loop.Busy() {
		t.Fatalf("the start of the run has made %d frames", w.frames)
	}
	const groups = 20
	for range groups {
		h.fill(3, 0)
	}
	if w.frames != groups || w.syncs != groups {
		t.Errorf("%d frames and %d syncs for %d groups", w.frames, w.syncs, groups)
	}
	if runs := kept[event.RunStarted](h); len(runs) != 1 || runs[0].Version != "1.2.3" || runs[0].Settings != "abc" || runs[0].Cut != 0 {
		t.Errorf(`%+v; want len(runs) == 1 && runs[0].Version == "1.2.3" && runs[0].Settings == "abc" && runs[0].Cut == 0`, runs)
	}
}

// sync makes everything written durable, as the log does by itself within a second: only that is
// read back.
func (h *drivenLoop) sync() {
	h.loop.frames.writer.Sync()
	for h.loop.frames.writer.Durable() < h.loop.frames.end {
		h.loop.await()
	}
}

// Refused sends over the quota become one event for all senders together, after the second or at
// the end of the run.
func TestRefusedSendsAreOneEvent(t *testing.T) {
	t.Parallel()
	p := testQueue()
	p.MaxSizeMegabytes, p.MaxMessageSizeKilobytes = 1, 1024
	h := byHand(t, p)
	full := &engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("a"), Body: make([]byte, 1<<20)}}}
	if r := h.ask(full); r.Err != nil {
		t.Fatal(r.Err)
	}
	began := h.now
	for range 5 {
		h.now = h.now.Add(100 * time.Millisecond)
		if r := h.ask(full); r.Err == nil {
			t.Fatal("there is room")
		}
	}
	if n := len(kept[event.SendsRefused](h)); n != 0 || h.loop.NextDeadline() != began.Add(refusedWindow+100*time.Millisecond) {
		t.Fatalf("%d counts, the next thing to do is at %v", n, h.loop.NextDeadline())
	}
	h.after(refusedWindow)
	h.after(maxAlone)
	h.ask(&engine.Send{Slice: handEntity, Messages: []engine.Message{full.Messages[0], full.Messages[0]}})
	tooLarge := refusedSends(handEntity.Entity, event.RefusedTooLarge, 7)
	h.turn(&engine.Note{Fact: &tooLarge})
	h.loop.Finish()
	h.sync()
	got := kept[event.SendsRefused](h)
	want := []event.SendsRefused{{Why: event.RefusedFull, Count: 5, Since: began.Add(100 * time.Millisecond)},
		{Why: event.RefusedFull, Count: 2, Since: h.now}, {Why: event.RefusedTooLarge, Count: 7, Since: h.now}}
	if len(got) != len(want) {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	for i := range got {
		if want[i].Slice = handEntity; got[i] != want[i] {
			t.Errorf("%+v, it must be %+v", got[i], want[i])
		}
	}
}

// A peer with many links and long names makes no frame too large: waiting records are written early
// if there are many.
func TestFactsOfManyOrigins(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	w := h.counted()
	text := strings.Repeat("x", 4096)
	var all []engine.Command
	for i := range 2 * notedBurst {
		link := &engine.Origin{Connection: uint64(i), RemoteAddress: text, ContainerID: text, Product: text, Principal: text, Link: text, Entity: text}
		all = append(all, &engine.Settle{Slice: handEntity, Token: event.LockToken{1}, Outcome: engine.Complete, Origin: link})
	}
	h.turn(all...)
	h.loop.Finish()
	if w.syncs != 0 {
		t.Errorf("%d syncs", w.syncs)
	}
	h.sync()
	var largest event.LSN
	for f, err := range h.plog.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, f.Next-f.LSN)
	}
	if largest > maxOpen+maxOpen/4 {
		t.Errorf("a frame of %d bytes", largest)
	}
	if n := len(kept[event.SettlementRefused](h)); n != notedBurst {
		t.Errorf("%d are noted", n)
	}
}
