package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// cutDir is a namespace with the queues orders, in log 0, and bills, in log 1, whose history is
// removed.
type cutDir struct {
	*logdir.Dir
	t    *testing.T
	part [2]log.Partition
	w    [2]log.Writer
	now  event.Time
}

func newCutDir(t *testing.T) *cutDir {
	t.Helper()
	d := &cutDir{Dir: logdir.Open(t, t.TempDir(), log.Options{Partitions: 2, SegmentBytes: 2000, ChapterBytes: 4000, SealAfter: -1}), t: t, now: 1000}
	for i := range d.w {
		d.part[i], d.w[i] = d.Lead(log.PartitionID(i))
	}
	for i, path := range []string{"orders", "bills"} {
		d.do(0, &event.EntityCreated{Envelope: queue(i), EntityKind: event.Queue, Path: path, HashVersion: 1, Hosts: []byte{byte(i)},
			Properties: event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 10, MaxSizeMegabytes: 1}})
	}
	return d
}

func queue(i int) event.Envelope {
	return event.Envelope{Slice: event.Slice{Entity: event.EntityID(i + 1)}}
}

// do appends events of one record, a second after the previous ones.
func (d *cutDir) do(in int, events ...event.Event) {
	d.now += 1000
	d.Append(d.w[in], d.now, events...)
}

