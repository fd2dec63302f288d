package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger/address"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
)

// model is a namespace that is written by hand, in a way that shares nothing with the index: two
// queues in two logs.
type model struct {
	t      *testing.T
	dir    *logdir.Dir
	part   [2]log.Partition
	writer [2]log.Writer
	host   [2]int // of each queue
	rng    *rand.Rand
	now    event.Time
	last   [2]event.SequenceNumber
	live   [2][]*written
	all    []*written
	tokens uint32
	past   []counted
	dead   []ofDead
}

// ofDead is an event about a message in the dead-letter queue, or about its way there.
type ofDead struct {
	at    event.Time
	queue int
	text  string // verb and number
}

// written is a message of the model.
type written struct {
	queue   int
	number  event.SequenceNumber
	state   string // in the words of a story
	fails   uint32
	token   event.LockToken
	changes []string // what happened, by verb
}

// counted holds the counts at a time: by queue, how many messages in the main queue and how many
// dead ones.
type counted struct {
	at     event.Time
	counts [2][2]int
}

func newModel(t *testing.T, seed uint64) *model { return newModelWith(t, seed, func(*model) {}) }

// newModelWith calls halfway when half of the namespace is written.
func newModelWith(t *testing.T, seed uint64, halfway func(*model)) *model {
	t.Helper()
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 18)), now: 1_000_000}
	m.dir = logdir.Open(t, t.TempDir(), log.Options{Partitions: 2, ChapterBytes: 20_000, SealAfter: -1})
	for i := range m.part {
		m.part[i], m.writer[i] = m.dir.Lead(log.PartitionID(i))
	}
	m.host[1] = int(seed % 2) // in one log, or in two
	for i, name := range []string{"orders", "bills"} {
		m.dir.Append(m.writer[0], m.now, &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: event.EntityID(i + 1)}}, EntityKind: event.Queue,
			Path: name, HashVersion: 1, Hosts: []byte{byte(m.host[i])}, Properties: event.Properties{LockDuration: 30 * time.Second, MaxDeliveryCount: 3, MaxSizeMegabytes: 1}})
	}
	for i := range 400 {
		if m.step(); i == 200 {
			halfway(m)
		}
	}
	for i := range m.part {
		for {
			if more, err := m.part[i].(log.Sealer).Seal(t.Context()); err != nil {
				t.Fatal(err)
			} else if !more {
				break
			}
		}
	}
	return m
}

// step makes something happen.
func (m *model) step() {
	m.now += event.Time(m.rng.IntN(5000))
	q := m.rng.IntN(2)
	own := event.Envelope{Slice: event.Slice{Entity: event.EntityID(q + 1)}}
	var events []event.Event
	if len(m.live[q]) == 0 || m.rng.IntN(3) == 0 {
		m.last[q]++
		w := &written{queue: q, number: m.last[q], state: "waiting", changes: []string{"sent"}}
		m.live[q], m.all = append(m.live[q], w), append(m.all, w)
		events = append(events, &event.MessageEnqueued{Envelope: own, Sequence: w.number, MessageID: fmt.Appendf(nil, "%d-%d", q, w.number), EnqueuedAt: m.now,
			Body: event.Blob{Data: []byte(strings.Repeat("x", m.rng.IntN(300)))}})
	} else {
		at := m.rng.IntN(len(m.live[q]))
		w := m.live[q][at]
		was := strings.HasSuffix(w.state, "dead")
		events = m.happen(own, w)
		if was || strings.HasSuffix(w.state, "dead") {
			m.dead = append(m.dead, ofDead{m.now, q, fmt.Sprintf("%s %d", w.changes[len(w.changes)-1], w.number)})
		}
		if w.state == "completed" {
			m.live[q] = append(m.live[q][:at], m.live[q][at+1:]...)
		}
	}
	m.dir.Append(m.writer[m.host[q]], m.now, events...)
	s := counted{at: m.now}
	for q := range m.live {
		for _, w := range m.live[q] {
			dead := 0
			if strings.HasSuffix(w.state, "dead") {
				dead = 1
			}
			s.counts[q][dead]++
		}
	}
	m.past = append(m.past, s)
}

