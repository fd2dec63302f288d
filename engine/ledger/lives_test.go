package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// reused is a namespace of three logs in which paths are used twice. Its events are a second apart.
// Slices are dropped as late as a broker may: when the next entity already has the path.
type reused struct {
	*logdir.Dir
	t      *testing.T
	part   [3]log.Partition
	writer [3]log.Writer
	end    [3]event.LSN
	now    event.Time
}

// add makes something happen in a log, and returns its place.
func (r *reused) add(in int, events ...event.Event) Instant {
	r.now += 1000
	place := address.At(uint16(in), r.end[in])
	r.end[in] = r.Append(r.writer[in], r.now, events...)
	return Instant{Place: &place}
}

func (r *reused) create(id event.EntityID, kind event.EntityKind, path string, topic event.EntityID, hosts ...byte) Instant {
	return r.add(0, &event.EntityCreated{Envelope: of(id), EntityKind: kind, Path: path, Topic: topic, HashVersion: 1, Hosts: hosts, KeyHash: byte(min(1, len(hosts)/2)),
		Properties: event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}})
}

func (r *reused) delete(id event.EntityID, kind event.EntityKind, path string) Instant {
	return r.add(0, &event.EntityDeleted{Envelope: of(id), Reason: "client", EntityKind: kind, Path: path})
}

func (r *reused) send(in int, id event.EntityID, numbers ...event.SequenceNumber) (last Instant) {
	for _, n := range numbers {
		last = r.add(in, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: id, Partition: n.Partition()}}, Sequence: n, MessageID: []byte("m"), EnqueuedAt: r.now + 1000})
	}
	return last
}

func of(id event.EntityID) event.Envelope { return event.Envelope{Slice: event.Slice{Entity: id}} }

// at returns the instant of the newest event.
func (r *reused) at() Instant { return Instant{At: r.now} }

func newReused(t *testing.T) *reused {
	r := &reused{Dir: logdir.Open(t, t.TempDir(), log.Options{Partitions: 3, ChapterBytes: 20_000, SealAfter: -1}), t: t}
	t.Cleanup(r.Close)
	for i := range r.writer {
		r.part[i], r.writer[i] = r.Lead(log.PartitionID(i))
		_, r.end[i] = r.part[i].Bounds()
	}
	return r
}

// told returns the rows of an answer, with the named columns, and how it ended.
func (r *reused) told(columns string, question func(*Ledger) error) string {
	r.t.Helper()
	var rows []string
	err := question(New(r.Dir, func(l Line) error {
		if l.Part != Row {
			return nil
		}
		var row []string
		for _, c := range strings.Fields(columns) {
			row = append(row, valueOf(l.Fields, c))
		}
		rows = append(rows, strings.Join(row, " "))
		return nil
	}))
	if err != nil {
		rows = append(rows, err.Error())
	}
	return strings.Join(rows, ", ")
}

// text returns the lines of an answer.
func (r *reused) text(question func(*Ledger) error) string {
	var lines []string
	err := question(New(r.Dir, func(l Line) error { lines = append(lines, l.Text); return nil }))
	return fmt.Sprint(strings.Join(lines, "\n"), err)
}

