package index

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// fanOut is copies of a message for the two subscriptions: any number for each, plain, changed and
// dead-lettered ones.
func (w *walk) fanOut() (list []event.Copy) {
	for _, id := range []event.Slice{copies, grouped} {
		seq := w.x.NextSequence(id)
		for range w.rng.IntN(3) {
			c := event.Copy{Subscription: id.Entity, Sequence: seq, OwnTTL: w.rng.IntN(2) == 0}
			if seq++; w.rng.IntN(3) == 0 {
				c.ExpiresAt = w.now + event.Time(w.rng.IntN(5000))
			}
			switch w.rng.IntN(4) {
			case 0:
				c.Rule, c.Changes = "rule", w.blob()
			case 1:
				c.Cause, c.Reason, c.Changes = event.CauseFilter, "FilterException", w.blob()
			}
			if id == grouped && c.Cause == 0 {
				c.InSession, c.SessionID = true, w.session()
			}
			list = append(list, c)
		}
	}
	return list
}

func (w *walk) publish() {
	ev := &event.MessagePublished{Envelope: event.Envelope{Slice: news}, Sequence: w.x.NextSequence(news), EnqueuedAt: w.now,
		MessageID: fmt.Appendf(nil, "%d", w.rng.IntN(300)), Copies: w.fanOut()}
	if w.rng.IntN(2) == 0 {
		if original, twice := w.x.Duplicate(news, w.now, event.Identity{Type: ev.IDType, ID: ev.MessageID}); twice {
			w.apply(&event.DuplicateDropped{Envelope: ev.Envelope, MessageID: ev.MessageID, Original: original, Arrival: w.maybeArrival(news)})
			return
		}
		ev.DuplicateUntil = w.now.Add(time.Duration(1+w.rng.IntN(20)) * time.Second)
	}
	ev.Arrival = w.maybeArrival(news)
	if len(ev.Copies) > 0 {
		ev.Body = w.blob()
	}
	w.apply(ev)
}

func (w *walk) publishScheduled(seq event.SequenceNumber) {
	w.apply(&event.ScheduledPublished{Envelope: event.Envelope{Slice: news}, Sequence: seq, NewSequence: w.x.NextSequence(news),
		EnqueuedAt: w.now, Copies: w.fanOut()})
}

// keepsChanges is of how many messages a slice keeps property changes.
func (s *slice) keepsChanges() (n int) {
	leaf := (*node)(nil)
	s.rows.root.each(0, func(p place) bool {
		if p.leaf != leaf && p.leaf.extra != nil {
			n += len(p.leaf.extra.changes)
		}
		leaf = p.leaf
		return true
	})
	return n
}

// model has the same data about topics and the catalogue as an index, in the simplest form.
type model struct {
	// of the topic's scheduled messages: body, origin and arrival
	bodies   map[event.SequenceNumber]sentCopy
	sent     map[event.Slice]map[event.SequenceNumber]sentCopy
	belongs  map[event.Slice]bool // subscriptions whose slice belongs to the topic's
	entities []modelEntity        // by id
}

// sentCopy is the expected data of a copy as long as it exists, whatever happens to it.
type sentCopy struct {
	event.Copy
	origin     event.SequenceNumber
	enqueuedAt event.Time
	body       event.Blob
	brought    event.Blob // the changes that it came with
}

func newModel() model {
	m := model{belongs: map[event.Slice]bool{}, sent: map[event.Slice]map[event.SequenceNumber]sentCopy{},
		bodies: map[event.SequenceNumber]sentCopy{}}
	for _, id := range []event.Slice{copies, grouped} {
		m.sent[id] = map[event.SequenceNumber]sentCopy{}
	}
	return m
}

func (m *model) apply(at event.Time, ev event.Event) {
	switch ev := ev.(type) {
	case *event.MessageScheduled:
		if ev.Slice == news {
			m.bodies[ev.Sequence] = cameWith(ev.Arrival, 0, ev.Body)
		}
	case *event.MessagePublished:
		m.publish(ev.Copies, ev.EnqueuedAt, cameWith(ev.Arrival, ev.Sequence, ev.Body))
	case *event.ScheduledPublished:
		c := m.bodies[ev.Sequence]
		c.origin = cmp.Or(c.origin, ev.NewSequence)
		m.publish(ev.Copies, ev.EnqueuedAt, c)
	case *event.SliceDropped:
		if clear(m.sent[ev.Slice]); ev.Slice == news {
			clear(m.bodies)
			clear(m.belongs)
		}
		delete(m.belongs, ev.Slice)
	default:
		m.catalogue(at, ev)
	}
}