// happen makes the next thing happen to a message.
func (m *model) happen(own event.Envelope, w *written) []event.Event {
	if w.token == (event.LockToken{}) {
		m.tokens++
		w.token = event.LockToken{byte(m.tokens >> 8), byte(m.tokens), 1}
		w.state = strings.Replace(w.state, "waiting", "locked", 1)
		w.changes = append(w.changes, "locked")
		return []event.Event{&event.MessageLocked{Envelope: own, Sequence: w.number, Token: w.token, LockedUntil: m.now + 30_000, DeliveryCount: w.fails}}
	}
	token, dead := w.token, strings.HasSuffix(w.state, "dead")
	w.token = event.LockToken{}
	add := func(state, verb string) {
		w.state = state
		if dead && state != "completed" {
			w.state = "waiting dead"
		}
		w.changes = append(w.changes, verb)
	}
	switch k := m.rng.IntN(4); {
	case k == 0:
		add("completed", "completed")
		return []event.Event{&event.MessageCompleted{Envelope: own, Sequence: w.number, Token: token}}
	case k == 1 && !dead:
		add("waiting dead", "dead")
		return []event.Event{&event.MessageDeadLettered{Envelope: own, Sequence: w.number, Token: token, Cause: event.CauseApplication, Reason: "bad"}}
	case k == 2:
		w.fails++
		add("waiting", "lost")
		return []event.Event{&event.LockExpired{Envelope: own, Sequence: w.number, Token: token, DeliveryCount: w.fails}}
	default:
		w.fails++
		add("waiting", "abandoned")
		return []event.Event{&event.MessageAbandoned{Envelope: own, Sequence: w.number, Token: token, DeliveryCount: w.fails}}
	}
}

// ask collects an answer.
func (m *model) ask(question func(*Ledger) error) (lines []Line, err error) {
	err = question(New(m.dir, keep(&lines)))
	return lines, err
}

// column returns the values of a field of the rows.
func column(lines []Line, name string) (values []string) {
	for _, l := range lines {
		if l.Part != Row {
			continue
		}
		for _, f := range l.Fields {
			if f.Name == name {
				values = append(values, fmt.Sprint(f.Value()))
			}
		}
	}
	return values
}

// Answers about random messages and instants tell what happened: sealed or not, by number or by id.
func TestAnswersAreTrue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		m := newModel(t, seed)
		names := []string{"orders", "bills"}
		for range 100 {
			w := m.all[m.rng.IntN(len(m.all))]
			of, id := address.Of(names[w.queue], w.number), ""
			if m.rng.IntN(2) == 0 {
				of, id = address.Address{}, fmt.Sprintf("%d-%d", w.queue, w.number)
			}
			lines, err := m.ask(func(l *Ledger) error { return l.Story(t.Context(), of, id) })
			if got, want := fmt.Sprint(column(lines, "Type")), fmt.Sprint(w.changes); err != nil || got != want {
				t.Fatalf("seed %d: %s#%d: %s, want %s, %v", seed, names[w.queue], w.number, got, want, err)
			}
		}
		for range 60 {
			i := m.rng.IntN(len(m.past))
			at := m.past[i].at
			for i+1 < len(m.past) && m.past[i+1].at == at {
				i++
			}
			if i+1 < len(m.past) && m.rng.IntN(2) == 0 {
				at += event.Time(m.rng.IntN(int(m.past[i+1].at - at)))
			}
			lines, err := m.ask(func(l *Ledger) error { return l.At(t.Context(), Instant{At: at}, "", false) })
			want := m.past[i].counts
			// bills, orders
			wantActive, wantDead := fmt.Sprint([]int{want[1][0], want[0][0]}), fmt.Sprint([]int{want[1][1], want[0][1]})
			if got := fmt.Sprint(column(lines, "Active")); err != nil || got != wantActive || fmt.Sprint(column(lines, "DeadLetter")) != wantDead {
				t.Fatalf("seed %d: at %s: %s, %v; want %s %s", seed, at, got, err, wantActive, wantDead)
			}
			m.when(t, at)
		}
	}
}