// cut removes everything from a log except events of one time, if some are named, and returns from
// when on there is history.
func (d *cutDir) cut(in int, stay ...event.Event) event.Time {
	d.t.Helper()
	first, _ := d.part[in].Bounds()
	for i := range event.SequenceNumber(40) { // so that the earlier events are in another chapter
		filler := event.Envelope{Slice: event.Slice{Entity: 99}}
		d.do(in, &event.MessageEnqueued{Envelope: filler, Sequence: i + 1, EnqueuedAt: d.now, Body: event.Blob{Data: bytes.Repeat([]byte("."), 200)}},
			&event.MessageReceivedAndDeleted{Envelope: filler, Sequence: i + 1})
	}
	d.do(in, &event.SliceDropped{Envelope: event.Envelope{Slice: event.Slice{Entity: 99}}})
	for _, ev := range stay {
		d.Append(d.w[in], d.now, ev)
	}
	s := replay.Begin(d.part[in])
	if err := s.Run(d.t.Context(), replay.Watch{}); err != nil {
		d.t.Fatal(err)
	}
	_, end := d.part[in].Bounds()
	d.Save(d.part[in], end, s.Index.Encode(nil))
	for more := true; more; {
		var err error
		if more, err = d.part[in].(log.Sealer).Seal(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	if _, err := replay.Cut(d.t.Context(), d.part[in], end, true); err != nil {
		d.t.Fatal(err)
	}
	if now, _ := d.part[in].Bounds(); now <= first {
		d.t.Fatalf("log %d begins at %d still", in, now)
	}
	return d.now
}

// message is a message of orders: each of its functions makes one record.
type message struct {
	d     *cutDir
	n     event.SequenceNumber
	fails uint32
	token event.LockToken
}

func (m *message) send() {
	m.d.do(0, &event.MessageEnqueued{Envelope: queue(0), Sequence: m.n, MessageID: fmt.Appendf(nil, "m%d", m.n), EnqueuedAt: m.d.now + 1000, DuplicateUntil: event.EndOfTime - 1})
}

func (m *message) lock() {
	m.token = event.LockToken{byte(m.n), byte(m.fails), byte(m.d.now / 1000), byte(m.d.now / 256_000)}
	m.d.do(0, &event.MessageLocked{Envelope: queue(0), Sequence: m.n, Token: m.token, LockedUntil: m.d.now + 31_000, DeliveryCount: m.fails})
}

func (m *message) release() {
	m.d.do(0, &event.MessageReleased{Envelope: queue(0), Sequence: m.n, Token: m.token})
}

func (m *message) abandon(and ...event.Event) {
	m.fails++
	m.d.do(0, append([]event.Event{&event.MessageAbandoned{Envelope: queue(0), Sequence: m.n, Token: m.token, DeliveryCount: m.fails}}, and...)...)
}

func (m *message) lose(and ...event.Event) {
	m.fails++
	m.d.do(0, append([]event.Event{&event.LockExpired{Envelope: queue(0), Sequence: m.n, Token: m.token, DeliveryCount: m.fails}}, and...)...)
}

func (m *message) tooOften() event.Event {
	return &event.MessageDeadLettered{Envelope: queue(0), Sequence: m.n, Cause: event.CauseMaxDelivery, Reason: "MaxDeliveryCountExceeded"}
}

func (m *message) die() {
	m.d.do(0, &event.MessageDeadLettered{Envelope: queue(0), Sequence: m.n, Cause: event.CauseExpired, Reason: "TTLExpiredException"})
}

func (m *message) expire() {
	m.d.do(0, &event.MessageExpired{Envelope: queue(0), Sequence: m.n})
}

func (m *message) complete() {
	m.d.do(0, &event.MessageCompleted{Envelope: queue(0), Sequence: m.n, Token: m.token})
}

// answer returns the text of the answer to a question.
func (d *cutDir) answer(question func(*Ledger) error) (string, error) {
	var text strings.Builder
	err := question(New(d, func(l Line) error {
		fmt.Fprintln(&text, l.Text)
		return nil
	}))
	return text.String(), err
}

func (d *cutDir) story(of, id string) (string, error) {
	a, err := address.Parse(of)
	if err != nil && of != "" {
		d.t.Fatal(err)
	}
	return d.answer(func(l *Ledger) error { return l.Story(d.t.Context(), a, id) })
}

// removedStories are messages of which some events were removed.
var removedStories = []struct {
	name          string
	before, after func(*message)
	want, never   []string // in the story; SINCE: when history begins
	gone          bool     // nothing is known
}{
	{"given back three times, then once more", func(m *message) {
		m.send()
		for range 3 {
			m.lock()
			m.abandon()
		}
	}, func(m *message) { m.lock(); m.abandon(m.tooOften()) },
		[]string{"· DEAD-LETTERED, at least 4 attempts\n", "known       main active, 3 failed attempts", "4 attempts failed: 1 returned, 0 with a lost lock; history does not show how 3 before SINCE ended\n",
			"history no longer has all its events\n", "history of partition 0 begins at SINCE, "}, []string{"1 attempt failed"}, false},
	{"a lock that began before, and another", func(m *message) { m.send(); m.lock() }, func(m *message) { m.lose(); m.lock(); m.lose(m.tooOften()) },
		[]string{"at least 2 attempts\n", "2 attempts failed: 0 returned, 2 with a lost lock\n"}, []string{"renewed"}, false},
	{"received before, then expired", func(m *message) { m.send(); m.lock(); m.release() }, (*message).die,
		[]string{"· DEAD-LETTERED\n", "its time to live ended: it has not been received since SINCE; whether it was received before that is unknown\n"}, []string{"before it was received"}, false},
	{"received before, then expired and not kept", func(m *message) { m.send(); m.lock(); m.release() }, (*message).expire,
		[]string{"· EXPIRED\n", "it has not been received since SINCE; whether it was received before that is unknown, and expired messages"}, []string{"before it was received"}, false},
	{"failed before, then expired", func(m *message) { m.send(); m.lock(); m.abandon() }, (*message).expire, []string{"EXPIRED, at least 1 attempt\n"}, []string{"it has not been received"}, false},
	{"sent behind, then expired", nil, func(m *message) { m.send(); m.die() }, []string{"its time to live ended before it was received\n"}, []string{"SINCE", "known"}, false},
	{"waits", (*message).send, nil, []string{"· enqueued at ", "· WAITING\n", "it is waiting: it has not been received since SINCE; whether it was received before that is unknown: it is unknown whether orders has a receiver"},
		[]string{"sentence: it has not"}, false},
	{"waits, failed twice", func(m *message) { m.send(); m.lock(); m.abandon(); m.lock(); m.lose() }, nil,
		[]string{"WAITING, at least 2 attempts\n", "it is waiting, after at least 2 attempts\n"}, []string{"it has not been received"}, false},
	{"waits, sent behind", nil, (*message).send, []string{"WAITING\n", "sentence: it has not been received: "}, []string{"known      orders"}, false},
	{"is locked", func(m *message) { m.send(); m.lock() }, nil, []string{"LOCKED, at least 1 attempt\n"}, nil, false},
	{"locked before, completed behind", func(m *message) { m.send(); m.lock() }, (*message).complete, []string{"COMPLETED, at least 1 attempt\n", "of these events, with at least 1 attempt\n"}, []string{"it waited"}, false},
	{"failed before, completed behind", func(m *message) { m.send(); m.lock(); m.abandon() }, func(m *message) { m.lock(); m.complete() },
		[]string{"with at least 2 attempts: the work of the last receiver took 1.0 s\n"}, []string{"it waited"}, false},
	{"is dead", func(m *message) { m.send(); m.lock(); m.abandon(m.tooOften()) }, nil,
		[]string{"DEAD-LETTERED, at least 1 attempt\n", "it was dead-lettered before SINCE; history does not show why, but its properties may\n", "next: ledgerbus peek 'orders/$dlq#"}, nil, false},
	{"waits, released twice", nil, func(m *message) { m.send(); m.lock(); m.release(); m.lock(); m.release() },
		[]string{"· WAITING\n", "it is waiting: it was delivered and released 2 times"}, []string{"attempts", "it has not been received"}, false},
	{"released, then expired", nil, func(m *message) { m.send(); m.lock(); m.release(); m.die() },
		[]string{"· DEAD-LETTERED\n", "its time to live ended: it was delivered and released 1 time\n"}, []string{"before it was received"}, false},
	{"released, then completed", nil, func(m *message) { m.send(); m.lock(); m.release(); m.lock(); m.complete() },
		[]string{"· COMPLETED, 1 attempt\n", "with 1 attempt: it waited 1.0 s for a receiver"}, nil, false},
	{"locked before, released behind", func(m *message) { m.send(); m.lock() }, (*message).release,
		[]string{"· WAITING\n", "it was delivered and released at least 1 time"}, []string{"1 attempt"}, false},
	{"is deferred", func(m *message) {
		m.send()
		m.lock()
		m.d.do(0, &event.MessageDeferred{Envelope: queue(0), Sequence: m.n, Token: m.token, DeliveryCount: 1})
	}, nil, []string{"DEFERRED, at least 1 attempt\n"}, nil, false},
	{"is scheduled", func(m *message) {
		m.d.do(0, &event.MessageScheduled{Envelope: queue(0), Sequence: m.n, MessageID: []byte("s"), ScheduledFor: event.EndOfTime - 1})
	}, nil, []string{"SCHEDULED\n"}, nil, false},
	{"waits in a session", func(m *message) {
		m.d.do(0, &event.MessageEnqueued{Envelope: queue(0), Sequence: m.n, EnqueuedAt: m.d.now, HasSession: true, InSession: true, SessionID: []byte("cart-7")})
	}, nil, []string{"it is in session cart-7, which no receiver has accepted since SINCE"}, []string{"accepted;"}, false},
	{"waits in a session that is held", func(m *message) {
		m.d.do(0, &event.MessageEnqueued{Envelope: queue(0), Sequence: m.n, EnqueuedAt: m.d.now, HasSession: true, InSession: true, SessionID: []byte("cart-8")})
		m.d.do(0, &event.SessionAccepted{Envelope: queue(0), SessionID: []byte("cart-8"), Token: event.LockToken{88}, LockedUntil: event.EndOfTime - 1})
	}, nil, []string{"it is in session cart-8, which a receiver has held since before SINCE"}, nil, false},
	{"was completed", func(m *message) { m.send(); m.lock(); m.complete() }, nil, []string{"history begins at SINCE, and it did not exist then"}, nil, true},
	{"was completed, and its id came again", func(m *message) { m.send(); m.lock(); m.complete() }, func(m *message) {
		m.d.do(0, &event.DuplicateDropped{Envelope: queue(0), MessageID: []byte("again"), Original: m.n})
	}, []string{"· sent before history begins · ENDED BEFORE HISTORY BEGINS\n", "1 later message with its id was dropped as a duplicate\n"}, []string{"DROPPED AS"}, false},
}

// If history was removed, a story tells what is known from the remaining state, from when on it is
// complete, and nothing else.
func TestStoryWhenHistoryWasRemoved(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	list := make([]message, len(removedStories))
	for i, c := range removedStories {
		list[i] = message{d: d, n: event.SequenceNumber(i + 1)}
		if c.before != nil {
			c.before(&list[i])
		} else { // no message takes its number, as that of a transaction that was rolled back
			d.do(0, &event.NumbersReserved{Envelope: queue(0), First: list[i].n, Count: 1})
		}
	}
	since := d.cut(0).String()
	next := event.SequenceNumber(len(removedStories))
	for i, c := range removedStories {
		if c.before == nil {
			next++
			list[i].n = next
		}
		if c.after != nil {
			c.after(&list[i])
		}
	}
	for i, c := range removedStories {
		got, err := d.story(fmt.Sprintf("orders#%d", list[i].n), "")
		if c.gone != errors.Is(err, ErrNothing) || !c.gone && err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.gone {
			got += err.Error()
		}
		says(t, c.name, got, since, c.want, c.never)
	}
	if _, err := d.story("", "m1"); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "history begins at "+since+", and message ids from before that are unknown") {
		t.Errorf("by id: %v", err)
	}
}

// says compares an answer with the texts that it must and must not have, for a history that begins
// at SINCE.
func says(t *testing.T, name, got, since string, want, never []string) {
	t.Helper()
	for _, w := range want {
		if w = strings.ReplaceAll(w, "SINCE", since); !strings.Contains(got, w) {
			t.Errorf("%s:\n%s\nwants %s", name, got, w)
		}
	}
	for _, n := range never {
		if n = strings.ReplaceAll(n, "SINCE", since); strings.Contains(got, n) {
			t.Errorf("%s:\n%s\nhas %s", name, got, n)
		}
	}
}

// Why separates attempts from before history begins from later ones, and dead letters whose death
// it does not have from others.
func TestWhyWhenHistoryWasRemoved(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	list := make([]message, 8)
	for i := range list {
		list[i] = message{d: d, n: event.SequenceNumber(i + 1)}
		if i < 6 {
			list[i].send()
		}
	}
	back, held, asked, asked2, dead := &list[0], &list[1], &list[2], &list[3], &list[4]
	for range 3 {
		back.lock()
		back.abandon()
	}
	held.lock()
	asked.lock()
	asked.release()
	dead.lock()
	dead.abandon(dead.tooOften())
	since := d.cut(0).String()
	back.lock()
	back.abandon(back.tooOften())
	held.lose(held.tooOften())
	asked.die()
	asked2.die()
	list[6].send()
	list[6].die()
	first := d.now - 5000 // of back
	why := func(of string) string {
		t.Helper()
		a, err := address.Parse(of)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.answer(func(l *Ledger) error { return l.Why(t.Context(), a) })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := why("orders/$dlq")
	for _, want := range []string{
		"orders/$dlq: 6 dead letters since before " + since + ", 3 causes\n",
		"2  max-delivery: MaxDeliveryCountExceeded  " + first.String() + " – ",
		"  1 lock lost, returned 1 time; 3 attempts had failed before " + since,
		"3  expired: TTLExpiredException  ", "  1 of them never received; it is unknown whether 2 of them were received before " + since + "  such as",
		"1  unknown  before " + since + "  history does not show why, but their properties may; 1 attempt had failed before " + since + "  such as orders#5\n",
		"next: ledgerbus at " + since,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwants %s", got, want)
		}
	}
}

// A message that moved between logs, one of which has lost its history, is followed as far as
// possible, and the answer tells where that ends.
func TestMovesWhenHistoryWasRemoved(t *testing.T) {
	t.Parallel()
	start := func(d *cutDir, n event.SequenceNumber) {
		d.do(0, &event.TransferStarted{Envelope: queue(0), Destination: 2, Trigger: event.TriggerForward, First: event.TransferNumber(n), Sequences: []event.SequenceNumber{n}})
	}
	arrive := func(d *cutDir, n event.SequenceNumber) {
		d.do(1, &event.MessageEnqueued{Envelope: queue(1), Sequence: n, MessageID: fmt.Appendf(nil, "m%d", n), EnqueuedAt: d.now,
			Arrival: &event.Arrival{Source: event.Slice{Entity: 1}, Number: event.TransferNumber(n), Hops: 1, First: n}})
	}
	finish := func(d *cutDir, n event.SequenceNumber) {
		d.do(0, &event.TransfersFinished{Envelope: queue(0), Numbers: []event.TransferNumber{event.TransferNumber(n)}})
	}
	complete := func(d *cutDir, n event.SequenceNumber) {
		d.do(1, &event.MessageLocked{Envelope: queue(1), Sequence: n, Token: event.LockToken{byte(n)}, LockedUntil: d.now + 30_000}, &event.MessageCompleted{Envelope: queue(1), Sequence: n, Token: event.LockToken{byte(n)}})
	}
	t.Run("where it went", func(t *testing.T) {
		t.Parallel()
		d := newCutDir(t)
		m := message{d: d, n: 1}
		m.send()
		start(d, 1)
		arrive(d, 1)
		complete(d, 1)
		since := d.cut(1)
		for _, state := range []string{"MOVED", "MOVED"} { // at first the source does not know it
			got, err := d.story("orders#1", "")
			if want := fmt.Sprintf("it arrived in bills before %s; history does not show what happened to it there\n", since); err != nil || !strings.Contains(got, "· "+state) || !strings.Contains(got, want) {
				t.Errorf("%v\n%s\nwants %s", err, got, want)
			}
			finish(d, 1)
		}
	})
	t.Run("where it came from", func(t *testing.T) {
		t.Parallel()
		d := newCutDir(t)
		m := message{d: d, n: 1}
		m.send()
		start(d, 1)
		arrive(d, 1)
		finish(d, 1)
		d.cut(0)
		complete(d, 1)
		got, err := d.story("bills#1", "")
		if err != nil || !strings.Contains(got, "it came from orders, whose history no longer has it\n") || !strings.Contains(got, "COMPLETED, at least 1 attempt\n") {
			t.Errorf("%v\n%s", err, got)
		}
	})
	t.Run("on its way", func(t *testing.T) {
		t.Parallel()
		d := newCutDir(t)
		m := message{d: d, n: 1}
		m.send()
		start(d, 1)
		d.cut(0)
		for _, c := range []struct {
			happens func(*cutDir, event.SequenceNumber)
			state   string
		}{{arrive, "WAITING as bills#1"}, {finish, "WAITING as bills#1"}, {complete, "COMPLETED as bills#1"}} {
			c.happens(d, 1)
			for _, of := range []string{"orders#1", "bills#1"} {
				if got, err := d.story(of, ""); err != nil || !strings.Contains(got, strings.Split(c.state, " ")[0]) || of == "orders#1" && !strings.Contains(got, c.state) || !strings.Contains(got, "  known  ") {
					t.Errorf("%s: %v\n%s\nwants %s", of, err, got, c.state)
				}
			}
		}
	})
}

// A condition that held when history begins, one that never held since, and one that first held
// after that are told apart; of several logs the one whose history begins last decides.
func TestWhenHistoryWasRemoved(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	m := message{d: d, n: 1}
	m.send()
	d.cut(0)
	m.lock()
	m.complete()
	m = message{d: d, n: 2}
	m.send()
	d.do(1, &event.MessageEnqueued{Envelope: queue(1), Sequence: 1, MessageID: []byte("b"), EnqueuedAt: d.now})
	d.do(1, &event.MessageReceivedAndDeleted{Envelope: queue(1), Sequence: 1})
	both := d.cut(1)
	m.lock()
	own, _, _ := horizon(d.bookOf(0))
	for condition, want := range map[string]string{
		"orders.active > 0": fmt.Sprintf("already true when history begins, at %s: orders.active > 0\n", own.at),
		"orders.dead > 0":   fmt.Sprintf("never since %s: orders.dead > 0\n", own.at),
		"orders.active = 0": fmt.Sprintf("; history begins at %s\n", own.at),
		// and not when the first message was received
		"orders.locked > 0 AND bills.messages = 0": fmt.Sprintf("first at %s, @0/", d.now),
		"bills.messages > 0":                       fmt.Sprintf("never since %s: ", both),
	} {
		got, err := d.answer(func(l *Ledger) error { return l.When(t.Context(), condition, nil) })
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v\n%s\nwants %s", condition, err, got, want)
		}
	}
	if got, err := d.answer(func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: "orders", Types: []string{"dead"}}) }); err != nil || !strings.HasSuffix(got, fmt.Sprintf("no matching events since %s\n", own.at)) {
		t.Errorf("%v\n%s", err, got)
	}
}