// cameWith is the common data of the copies of a message that was sent to the topic, under a
// number, or moved there.
func cameWith(a *event.Arrival, number event.SequenceNumber, body event.Blob) sentCopy {
	if a == nil {
		return sentCopy{origin: number, body: body}
	}
	return sentCopy{origin: a.First, body: body, brought: a.Changes}
}

func (m *model) publish(list []event.Copy, at event.Time, all sentCopy) {
	for _, c := range list {
		id := event.Slice{Entity: c.Subscription, Partition: news.Partition}
		m.belongs[id] = true
		m.sent[id][c.Sequence] = sentCopy{c, all.origin, at, all.body, all.brought}
	}
}

// compare looks at every message of the topic's slices, and at the whole catalogue.
func (m *model) compare(x *Index) error {
	total := stored(x, news)
	for id, sent := range m.sent {
		own := stored(x, id)
		if got := x.Bytes(id); got != own {
			return fmt.Errorf("slice %v has %d bytes, the index says %d", id, own, got)
		}
		if m.belongs[id] {
			total += own
		}
		changed := 0
		for msg := range everything(x, id) {
			if err := same(&msg, sent); err != nil {
				return fmt.Errorf("message %d of %v: %w", msg.Sequence, id, err)
			}
			if len(msg.Changes) > 0 {
				changed++
			}
		}
		if s := x.slices.byID[id]; s != nil && s.keepsChanges() != changed {
			return fmt.Errorf("slice %v has %d changed messages and keeps changes of %d", id, changed, s.keepsChanges())
		}
	}
	if got := x.Bytes(news); got != total {
		return fmt.Errorf("the topic has %d bytes, the index says %d", total, got)
	}
	return m.compareCatalogue(&x.Catalogue)
}

func same(msg *Message, sent map[event.SequenceNumber]sentCopy) error {
	c, ok := sent[msg.Sequence]
	switch {
	case !ok:
		return fmt.Errorf("was never sent")
	case msg.EnqueuedSequence != c.origin:
		return fmt.Errorf("it is %d in the topic, the index says %d", c.origin, msg.EnqueuedSequence)
	case !sameBlob(msg.Body, c.body):
		return fmt.Errorf("its body is %+v, the index says %+v", c.body, msg.Body)
	case msg.EnqueuedAt != c.enqueuedAt || msg.ExpiresAt != c.ExpiresAt || msg.OwnTTL != c.OwnTTL:
		return fmt.Errorf("enqueued at %v, expires at %v, own time %t; the index says %+v", c.enqueuedAt, c.ExpiresAt, c.OwnTTL, msg)
	case msg.InSession != c.InSession || msg.SessionID != string(c.SessionID):
		return fmt.Errorf("it is in session %q, the index says %t %q", c.SessionID, msg.InSession, msg.SessionID)
	case c.Cause != 0 && msg.SubQueue != event.DeadLetter:
		return fmt.Errorf("it was dead-lettered, the index has it in the %v queue", msg.SubQueue)
	}
	changes := msg.Changes
	for _, want := range []event.Blob{c.brought, c.Changes} {
		if want.Size == 0 {
			continue
		}
		if len(changes) == 0 || !sameBlob(changes[0], want) {
			return fmt.Errorf("it was changed by %+v, and before by %+v, the index says %+v", c.Changes, c.brought, msg.Changes)
		}
		changes = changes[1:]
	}
	return nil
}

func sameBlob(a, b event.Blob) bool {
	return a.Position == b.Position && a.Size == b.Size && a.Sum == b.Sum
}

// everything yields the messages of a slice in all sub-queues, and those in transfer.
func everything(x *Index, id event.Slice) func(func(Message) bool) {
	return func(yield func(Message) bool) {
		for q := range event.SubQueue(subQueues) {
			for msg := range x.Browse(id, q, 0) {
				if !yield(msg) {
					return
				}
			}
		}
		for _, t := range x.Transfers() {
			if msg, ok := x.Message(id, t.Sequence); t.Slice == id && ok && msg.SubQueue == event.Main && !yield(msg) {
				return
			}
		}
	}
}