// when compares the first time at which a queue had more dead letters than at some earlier time.
func (m *model) when(t *testing.T, at event.Time) {
	t.Helper()
	limit := 1 + m.rng.IntN(6)
	first := "never"
	for _, s := range m.past {
		if s.counts[1][1] >= limit {
			first = s.at.String()
			break
		}
	}
	lines, err := m.ask(func(l *Ledger) error { return l.When(t.Context(), fmt.Sprintf("bills.dead >= %d", limit), nil) })
	if err != nil || len(lines) == 0 || !strings.Contains(lines[0].Text, first) {
		t.Fatalf("bills.dead >= %d: %+v, %v; want %s", limit, lines, err, first)
	}
}

// The sentence names the lock that is shorter than the work, and when it became so.
func TestSentenceOfLostLocks(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	defer dir.Close()
	_, w := dir.Lead(0)
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	before := event.Properties{LockDuration: 5 * time.Minute, MaxDeliveryCount: 2}
	now := before
	now.LockDuration = 30 * time.Second
	dir.Append(w, 1000, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}, Properties: before})
	dir.Append(w, 2000, &event.EntityUpdated{Envelope: own, Properties: now, Before: before})
	dir.Append(w, 3000, &event.MessageEnqueued{Envelope: own, Sequence: 1, MessageID: []byte("a"), EnqueuedAt: 3000})
	at := event.Time(4000)
	for try := range uint32(2) {
		token := event.LockToken{byte(try + 1)}
		dir.Append(w, at, &event.MessageLocked{Envelope: own, Sequence: 1, Token: token, LockedUntil: at + 30_000, DeliveryCount: try})
		events := []event.Event{&event.LockExpired{Envelope: own, Sequence: 1, Token: token, DeliveryCount: try + 1}}
		if try == 1 {
			events = append(events, &event.MessageDeadLettered{Envelope: own, Sequence: 1, Cause: event.CauseMaxDelivery, Reason: "MaxDeliveryCountExceeded"})
		}
		dir.Append(w, at+30_000, events...)
		// no longer known
		dir.Append(w, at+32_000, &event.SettlementRefused{Envelope: own, Token: token, Wanted: event.WantedComplete, Why: event.RefusedLockLost})
		at += 40_000
	}
	for _, c := range []struct {
		of   string
		want string
	}{
		{"orders#1", "in a sentence: the handler takes 32.0 s (median of 2), the lock lasts 30.0 s since 1970-01-01T00:00:02.000Z, was 5m (@0/"},
		{"orders/$dlq", "2 locks lost after 30.0 s; 2 completes came too late: the work was done, and repeated"},
	} {
		of, err := address.Parse(c.of)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := New(dir, func(l Line) error { fmt.Fprintln(&text, l.Text); return nil }).Why(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), c.want) {
			t.Errorf("%s:\n%s; want strings.Contains(text.String(), c.want)", of, text.String())
		}
	}
}

