package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// linkFacts returns what the log says about links, a line each, with the name that a link's origin
// has.
func (h *drivenLoop) linkFacts() (lines []string) {
	h.t.Helper()
	h.tag++
	// which also syncs everything before it
	h.ask(&engine.PutEntity{Kind: event.Queue, Path: fmt.Sprint("synced", h.tag), Properties: testQueue()})
	names := map[event.OriginID]string{}
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
				name := names[ev.Common().Origin]
				switch ev := ev.(type) {
				case *event.OriginDefined:
					names[ev.ID] = ev.Origin.Link
				case *event.LinkOpened:
					line := fmt.Sprintf("%s opened %v", name, ev.Role)
					if ev.SubQueue != event.Main {
						line += fmt.Sprintf(" %v", ev.SubQueue)
					}
					if ev.InSession {
						line += fmt.Sprintf(" session %q", ev.SessionID)
					}
					if ev.Missed > 0 {
						line += fmt.Sprintf(" missed %d", ev.Missed)
					}
					lines = append(lines, line)
				case *event.LinkClosed:
					lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s closed %v %s %s", name, ev.Cause, ev.Condition, ev.Description)))
				}
			}
		}
	}
	return lines
}

func (h *drivenLoop) noted(want ...string) {
	h.t.Helper()
	if got := h.linkFacts(); !slices.Equal(got, want) {
		h.t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// opens attaches a receiver that the log records under a name.
func (h *drivenLoop) opens(name string, change func(*engine.Receiver)) *engine.Receiver {
	h.t.Helper()
	h.tag++
	r := h.receiver(h.tag, event.Main)
	r.Origin = &engine.Origin{Link: name}
	if change != nil {
		change(r)
	}
	h.requests([]engine.Request{{Command: &engine.Attach{Receiver: r, Noted: true}, Sink: h, Tag: h.tag}})
	return r
}

// sender returns a sender's link with a name, and the fact that records its opening.
func sender(name string) (*engine.Origin, engine.Command) {
	link := &engine.Origin{Link: name}
	return link, &engine.Note{Origin: link, Fact: &event.LinkOpened{Envelope: event.Envelope{Slice: handEntity}, Role: event.Sender}}
}

// closes returns the note of the end of a sender's link.
func closes(link *engine.Origin, closed event.LinkClosed) engine.Command {
	closed.Slice = handEntity
	return &engine.Note{Origin: link, Fact: &closed}
}

// The log says who was sending, receiving and browsing, from when to when, and why it ended.
func TestLinkFacts(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	link, opened := sender("s")
	h.turn(opened)
	lock := h.opens("lock", nil)
	take := h.opens("take", func(r *engine.Receiver) { r.Mode, r.SubQueue = engine.ReceiveAndDelete, event.DeadLetter })
	look := h.opens("look", func(r *engine.Receiver) { r.Mode = engine.Browse })
	untold := h.receiver(99, event.Main)
	h.turn(&engine.Attach{Receiver: untold}, &engine.Detach{Receiver: untold})
	h.turn(&engine.Detach{Receiver: take, Closed: event.LinkClosed{Cause: event.ClosedByBroker, Condition: "amqp:not-found", Description: "gone"}},
		&engine.Detach{Receiver: lock, Closed: event.LinkClosed{Cause: event.ClosedStop}}, &engine.Detach{Receiver: look})
	lost := closes(link, event.LinkClosed{Cause: event.ClosedConnection, Description: "read: EOF" + strings.Repeat("ä", 1024)})
	h.turn(lost, lost)
	h.noted("s opened sender", "lock opened receiver", "take opened receiver-deleting dead-letter", "look opened browser",
		"take closed broker amqp:not-found gone", "lock closed stop", "look closed peer", "s closed connection-lost  read: EOF"+strings.Repeat("ä", 507))
}

// A link that wants a session is recorded when it has the session; one that gets none never is.
func TestLinkFactsOfSessions(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	h.loop.receivers.limit = 3
	named := func(id string) func(*engine.Receiver) {
		return func(r *engine.Receiver) { r.Session = &engine.SessionRequest{ID: []byte(id)} }
	}
	next := func(wait time.Duration) func(*engine.Receiver) {
		return func(r *engine.Receiver) { r.Session = &engine.SessionRequest{Any: true, Wait: wait} }
	}
	waits := h.opens("waits", next(time.Hour))
	inVain := h.opens("in vain", next(time.Second))
	refused := h.opens("refused", named(""))
	held := h.opens("too many", named(""))
	h.after(2 * time.Second)
	h.send(0, "A")
	h.after(time.Minute) // the locks of both sessions end
	for _, r := range []*engine.Receiver{waits, inVain, refused, held} {
		h.turn(&engine.Detach{Receiver: r, Closed: event.LinkClosed{Cause: event.ClosedByBroker, Condition: "com.microsoft:x"}})
	}
	h.noted(`refused opened receiver session ""`, `waits opened receiver session "A"`,
		"waits closed broker com.microsoft:x", "refused closed broker com.microsoft:x")
}

// A peer that only opens links gets a bounded number of them into the log, and afterwards only as
// many as a slow rate allows; the next recorded one says how many were left out. Links of other
// entities, and of sessions, are all recorded.
func TestLinkFactsAreBounded(t *testing.T) {
	t.Parallel()
	h := byHand(t, sessionQueue())
	flood := func(n int) {
		var all []engine.Command
		for range n {
			link, opened := sender("s")
			all = append(all, opened, closes(link, event.LinkClosed{Cause: event.ClosedByPeer}))
		}
		h.turn(all...)
	}
	flood(linksAtOnce + 100)
	r := h.opens("r", func(r *engine.Receiver) { r.Session = &engine.SessionRequest{ID: []byte("A")} })
	flood(10)
	h.after(3 * linkPause)
	flood(5)
	h.turn(&engine.Detach{Receiver: r})
	got := h.linkFacts()
	pair := []string{"s opened sender", "s closed peer"}
	if n := 2 * linksAtOnce; !slices.Equal(got[:n], slices.Repeat(pair, linksAtOnce)) {
		t.Error("of the first, some are not there")
	} else if want := append([]string{`r opened receiver session "A" missed 100`, "s opened sender missed 10", "s closed peer"},
		append(slices.Repeat(pair, 2), "r closed peer")...); !slices.Equal(got[n:], want) {
		t.Errorf("then\n%s\nwant\n%s", strings.Join(got[n:], "\n"), strings.Join(want, "\n"))
	}
	if b := h.loop.links.buckets[handEntity]; b.missed != 2 || len(h.loop.links.open) != 0 {
		t.Errorf("%d are not told, %d are open", b.missed, len(h.loop.links.open))
	}
}

// The buckets that bound how many links are recorded are dropped when there is nothing to bound.
func TestLinkBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	f := &h.loop.links
	for i := range 200 {
		f.take(h.now, event.Slice{Entity: event.EntityID(i)})
		h.now = h.now.Add(linkPause)
	}
	if n := len(f.buckets); n > 64 {
		t.Errorf("%d buckets are kept, of which one is not full", n)
	}
}

// The end of a link has the same number as its opening, also if the cache of numbers was emptied in
// between.
func TestLinkKeepsItsNumber(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	link, opened := sender("kept")
	h.turn(opened)
	text := strings.Repeat("x", 4096)
	for range 300 {
		h.turn(&engine.Send{Slice: handEntity, Messages: []engine.Message{{ID: []byte("x"), Body: []byte("x")}},
			Origin: &engine.Origin{RemoteAddress: text, ContainerID: text, Product: text, Principal: text, Entity: text}})
	}
	before := h.loop.part.Index().NextOrigin()
	h.turn(closes(link, event.LinkClosed{Cause: event.ClosedByPeer}))
	if now := h.loop.part.Index().NextOrigin(); now != before {
		t.Error("it was defined again")
	}
	h.noted("kept opened sender", "kept closed peer")
}

// An answer does not wait for the facts before it, and does not cause their frame to be written.
func TestNobodyWaitsForLinkFacts(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	_, opened := sender("s")
	first, second := h.receiver(6, event.Main), h.receiver(7, event.Main)
	first.Origin = &engine.Origin{Link: "r"}
	for i, cmd := range []engine.Command{opened, &engine.Attach{Receiver: first, Noted: true}, &engine.Attach{Receiver: second}, &engine.Detach{Receiver: first}} {
		h.loop.step(h.now, &engine.Request{Command: cmd, Sink: h, Tag: uint64(i)})
	}
	if n := h.loop.frames.writer.Batch().Count(); n != 3 || h.loop.frames.filling(h.loop.replies.pressing) {
		t.Errorf("%d facts; somebody waits for them: %v", n, h.loop.frames.filling(h.loop.replies.pressing))
	}
	h.loop.replies.committed(h.loop.frames.writer.Written(), h.loop.frames.writer.Durable())
	h.hears("0:done", "1:done", "2:done", "3:done")
	h.turn()
	h.noted("s opened sender", "r opened receiver", "r closed peer")
}

// A link of a deleted entity is not recorded, but the end of one is.
func TestLinkFactsOfADeletedEntity(t *testing.T) {
	t.Parallel()
	h := byHand(t, testQueue())
	link, opened := sender("before")
	h.turn(opened)
	h.ask(&engine.DeleteEntity{Path: "orders"})
	h.ask(&dropSliceCommand{slice: handEntity})
	_, late := sender("late")
	h.turn(late, closes(link, event.LinkClosed{Cause: event.ClosedByBroker, Condition: "amqp:not-found"}))
	h.noted("before opened sender", "before closed broker amqp:not-found")
}