func (r *reused) compare(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// renewed is a queue that was deleted with its messages, and created again in another log. Another
// one existed for a while.
type renewed struct {
	*reused
	third, dead, made, sent           Instant // places
	full, gone, between, again, later Instant // times
}

func newRenewed(t *testing.T) *renewed {
	r := &renewed{reused: newReused(t)}
	r.create(1, event.Queue, "a", 0, 1)
	r.create(2, event.Queue, "b", 0, 0)
	r.third = r.send(1, 1, 1, 2, 3)
	r.dead = r.add(1, &event.MessageDeadLettered{Envelope: of(1), Sequence: 2, Cause: event.CauseExpired})
	r.full = r.at()
	r.delete(1, event.Queue, "a")
	r.gone = r.at()
	r.send(0, 2, 1)
	r.between = r.at()
	r.made = r.create(3, event.Queue, "A", 0, 2)
	r.sent = r.send(2, 3, 1)
	r.again = r.at()
	r.add(1, &event.SliceDropped{Envelope: of(1)})
	r.create(4, event.Queue, "c", 0, 1)
	r.send(1, 4, 1, 2)
	r.delete(4, event.Queue, "c")
	r.later = r.at()
	return r
}

// TestPathUsedTwice asks about a path at instants: the answer is about the entity that had it then.
func TestPathUsedTwice(t *testing.T) {
	t.Parallel()
	r := newRenewed(t)
	at := func(i Instant, path string) string {
		return r.told("Entity Active DeadLetter", func(l *Ledger) error { return l.At(t.Context(), i, path, false) })
	}
	r.compare("at the first", at(r.full, "a"), "a 2 1")
	r.compare("at a place of the first", at(r.third, "a"), "a 3 0")
	r.compare("at the place where the second was made", at(r.made, "a"), "A 0 0")
	r.compare("at the second", at(r.again, "a"), "A 1 0")
	r.compare("at all of the first", at(r.full, ""), "a 2 1, b 0 0")
	r.compare("at all between", at(r.between, ""), "b 1 0")
	r.compare("at all of the second", at(r.again, ""), "A 1 0, b 1 0")
	r.compare("at between", at(r.between, "a"), fmt.Sprintf("nothing is known of A at %s: it was deleted at %s, and created again at %s", r.between, r.gone, r.between.At+1000))

	when := func(condition string, since *Instant) (found string) {
		if err := New(r.Dir, func(l Line) error {
			if l.Part == Answer {
				found = valueOf(l.Fields, "Found") + valueOf(l.Fields, "Place")
			}
			return nil
		}).When(t.Context(), condition, since); err != nil {
			t.Errorf("%s: %v", condition, err)
		}
		return found
	}
	r.compare("when of the first", when("a.active > 2", nil), "true"+r.third.String())
	r.compare("when of its dead letters", when("a/$dlq.messages > 0", nil), "true"+r.dead.String())
	r.compare("when since it was deleted", when("a.active > 1", &r.between), "false")
	r.compare("when since it was full", when("a.active > 1", &r.full), "true")
	r.compare("when since a place of it", when("a.active > 2", &r.third), "true")
	r.compare("never as many together", when("a.active > 3", nil), "false")
	r.compare("when the other one has one", when("a.active = 1 AND b.active = 1", nil), "true"+r.sent.String())
}

// TestDiffOfPathUsedTwice compares the entity that had a path with the one that has it.
func TestDiffOfPathUsedTwice(t *testing.T) {
	t.Parallel()
	r := newRenewed(t)
	ctx := t.Context()
	diff := func(from, to Instant, path string) string {
		return r.told("Entity Count Before After", func(l *Ledger) error { return l.Diff(ctx, from, to, path, false) })
	}
	r.compare("over both", diff(r.full, r.again, "a"), "A messages 3 1, A active 2 1, A dead 1 0")
	r.compare("up to between", diff(r.full, r.between, "a"), "A messages 3 0, A active 2 0, A dead 1 0")
	r.compare("from between", diff(r.between, r.again, "a"), "A messages 0 1, A active 0 1")
	r.compare("of all", diff(r.full, r.again, ""), "A messages 3 1, A active 2 1, A dead 1 0, b messages 0 1, b active 0 1")
	r.compare("of the sub-queue", diff(r.full, r.again, "a/$dlq"), "A/$dlq messages 1 0")
	r.compare("each message of both", r.told("Message Change", func(l *Ledger) error { return l.Diff(ctx, r.full, r.again, "a", true) }),
		"A#1 arrived, a#1 gone, a#3 gone, a#2 gone")
	text := r.text(func(l *Ledger) error { return l.Diff(ctx, r.full, r.again, "a", false) })
	for _, want := range []string{"act: ", "deleted    a", "created    A", "A between: 1 arrived"} {
		if !strings.Contains(text, want) {
			t.Errorf("diff has no %q:\n%s", want, text)
		}
	}
	if text := r.text(func(l *Ledger) error { return l.Diff(ctx, r.again, r.later, "", false) }); !strings.Contains(text, "c between: 2 arrived") {
		t.Errorf("diff has nothing of an entity that was there in between:\n%s", text)
	}
}

// TestEventsOfPathUsedTwice asks about the events and messages of each entity that had a path.
func TestEventsOfPathUsedTwice(t *testing.T) {
	t.Parallel()
	r := newRenewed(t)
	ctx := t.Context()
	events := func(q Range) string {
		return r.told("Type Entity", func(l *Ledger) error { return l.Events(ctx, q) })
	}
	first, second := "created a, sent a, sent a, sent a, dead a, deleted a", "created A, sent A"
	r.compare("events", events(Range{Entity: "a"}), first+", "+second+", dropped a")
	r.compare("events until", events(Range{Entity: "A", Until: &r.between}), first)
	r.compare("events since", events(Range{Entity: "a", Since: &r.between, Until: &r.again}), second)
	r.compare("events of the sub-queue", events(Range{Entity: "a/$dlq"}), "dead a, dropped a")
	r.compare("events of a number", events(Range{Entity: "a", Number: 1}), "sent a, sent A")
	r.compare("events of an id", events(Range{Entity: "a", MessageID: "m"}), "sent a, sent a, sent a, dead a, sent A")
	r.compare("audit", r.told("Type Entity", func(l *Ledger) error { return l.Audit(ctx, Range{Entity: "a"}) }), "created a, deleted a, created A")

	story := func(number event.SequenceNumber) string {
		return r.told("Message Type", func(l *Ledger) error { return l.Story(ctx, address.Of("A", number), "") })
	}
	r.compare("story of one of both", story(1), "a#1 sent, A#1 sent")
	r.compare("story of one of the first", story(2), "a#2 sent, a#2 dead")
	r.compare("story of none", story(9), "nothing is known of A#9")
	text := r.text(func(l *Ledger) error { return l.Story(ctx, address.Of("a", event.SequenceNumber(1)), "") })
	if want := "about the a created at "; !strings.HasPrefix(text, want) || !strings.Contains(text, "\nabout the A created at ") {
		t.Errorf("a story does not say whose it is:\n%s", text)
	}
}

// TestDebuggerOfPathUsedTwice prints and breaks on the entities that exist at an event.
func TestDebuggerOfPathUsedTwice(t *testing.T) {
	t.Parallel()
	r := newReused(t)
	r.create(1, event.Queue, "a", 0, 1)
	r.send(1, 1, 1, 2, 3)
	r.delete(1, event.Queue, "a")
	r.create(2, event.Queue, "a", 0, 2)
	r.send(2, 2, 1, 2)
	r.add(1, &event.SliceDropped{Envelope: of(1)})
	var told []string
	d, err := NewDebugger(t.Context(), New(r.Dir, func(l Line) error {
		if c := valueOf(l.Fields, "Active"); c != "" {
			told = append(told, valueOf(l.Fields, "Entity")+" "+c)
		} else if m := valueOf(l.Fields, "SequenceNumber"); m != "" {
			told = append(told, m)
		} else if valueOf(l.Fields, "Event") != "" {
			told = append(told, valueOf(l.Fields, "Type"))
		}
		return nil
	}), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct{ command, want string }{
		{"print", ""}, {"break when a.active > 2", ""}, {"continue", "sent"}, {"print", "a 3"}, {"print a", "a 3 1 2 3"}, {"print a#3", "3"},
		{"next", "deleted"}, {"print", ""}, {"delete 1", ""}, {"break when a.active = 2", ""}, {"continue", "sent"}, {"print a", "a 2 1 2"},
		{"continue", "dropped"}, {"reverse", "sent"}, {"reverse", "sent"}, {"print a", "a 2 1 2"},
	} {
		told = nil
		if err := d.Do(t.Context(), c.command); err != nil || strings.Join(told, " ") != c.want {
			t.Fatalf("%s: %q, %v, want %q", c.command, told, err, c.want)
		}
	}
	for _, command := range []string{"go begin", "print a"} {
		err = d.Do(t.Context(), command)
	}
	if !errors.Is(err, ErrNothing) {
		t.Errorf("print of what is not there yet: %v", err)
	}
}

// TestPathsOfOtherKindsUsedTwice asks about subscriptions, topics, a partitioned queue, and a path
// that is a queue first and then a topic.
func TestPathsOfOtherKindsUsedTwice(t *testing.T) {
	t.Parallel()
	r := newReused(t)
	ctx := t.Context()
	rain := "t/Subscriptions/rain"
	publish := func(topic, subscription event.EntityID, n event.SequenceNumber) {
		r.add(1, &event.MessagePublished{Envelope: of(topic), Sequence: n, MessageID: []byte("m"), EnqueuedAt: r.now + 1000, Copies: []event.Copy{{Subscription: subscription, Sequence: n}}})
	}
	r.create(1, event.Topic, "t", 0, 1)
	r.create(2, event.Subscription, rain, 1)
	r.create(3, event.Queue, "p", 0, 0, 1, 2)
	publish(1, 2, 1)
	publish(1, 2, 2)
	second := event.SequenceNumber(1)<<48 | 1
	r.send(0, 3, 1)
	r.send(1, 3, second)
	full := r.at()
	r.delete(2, event.Subscription, rain)
	r.create(4, event.Subscription, rain, 1) // of the same topic
	publish(1, 4, 3)
	r.delete(4, event.Subscription, rain)
	r.delete(1, event.Topic, "t")
	r.delete(3, event.Queue, "p")
	r.create(5, event.Topic, "t", 0, 1)
	r.create(6, event.Subscription, rain, 5)
	publish(5, 6, 1)
	r.create(7, event.Topic, "p", 0, 2)
	end := r.at()
	for _, c := range []struct {
		what, columns, want string
		question            func(*Ledger) error
	}{
		{"a subscription", "Type Entity", "created " + rain + ", published t, published t, deleted " + rain + ", created " + rain + ", published t, deleted " + rain + ", created " + rain + ", published t",
			func(l *Ledger) error { return l.Events(ctx, Range{Entity: rain}) }},
		{"a topic", "Type Entity", "created t, created " + rain + ", deleted " + rain + ", created " + rain + ", deleted " + rain + ", deleted t, created t, created " + rain,
			func(l *Ledger) error { return l.Audit(ctx, Range{Entity: "T"}) }},
		{"a subscription between", "Entity Count Before After", rain + " messages 2 1, " + rain + " active 2 1",
			func(l *Ledger) error { return l.Diff(ctx, full, end, rain, false) }},
		{"a partitioned queue", "Type Entity Number", fmt.Sprintf("created p , sent p 1, sent p %d, deleted p , created p ", second), func(l *Ledger) error { return l.Events(ctx, Range{Entity: "p"}) }},
		{"a partitioned queue between", "Entity Count Before After", "p messages 2 0, p active 2 0", func(l *Ledger) error { return l.Diff(ctx, full, end, "p", false) }},
		{"dead letters of what is a topic by now", "Type", "", func(l *Ledger) error { return l.Events(ctx, Range{Entity: "p/$dlq"}) }},
		{"dead letters of what was a queue", "Entity Messages", "p/$dlq 0", func(l *Ledger) error { return l.At(ctx, full, "p/$dlq", false) }},
	} {
		r.compare(c.what, r.told(c.columns, c.question), c.want)
	}
	for condition, want := range map[string]string{rain + ".active > 1": "first at ", rain + ".active > 2": "never: ", "p.active > 1": "first at ", "p.active > 2": "never: "} {
		if text := r.text(func(l *Ledger) error { return l.When(ctx, condition, nil) }); !strings.HasPrefix(text, want) {
			t.Errorf("%s: %s, want %s", condition, text, want)
		}
	}
	if err := New(r.Dir, func(Line) error { return nil }).At(ctx, end, "p/$dlq", false); !errors.Is(err, ErrQuestion) {
		t.Errorf("dead letters of a topic: %v", err)
	}
}

// TestPathUsedTwiceAtOnce sends to a queue, deletes it and creates it again in one millisecond,
// partly in one frame.
func TestPathUsedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	r := newReused(t)
	r.create(1, event.Queue, "a", 0, 0)
	r.send(0, 1, 1, 2)
	r.now += 1000
	r.end[0] = r.Append(r.writer[0], r.now,
		&event.MessageEnqueued{Envelope: of(1), Sequence: 3, MessageID: []byte("m"), EnqueuedAt: r.now},
		&event.EntityDeleted{Envelope: of(1), Reason: "client", EntityKind: event.Queue, Path: "a"})
	r.now -= 1000
	place := r.create(2, event.Queue, "a", 0, 0)
	r.now -= 1000
	last := r.send(0, 2, 1)
	if text := r.text(func(l *Ledger) error { return l.When(t.Context(), "a.active > 2", nil) }); !strings.HasPrefix(text, "first at ") {
		t.Errorf("when: %s", text)
	}
	for i, want := range map[Instant]string{place: "0", last: "1", r.at(): "1"} {
		r.compare(i.String(), r.told("Active", func(l *Ledger) error { return l.At(t.Context(), i, "a", false) }), want)
	}
}

// TestPathUsedBeforeHistory asks about a path whose first entity the catalogue's history no longer
// knows: no answer about it claims to cover all of them.
func TestPathUsedBeforeHistory(t *testing.T) {
	t.Parallel()
	r := newReused(t)
	r.create(1, event.Queue, "a", 0, 1)
	r.create(2, event.Queue, "b", 0, 0)
	r.send(1, 1, 1, 2, 3)
	full := r.at()
	r.delete(1, event.Queue, "a")
	for n := range event.SequenceNumber(100) {
		r.add(0, &event.MessageEnqueued{Envelope: of(2), Sequence: n + 1, MessageID: []byte("m"), EnqueuedAt: r.now + 1000, Body: event.Blob{Data: make([]byte, 1000)}})
		r.add(0, &event.MessageReceivedAndDeleted{Envelope: of(2), Sequence: n + 1})
	}
	r.create(3, event.Queue, "a", 0, 2)
	s := replay.Begin(r.part[0])
	err := s.Run(t.Context(), replay.Watch{})
	r.Save(r.part[0], s.At(), s.Index.Encode(nil))
	for more := true; more && err == nil; {
		more, err = r.part[0].(log.Sealer).Seal(t.Context())
	}
	if err == nil {
		_, err = replay.Cut(t.Context(), r.part[0], r.end[0], true)
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, question := range map[string]func(*Ledger) error{
		"when":   func(l *Ledger) error { return l.When(t.Context(), "a.active > 2", nil) },
		"events": func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: "a/$dlq"}) },
		"diff":   func(l *Ledger) error { return l.Diff(t.Context(), r.at(), r.at(), "a", false) },
	} {
		if text := r.text(question); !strings.Contains(text, "history of partition 0 begins at ") {
			t.Errorf("%s does not say where the history of entities begins:\n%s", what, text)
		}
	}
	if text := r.text(func(l *Ledger) error { return l.At(t.Context(), full, "a", false) }); !strings.Contains(text, "; entities deleted before ") {
		t.Errorf("at: %s", text)
	}
}