// bookOf opens a log as a question does.
func (d *cutDir) bookOf(id log.PartitionID) *book {
	d.t.Helper()
	b, err := New(d, func(Line) error { return nil }).book(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// cutHalf removes the sealed files from before the half of a random history, and returns from how
// many logs it removed some.
func cutHalf(t *testing.T, seed uint64) (m *model, cut int) {
	t.Helper()
	var bases [2]event.LSN
	m = newModelWith(t, seed, func(m *model) {
		for i, p := range m.part {
			s := replay.Begin(p)
			if err := s.Run(t.Context(), replay.Watch{}); err != nil {
				t.Fatal(err)
			}
			_, bases[i] = p.Bounds()
			m.dir.Save(p, bases[i], s.Index.Encode(nil))
		}
	})
	for i, p := range m.part {
		if _, err := replay.Cut(t.Context(), p, bases[i], true); err != nil && !errors.Is(err, log.ErrTooLittle) {
			t.Fatal(err)
		}
		if b, ok := p.(log.Bases).Base(); ok && b.LSN == bases[i] {
			cut++
		}
	}
	return m, cut
}

// partOf compares a message's story with what happened to it: the story is the end of that, and
// tells of no more attempts than there were, and of the present state.
func (m *model) partOf(t *testing.T, w *written, lines []Line) {
	t.Helper()
	types := column(lines, "Type")
	rows := len(types)
	types = slices.DeleteFunc(types, func(verb string) bool { return verb == "known" })
	all, got := strings.Join(w.changes, " "), strings.Join(types, " ")
	name := fmt.Sprintf("queue %d, message %d, %s", w.queue, w.number, all)
	if !strings.HasSuffix(all, got) || rows-len(types) > 1 || rows == 0 {
		t.Errorf("%s: %s", name, got)
	}
	head := lines[slices.IndexFunc(lines, func(l Line) bool { return l.Part == Answer })]
	attempts, _ := strconv.Atoi(valueOf(head.Fields, "Attempts"))
	most, part := strings.Count(all, "locked"), valueOf(head.Fields, "KnownSince") != ""
	// neither tells how many failed before
	if attempts > most || attempts < most && (!part || !strings.Contains(all, "dead") && got != "completed") {
		t.Errorf("%s: %d attempts of %d: %s", name, attempts, most, head.Text)
	}
	if state := valueOf(head.Fields, "State"); state == "completed" != (w.state == "completed") || state == "locked" != strings.HasPrefix(w.state, "locked") {
		t.Errorf("%s: %s; it is %s", name, state, w.state)
	}
}

// If part of random history was removed, and the base comes after some of the rest, stories have
// the end of what happened, and why has all dead letters.
func TestAnswersAreTrueWhenHistoryWasRemoved(t *testing.T) {
	t.Parallel()
	cuts := 0
	for seed := range uint64(3) {
		m, cut := cutHalf(t, seed)
		cuts += cut
		dead := [2]int{}
		for _, w := range m.all {
			if strings.HasSuffix(w.state, "dead") {
				dead[w.queue]++
			}
			of := address.Of([]string{"orders", "bills"}[w.queue], w.number)
			lines, err := m.ask(func(l *Ledger) error { return l.Story(t.Context(), of, "") })
			if errors.Is(err, ErrNothing) && w.state == "completed" {
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %s, %s: %v", seed, of, w.state, err)
			}
			m.partOf(t, w, lines)
		}
		for q, name := range []string{"orders", "bills"} {
			lines, err := m.ask(func(l *Ledger) error { return l.Why(t.Context(), address.Address{Entity: name}) })
			if err != nil || valueOf(lines[0].Fields, "Messages") != fmt.Sprint(dead[q]) {
				t.Errorf("seed %d: %s: %v %s; there are %d", seed, name, err, lines[0].Text, dead[q])
			}
		}
	}
	if cuts < 3 {
		t.Errorf("history was removed from %d logs", cuts)
	}
}

// An answer about an entity tells once for each log where its history begins.
func TestHorizonsOnce(t *testing.T) {
	t.Parallel()
	d := newCutDir(t)
	d.cut(0)
	d.cut(1)
	for _, of := range []string{"", "orders", "bills"} {
		got, err := d.answer(func(l *Ledger) error { return l.Events(t.Context(), Range{Entity: of}) })
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			want := 1
			if i == 1 && of == "orders" { // it is in log 0, as the catalogue is
				want = 0
			}
			if n := strings.Count(got, fmt.Sprintf("history of partition %d begins", i)); n != want {
				t.Errorf("%q: log %d is told of %d times, want %d\n%s", of, i, n, want, got)
			}
		}
	}
}