// stored adds up the bytes of a slice.
func stored(x *Index, id event.Slice) (n int64) {
	for msg := range everything(x, id) {
		n += int64(msg.Body.Size)
		for _, b := range msg.Changes {
			n += int64(b.Size)
		}
	}
	for s := range x.Sessions(id) {
		n += int64(s.State.Size)
	}
	return n
}

// third is the number before the first one that entity partition 3 gives out.
const third event.SequenceNumber = 3 << 48

// What a topic keeps: numbers and the duplicate history, no message. All copies share one body.
func TestPublish(t *testing.T) {
	t.Parallel()
	x := New()
	body, changes := event.Blob{Position: 5000, Size: 100, Sum: 7}, event.Blob{Position: 5100, Size: 20, Sum: 8}
	x.Apply(1000, &event.MessagePublished{Envelope: event.Envelope{Slice: news}, Sequence: third + 1, MessageID: []byte("a"), EnqueuedAt: 1000,
		DuplicateUntil: 9000, Body: body, Copies: []event.Copy{
			{Subscription: copies.Entity, Sequence: third + 1},
			{Subscription: copies.Entity, Sequence: third + 2, Rule: "r", Changes: changes, OwnTTL: true, ExpiresAt: 3000},
			{Subscription: grouped.Entity, Sequence: third + 1, InSession: true, SessionID: []byte{}},
			{Subscription: grouped.Entity, Sequence: third + 2, Cause: event.CauseNoSession, Changes: changes},
		}})
	// no subscription matches it
	x.Apply(1001, &event.MessagePublished{Envelope: event.Envelope{Slice: news}, Sequence: third + 2, EnqueuedAt: 1001})
	y, err := Decode(x.Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Index{x, y} {
		if got := [...]int64{x.Bytes(news), x.Bytes(copies), x.Bytes(grouped), int64(x.Live())}; got != [...]int64{440, 220, 220, 4} {
			t.Errorf("bytes of topic and subscriptions, messages: %v", got)
		}
		if _, twice := x.Duplicate(news, 1002, event.Identity{Type: event.IDString, ID: []byte("a")}); !twice || x.NextSequence(news) != third+3 {
			t.Errorf("the topic remembers its id: %t; its next number is %d", twice, x.NextSequence(news))
		}
		if s, ok := x.NextSession(grouped); !ok || s.ID != "" || s.Active != 1 {
			t.Errorf("next session: %+v, %t", s, ok)
		}
		for _, want := range []struct {
			id  event.Slice
			msg Message
		}{
			{copies, Message{Sequence: third + 1}},
			{copies, Message{Sequence: third + 2, OwnTTL: true, ExpiresAt: 3000, Changes: []event.Blob{changes}}},
			{grouped, Message{Sequence: third + 1, InSession: true}},
			{grouped, Message{Sequence: third + 2, SubQueue: event.DeadLetter, Changes: []event.Blob{changes}}},
		} {
			m := want.msg
			m.State, m.EnqueuedAt, m.Body, m.EnqueuedSequence = Active, 1000, body, third+1
			if got, _ := x.Message(want.id, m.Sequence); fmt.Sprint(got) != fmt.Sprint(m) {
				t.Errorf("%v:\n%+v, want\n%+v", want.id, got, m)
			}
		}
	}
}

// A scheduled message of a topic counts as its own until it is published. Then its body, which is
// in an older frame, counts once for each copy (semantics.md 7.6, 16.3).
func TestPublishScheduled(t *testing.T) {
	t.Parallel()
	x := New()
	env, body := event.Envelope{Slice: news}, event.Blob{Position: 5000, Size: 100, Sum: 7}
	for seq := range event.SequenceNumber(2) {
		x.Apply(1000, &event.MessageScheduled{Envelope: env, Sequence: third + seq + 1, ScheduledFor: event.Time(2000 + seq), Body: body})
	}
	if x.Bytes(news) != 200 || x.Scheduled(news) != 2 {
		t.Errorf("%d bytes, %d scheduled", x.Bytes(news), x.Scheduled(news))
	}
	list := []event.Copy{{Subscription: copies.Entity, Sequence: third + 1}, {Subscription: copies.Entity, Sequence: third + 2}, {Subscription: grouped.Entity, Sequence: third + 1}}
	x.Apply(2000, &event.ScheduledPublished{Envelope: env, Sequence: third + 1, NewSequence: third + 3, EnqueuedAt: 2000, Copies: list})
	x.Apply(2001, &event.ScheduledPublished{Envelope: env, Sequence: third + 2, NewSequence: third + 4, EnqueuedAt: 2001})
	if x.Bytes(news) != 300 || x.Bytes(copies) != 200 || x.Scheduled(news) != 0 || x.Live() != 3 || x.NextDeadline() != 0 {
		t.Errorf("%d and %d bytes, %d scheduled, %d live", x.Bytes(news), x.Bytes(copies), x.Scheduled(news), x.Live())
	}
	if m, _ := x.Message(copies, third+2); m.EnqueuedSequence != third+3 || m.EnqueuedAt != 2000 || !m.WasScheduled || !sameBlob(m.Body, body) {
		t.Errorf("%+v; want m.EnqueuedSequence == third + 3 && m.EnqueuedAt == 2000 && m.WasScheduled && sameBlob(m.Body, body)", m)
	}
}

// A topic and its subscriptions are removed in any order, and one of them may exist again before
// the others are gone: bytes are those of the remaining ones (P14).
func TestForgetTopic(t *testing.T) {
	t.Parallel()
	all := []event.Slice{news, copies, grouped}
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, order := range orders {
		for _, decoded := range []bool{false, true} {
			x := New()
			w := newWalk(3, x)
			for range 20 {
				w.publish()
			}
			x.Apply(w.now, &event.SessionStateSet{Envelope: event.Envelope{Slice: grouped}, SessionID: []byte("s"), State: w.blob()})
			for _, i := range order {
				if decoded {
					y, err := Decode(x.Encode(nil))
					if err != nil {
						t.Fatal(order, err)
					}
					x, w.x = y, y
				}
				w.apply(&event.SliceDropped{Envelope: event.Envelope{Slice: all[i]}})
				if err := w.model.compare(x); err != nil || x.Has(all[i]) {
					t.Errorf("%v, decoded %t: %v", order, decoded, err)
				}
			}
			if x.Live() != 0 || len(x.slices.byID) != 0 || x.Bytes(news) != 0 {
				t.Errorf("%v: %d messages, %d slices left", order, x.Live(), len(x.slices.byID))
			}
			w.publish()
			w.publish()
			if err := w.model.compare(x); err != nil {
				t.Errorf("%v, again: %v", order, err)
			}
		}
	}
}

// A subscription that has something before its first message belongs to the topic with that from
// then on.
func TestBelongsWithWhatThereIs(t *testing.T) {
	t.Parallel()
	x := New()
	x.Apply(1, &event.SessionStateSet{Envelope: event.Envelope{Slice: grouped}, SessionID: []byte("s"), State: event.Blob{Position: 9, Size: 50}})
	x.Apply(2, &event.MessagePublished{Envelope: event.Envelope{Slice: news}, Sequence: third + 1, EnqueuedAt: 2, Body: event.Blob{Position: 100, Size: 7},
		Copies: []event.Copy{{Subscription: grouped.Entity, Sequence: third + 1, InSession: true, SessionID: []byte("s")}}})
	if got := x.Bytes(news); got != 57 {
		t.Errorf("%d bytes", got)
	}
	x.Apply(3, &event.SessionStateSet{Envelope: event.Envelope{Slice: grouped}, SessionID: []byte("s"), Cleared: true})
	x.Apply(3, &event.MessageReceivedAndDeleted{Envelope: event.Envelope{Slice: grouped}, Sequence: third + 1})
	if got := x.Bytes(news); got != 0 {
		t.Errorf("%d bytes of nothing", got)
	}
}

// sorted are rules by lower-cased name.
func sorted(rules []event.Rule) []event.Rule {
	return slices.SortedFunc(slices.Values(rules), func(a, b event.Rule) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
}