// The sentence of a waiting message names the session that it waits for, and whether a receiver has
// that session.
func TestSentenceOfSession(t *testing.T) {
	t.Parallel()
	dir := logdir.Open(t, t.TempDir(), log.Options{Partitions: 1})
	defer dir.Close()
	_, w := dir.Lead(0)
	own := event.Envelope{Slice: event.Slice{Entity: 1}}
	properties := event.Properties{LockDuration: time.Minute, MaxDeliveryCount: 10, RequiresSession: true}
	dir.Append(w, 1000, &event.EntityCreated{Envelope: own, EntityKind: event.Queue, Path: "orders", HashVersion: 1, Hosts: []byte{0}, Properties: properties})
	dir.Append(w, 2000, &event.MessageEnqueued{Envelope: own, Sequence: 1, MessageID: []byte("a"), EnqueuedAt: 2000, HasSession: true, InSession: true, SessionID: []byte("cart-7")})
	dir.Append(w, 3000, &event.SessionAccepted{Envelope: own, SessionID: []byte("cart-8"), Token: event.LockToken{8}, LockedUntil: 90_000})
	dir.Append(w, 4000, &event.MessageScheduled{Envelope: own, Sequence: 2, MessageID: []byte("b"), ScheduledFor: 5000, HasSession: true, InSession: true, SessionID: []byte("cart 9")})
	dir.Append(w, 5000, &event.ScheduledActivated{Envelope: own, Sequence: 2, NewSequence: 3, EnqueuedAt: 5000})
	story := func(of string) string {
		t.Helper()
		a, err := address.Parse(of)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := New(dir, func(l Line) error { fmt.Fprintln(&text, l.Text); return nil }).Story(t.Context(), a, ""); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	wants := func(of, want string) {
		t.Helper()
		if got := story(of); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant %s", of, got, want)
		}
	}
	wants("orders#1", "in a sentence: it has not been received: it is in session cart-7, which no receiver has accepted; history shows no links")
	wants("orders#2", `it has not been received: it is in session "cart 9", which no receiver has accepted;`)
	token := event.LockToken{7}
	dir.Append(w, 6000, &event.SessionAccepted{Envelope: own, SessionID: []byte("cart-7"), Token: token, LockedUntil: 66_000})
	wants("orders#1", "it is in session cart-7, which a receiver has held since 1970-01-01T00:00:06.000Z;")
	dir.Append(w, 7000, &event.MessageLocked{Envelope: own, Sequence: 1, Token: token})
	dir.Append(w, 8000, &event.SessionReleased{Envelope: own, SessionID: []byte("cart-7"), Cause: event.ReleaseClosed, Returned: []event.Returned{{Sequence: 1, DeliveryCount: 1}}})
	wants("orders#1", "in a sentence: it is waiting, after 1 attempt: it is in session cart-7, which no receiver has held since 1970-01-01T00:00:08.000Z\n")
}

func TestParseInstant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 3, 9, 30, 0, 0, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"03:12": "2026-11-03T02:12:00.000Z", "23:00": "2026-11-02T22:00:00.000Z", "yesterday 14:00": "2026-11-02T13:00:00.000Z", "-2h": "2026-11-03T06:30:00.000Z", "-7d": "2026-10-27T08:30:00.000Z",
		"2h": "2026-11-03T06:30:00.000Z", "7d": "2026-10-27T08:30:00.000Z", "1h30m": "2026-11-03T07:00:00.000Z", "1d12h": "2026-11-01T20:30:00.000Z", "-1d12h": "2026-11-01T20:30:00.000Z",
		"2026-11-03T03:12:00Z": "2026-11-03T03:12:00.000Z", "2026-11-01": "2026-10-31T23:00:00.000Z", "now": "2026-11-03T08:30:00.000Z", "@0/16": "@0/16",
	} {
		if got, err := ParseInstant(text, now); err != nil || got.String() != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "noon", "25:00", "-2 hours", "-99999999999d", "tomorrow 10:00", "0", "+2h", "--2h", "unlimited", "-none", "99999d"} {
		if got, err := ParseInstant(text, now); !errors.Is(err, ErrQuestion) {
			t.Errorf("%q: %s, %v; want errors.Is(err, ErrQuestion)", text, got, err)
		}
	}
}

// keep keeps lines, whose fields are reused.
func keep(lines *[]Line) Tell {
	return func(l Line) error {
		l.Fields = slices.Clone(l.Fields)
		*lines = append(*lines, l)
		return nil
	}
}

// Times of day and durations are put together by hand, as packages time and fmt would write them.
func TestWordsPutTogether(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		at := event.Time(rng.Int64N(int64(event.EndOfTime))) - event.EndOfTime/10
		if got, want := string(appendClock(nil, at)), at.Std().Format("15:04:05.000"); got != want {
			t.Fatalf("%d: %s, not %s", at, got, want)
		}
		d := time.Duration(rng.Int64N(int64(100 * time.Second)))
		want := fmt.Sprintf("%.1f s", d.Seconds())
		if d < time.Second {
			want = fmt.Sprintf("%d ms", d.Milliseconds())
		}
		if got := span(d); got != want || span(-d) != "-"+want && d > 0 {
			t.Fatalf("%d: %s, not %s", d, got, want)
		}
	}
}
