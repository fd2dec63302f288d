package excerpt_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/index/replay"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/logdir"
	"github.com/ledgerbus/ledgerbus/tools"
	"github.com/ledgerbus/ledgerbus/tools/excerpt"
)

// The entities of a model: two queues, the second with two partitions in two logs, and a topic with
// two subscriptions.
const (
	orders event.EntityID = iota + 1
	bills
	weather
	all
	some
)

const key = "c2VjcmV0IG9mIHdlYXRoZXIgMDEyMzQ1Njc4OWFiY2Q="

// model writes a directory with random events.
type model struct {
	t    *testing.T
	dir  *logdir.Dir
	rng  *rand.Rand
	now  event.Time
	logs [2]struct {
		part log.Partition
		log.Writer
		known map[event.OriginID]bool // defined in the chapter
	}
	last   map[event.Slice]event.SequenceNumber
	live   map[event.Slice][]event.SequenceNumber
	locked map[event.Slice]map[event.SequenceNumber]event.LockToken
	tokens uint32
	moves  []move // under way from orders to bills
	given  event.TransferNumber
	saved  [2]*replay.State
}

// move is a message on its way.
type move struct {
	number  event.TransferNumber
	was     event.SequenceNumber
	arrived bool
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 59)), now: 1_000_000, last: map[event.Slice]event.SequenceNumber{}, live: map[event.Slice][]event.SequenceNumber{},
		locked: map[event.Slice]map[event.SequenceNumber]event.LockToken{}}
	m.dir = logdir.Open(t, filepath.Join(t.TempDir(), "data"), log.Options{Partitions: 2, ChapterBytes: 6_000, SegmentBytes: 3_000, SealAfter: -1})
	for i := range m.logs {
		m.logs[i].part, m.logs[i].Writer = m.dir.Lead(log.PartitionID(i))
	}
	if err := errors.Join(m.dir.Use(log.Partitioned), m.dir.Use(log.Moves)); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*event.EntityCreated{
		{Envelope: envelopeOf(orders, 0), EntityKind: event.Queue, Path: "orders", Hosts: []byte{1}},
		{Envelope: envelopeOf(bills, 0), EntityKind: event.Queue, Path: "bills", Hosts: []byte{0, 1}, KeyHash: 1},
		{Envelope: envelopeOf(weather, 0), EntityKind: event.Topic, Path: "weather", Hosts: []byte{0}, Properties: event.Properties{AccessRules: []event.AccessRule{{Name: "r", Rights: event.Rights{event.Right(1)}, Primary: key, Secondary: key}}}},
		{Envelope: envelopeOf(all, 0), EntityKind: event.Subscription, Path: "weather/Subscriptions/all", Hosts: []byte{0}, Topic: weather},
		{Envelope: envelopeOf(some, 0), EntityKind: event.Subscription, Path: "weather/Subscriptions/some", Hosts: []byte{0}, Topic: weather},
	} {
		e.HashVersion = 1
		m.append(0, e)
	}
	for i := range 2 {
		m.saved[i] = replay.Begin(m.logs[i].part)
	}
	for n := range 300 {
		m.step()
		if m.rng.IntN(3) == 0 {
			m.transfer()
		}
		if n%90 == 89 {
			m.save()
		}
		if n == 150 {
			m.seal()
		}
	}
	return m
}

func envelopeOf(id event.EntityID, part uint8) event.Envelope {
	return event.Envelope{Slice: event.Slice{Entity: id, Partition: part}}
}

func (m *model) append(in int, events ...event.Event) {
	l := &m.logs[in]
	if l.Batch().BeginsChapter() {
		l.known = nil
	}
	m.dir.Append(l.Writer, m.now, events...)
}

// save makes checkpoints, so that not all states are replayed from the beginning.
func (m *model) save() {
	for i := range 2 {
		s := m.saved[i]
		if err := s.Run(m.t.Context(), replay.Watch{}); err != nil {
			m.t.Fatal(err)
		}
		m.dir.Save(m.logs[i].part, s.At(), s.Index.Encode(nil))
	}
}

func (m *model) seal() {
	for i := range 2 {
		for more := true; more; {
			var err error
			if more, err = m.logs[i].part.(log.Sealer).Seal(m.t.Context()); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// sent returns a message as a client sends it, with a payload.
func sent(payload string) []byte {
	return append([]byte{0, 0x53, 0x73, 0xc0, 2, 1, 0x40, 0, 0x53, 0x75, 0xa0, byte(len(payload))}, payload...)
}

func (m *model) step() {
	m.now += event.Time(m.rng.IntN(3000))
	type target struct {
		slice event.Slice
		host  int
	}
	x := []target{{event.Slice{Entity: orders}, 1}, {event.Slice{Entity: bills}, 0}, {event.Slice{Entity: bills, Partition: 1}, 1}, {event.Slice{Entity: all}, 0},
		{event.Slice{Entity: some}, 0}, {event.Slice{Entity: weather}, 0}}[m.rng.IntN(6)]
	own := event.Envelope{Slice: x.slice}
	list := m.live[x.slice]
	payload := strings.Repeat(fmt.Sprint(m.rng.IntN(10)), m.rng.IntN(200))
	switch k := m.rng.IntN(8); {
	case x.slice.Entity == weather:
		m.last[x.slice]++
		p := &event.MessagePublished{Envelope: own, Sequence: m.last[x.slice], MessageID: []byte(payload), EnqueuedAt: m.now, Body: event.Blob{Data: sent(payload)}}
		for _, id := range []event.EntityID{all, some} {
			s := event.Slice{Entity: id}
			m.last[s]++
			c := event.Copy{Subscription: id, Sequence: m.last[s]}
			if id == some {
				c.Rule, c.Changes = "r", event.Blob{Data: event.Changes{{Name: "colour", Value: event.Value{Type: event.String, Text: payload}}}.Append(nil)}
			}
			m.live[s] = append(m.live[s], m.last[s])
			p.Copies = append(p.Copies, c)
		}
		m.append(x.host, p)
	case len(list) == 0 || k < 3:
		if x.slice.Entity == all || x.slice.Entity == some {
			return
		}
		m.last[x.slice]++
		before, _ := x.slice.Numbers()
		n := before + m.last[x.slice]
		m.live[x.slice] = append(list, n)
		by, events := m.origin(x.host)
		own.Origin = by
		m.append(x.host, append(events, &event.MessageEnqueued{Envelope: own, Sequence: n, MessageID: []byte(payload), EnqueuedAt: m.now, Body: event.Blob{Data: sent(payload)}},
			&event.SessionStateSet{Envelope: own, SessionID: []byte{byte(k)}, State: event.Blob{Data: []byte("state " + payload)}})...)
	default:
		m.settle(x.host, own, list[m.rng.IntN(len(list))], k, payload)
	}
}

// origin returns a random origin, and the event that defines it unless the chapter contains one.
func (m *model) origin(in int) (event.OriginID, []event.Event) {
	l := &m.logs[in]
	if l.known == nil || l.Batch().BeginsChapter() {
		l.known = map[event.OriginID]bool{}
	}
	id := event.OriginID(m.rng.IntN(6) + 1)
	if l.known[id] {
		return id, nil
	}
	l.known[id] = true
	return id, []event.Event{&event.OriginDefined{ID: id, Origin: event.Origin{ContainerID: fmt.Sprint("program-", id)}}}
}

func (m *model) settle(in int, own event.Envelope, n event.SequenceNumber, k int, payload string) {
	held := m.locked[own.Slice]
	if held == nil {
		held = map[event.SequenceNumber]event.LockToken{}
		m.locked[own.Slice] = held
	}
	token, locked := held[n]
	switch {
	case !locked:
		m.tokens++
		held[n] = event.LockToken{byte(m.tokens >> 8), byte(m.tokens), 1}
		m.append(in, &event.MessageLocked{Envelope: own, Sequence: n, Token: held[n], LockedUntil: m.now + 1000})
	case k < 6:
		delete(held, n)
		m.append(in, &event.MessageAbandoned{Envelope: own, Sequence: n, Token: token, DeliveryCount: 1,
			Changes: event.Blob{Data: event.Changes{{Name: "why", Value: event.Value{Type: event.String, Text: payload}}}.Append(nil)}})
	default:
		delete(held, n)
		m.live[own.Slice] = slices.DeleteFunc(m.live[own.Slice], func(x event.SequenceNumber) bool { return x == n })
		m.append(in, &event.MessageCompleted{Envelope: own, Sequence: n, Token: token})
	}
}

// transfer starts a move from orders to bills, which are in two logs, or advances a move in
// progress.
func (m *model) transfer() {
	const source, destination = 1, 0 // logs
	own := envelopeOf(orders, 0)
	waiting := slices.DeleteFunc(slices.Clone(m.live[own.Slice]), func(n event.SequenceNumber) bool { _, locked := m.locked[own.Slice][n]; return locked })
	if len(waiting) > 0 && (len(m.moves) == 0 || m.rng.IntN(3) == 0) {
		n := waiting[m.rng.IntN(len(waiting))]
		m.given++
		m.live[own.Slice] = slices.DeleteFunc(m.live[own.Slice], func(x event.SequenceNumber) bool { return x == n })
		m.moves = append(m.moves, move{number: m.given, was: n})
		m.append(source, &event.TransferStarted{Envelope: own, Destination: bills, Trigger: event.TriggerForward, First: m.given, Sequences: []event.SequenceNumber{n}})
		return
	}
	if len(m.moves) == 0 {
		return
	}
	i := m.rng.IntN(len(m.moves))
	switch x := &m.moves[i]; {
	case x.arrived:
		m.append(source, &event.TransfersFinished{Envelope: own, Numbers: []event.TransferNumber{x.number}})
		m.moves = slices.Delete(m.moves, i, i+1)
	case m.rng.IntN(4) == 0:
		m.append(source, &event.TransferFailed{Envelope: own, Number: x.number, SubQueue: event.TransferDeadLetter, Why: event.RefusedOther, Reason: "full", Sequence: x.was})
		m.moves = slices.Delete(m.moves, i, i+1)
	default:
		x.arrived = true
		to := event.Slice{Entity: bills}
		m.last[to]++
		m.live[to] = append(m.live[to], m.last[to])
		m.append(destination, &event.MessageEnqueued{Envelope: event.Envelope{Slice: to}, Sequence: m.last[to], MessageID: []byte("moved"), EnqueuedAt: m.now, Body: event.Blob{Data: sent("moved")},
			Arrival: &event.Arrival{Source: own.Slice, Number: x.number, Floor: m.moves[0].number, Hops: 1, First: x.was}})
	}
}

// cut makes a slice and opens it.
func (m *model) cut(o excerpt.Options) (*excerpt.Slice, log.Store, string) {
	m.t.Helper()
	dir := filepath.Join(m.t.TempDir(), "slice")
	in, err := tools.Receive(dir)
	if err != nil {
		m.t.Fatal(err)
	}
	o.Now = time.UnixMilli(int64(m.now))
	made, err := excerpt.Cut(m.t.Context(), m.dir.Store, func(ledger.Line) error { return nil }, in, o)
	if err != nil {
		m.t.Fatal(err)
	}
	var said bytes.Buffer
	if _, err := in.Finish(&said); err != nil {
		m.t.Fatalf("%v\n%s", err, said.Bytes())
	}
	s, err := log.Open(m.t.Context(), dir, log.Options{ReadOnly: true})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { s.Close() })
	return made, s, dir
}

// stateOf replays a log's part of some entities up to a time; nil: all entities.
func stateOf(t *testing.T, s log.Store, id log.PartitionID, of map[event.EntityID]bool, below event.LSN, until event.Time) *index.Index {
	t.Helper()
	p, err := s.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	st := replay.Begin(p)
	x := index.New()
	if st.From != 0 {
		x = st.Index
	}
	for rec, err := range st.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.LSN >= below || rec.At > until {
			break
		}
		for _, ev := range rec.Events {
			if _, origin := ev.(*event.OriginDefined); !origin && (of == nil || of[ev.Common().Slice.Entity]) {
				x.Apply(rec.At, ev)
			}
		}
		if err := st.ApplyOnly(rec, func(event.Event) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// described returns all visible parts of a state without the positions of bodies; with bodies also
// their contents.
func described(t *testing.T, x *index.Index, p log.Partition, bodies bool) string {
	t.Helper()
	var b strings.Builder
	for _, e := range x.Catalogue.All() {
		fmt.Fprintf(&b, "%d %s %v\n", e.ID, e.Path, e.Properties.AccessRules != nil)
	}
	for _, t := range x.Transfers() {
		fmt.Fprintf(&b, "in transfer %+v\n", t)
	}
	for _, s := range x.Slices() {
		fmt.Fprintf(&b, "%v next %d, next transfer %d\n", s, x.NextSequence(s), x.NextTransfer(s))
		for session := range x.Sessions(s) {
			fmt.Fprintf(&b, "  session %q %v %d\n", session.ID, session.Set, session.State.Size)
			if bodies && session.Set {
				fmt.Fprintf(&b, "    %q\n", read(t, p, session.State))
			}
		}
		for _, source := range x.ArrivalSources(s) {
			for n := range event.TransferNumber(100) {
				fmt.Fprintf(&b, "%t ", x.Arrived(s, source, n+1))
			}
			fmt.Fprintf(&b, "  arrived from %v\n", source)
		}
		for _, q := range []event.SubQueue{event.Main, event.DeadLetter, event.TransferDeadLetter} {
			for msg := range x.Browse(s, q, 0) {
				fmt.Fprintf(&b, "  %v %d %v %d %v %d\n", q, msg.Sequence, msg.State, msg.DeliveryCount, msg.EnqueuedAt, msg.Body.Size)
				if bodies {
					fmt.Fprintf(&b, "    %q\n", read(t, p, msg.Body))
					for _, c := range msg.Changes {
						fmt.Fprintf(&b, "    %q\n", read(t, p, c))
					}
				}
			}
		}
	}
	return b.String()
}

func read(t *testing.T, p log.Partition, b event.Blob) []byte {
	t.Helper()
	got, err := p.ReadBlob(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// eventsOf returns the rows of a question about events.
func eventsOf(t *testing.T, s log.Store, r ledger.Range) (rows []string) {
	t.Helper()
	err := ledger.New(s, func(l ledger.Line) error {
		if l.Part == ledger.Row {
			rows = append(rows, l.Text)
		}
		return nil
	}).Events(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// A slice has, at its beginning and at its end, the original's state of its entities including
// moves in progress. It has the same events in between, and all bodies that any of these point to.
func TestSlice(t *testing.T) {
	t.Parallel()
	related := map[string]map[event.EntityID]bool{"": nil, "orders": {orders: true}, "bills": {bills: true}, "weather": {weather: true, all: true, some: true},
		"weather/Subscriptions/some": {weather: true, all: true, some: true}}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			for entity, of := range related {
				for range 3 {
					span := m.now - 1_000_000
					since, until := 1_000_000+event.Time(m.rng.Int64N(int64(span))), 1_000_000+event.Time(m.rng.Int64N(int64(span)))
					since, until = min(since, until), max(since, until)
					o := excerpt.Options{Entity: entity, Bodies: []excerpt.Bodies{excerpt.Keep, excerpt.Drop, excerpt.Hash}[m.rng.IntN(3)]}
					if m.rng.IntN(4) > 0 {
						o.Since = &ledger.Instant{At: since}
					}
					if m.rng.IntN(4) > 0 {
						o.Until = &ledger.Instant{At: until}
					} else {
						until = event.EndOfTime
					}
					m.compare(o, of, until)
				}
			}
		})
	}
}

// compare makes a slice and compares it with the original.
func (m *model) compare(o excerpt.Options, of map[event.EntityID]bool, until event.Time) {
	t := m.t
	t.Helper()
	made, s, _ := m.cut(o)
	what := fmt.Sprintf("%+v", o)
	for i, l := range made.Logs {
		id := log.PartitionID(i)
		p, err := s.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		whole := m.logs[i].part
		begin := replay.Begin(p)
		if base := uint64(begin.At()); base != l.Base {
			t.Errorf("%s: log %d begins at LSN %d, it says %d", what, i, base, l.Base)
		}
		keep := o.Bodies == excerpt.Keep
		if got, want := described(t, begin.Index, p, keep), described(t, stateOf(t, m.dir.Store, id, of, event.LSN(l.Base), event.EndOfTime), whole, keep); got != want {
			t.Fatalf("%s: log %d begins with\n%s\nwant\n%s", what, i, got, want)
		}
		end := replay.Begin(p)
		if err := end.Run(t.Context(), replay.Watch{}); err != nil {
			t.Fatal(err)
		}
		if got, want := described(t, end.Index, p, keep), described(t, stateOf(t, m.dir.Store, id, of, 1<<62, until), whole, keep); got != want {
			t.Fatalf("%s: log %d ends with\n%s\nwant\n%s", what, i, got, want)
		}
		if !keep {
			m.hidden(p, whole, end.Index, o.Bodies)
		}
	}
	r := ledger.Range{Since: o.Since, Until: o.Until, Entity: o.Entity}
	got, want := eventsOf(t, s, r), eventsOf(t, m.dir.Store, r)
	for i := range want { // an entity that the slice does not have is shown by its number
		if of != nil && !of[bills] {
			want[i] = strings.Replace(want[i], " to bills ", " to entity-2 ", 1)
		}
		if of != nil && !of[orders] {
			want[i] = strings.Replace(want[i], ", from orders ", ", from entity-1 ", 1)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d events\n%s\nwant %d\n%s", what, len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

// hidden checks that the bodies of a state can be read and differ from the original's.
func (m *model) hidden(p, whole log.Partition, x *index.Index, how excerpt.Bodies) {
	t := m.t
	for _, s := range x.Slices() {
		for msg := range x.Browse(s, event.Main, 0) {
			is := read(t, p, msg.Body)
			was := make([]byte, len(is))
			if _, err := whole.ReadInto(msg.Body, was); !errors.Is(err, log.ErrChecksum) {
				t.Fatalf("the original has the same: %v", err)
			}
			if how == excerpt.Hash && len(is) > 80 {
				sum := sha256.Sum256(was[12:])
				if want := "sha256:" + hex.EncodeToString(sum[:]); !bytes.Contains(is, []byte(want)) {
					t.Errorf("%q for %q, want %s", is, was, want)
				}
			}
			for _, c := range msg.Changes {
				got, err := event.ReadChanges(read(t, p, c))
				if err != nil || got.Set != nil || got.System != nil {
					t.Errorf("changes %+v, %v", got, err)
				}
			}
		}
		for session := range x.Sessions(s) {
			if session.Set && bytes.Contains(read(t, p, session.State), []byte("state")) {
				t.Errorf("a state of a session is kept")
			}
		}
	}
}

// A slice contains no keys of entities, and none of its files contains dropped data.
func TestSliceHidesKeys(t *testing.T) {
	t.Parallel()
	m := newModel(t, 9)
	_, s, dir := m.cut(excerpt.Options{Entity: "weather", Bodies: excerpt.Drop})
	p, err := s.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []*replay.State{replay.Begin(p), replay.Begin(p)} {
		if err := st.Run(t.Context(), replay.Watch{}); err != nil {
			t.Fatal(err)
		}
		rules := st.Index.Catalogue.All()[0].Properties.AccessRules
		if len(rules) != 1 || rules[0].Name != "r" || rules[0].Primary.Reveal() == key || rules[0].Primary != rules[0].Secondary || len(rules[0].Primary) != len(key) {
			t.Errorf("rules %+v with the key %q", rules, rules[0].Primary.Reveal())
		}
	}
	made, err := excerpt.Read(dir, s)
	if err != nil || made.Of != m.dir.Namespace().ID || made.Namespace == made.Of || !slices.Equal(made.Entities, []string{"weather", "weather/Subscriptions/all", "weather/Subscriptions/some"}) {
		t.Errorf("it says %+v, %v", made, err)
	}
	if made, err := excerpt.Read(dir, m.dir.Store); made != nil || err != nil {
		t.Errorf("the original says %+v, %v", made, err)
	}
}

// A broker can continue on a slice: its log continues after the slice's history, which stays.
func TestSliceGoesOn(t *testing.T) {
	t.Parallel()
	m := newModel(t, 11)
	_, s, dir := m.cut(excerpt.Options{Entity: "orders", Bodies: excerpt.Keep, Since: &ledger.Instant{At: 1_200_000}, Until: &ledger.Instant{At: 1_300_000}})
	before := eventsOf(t, s, ledger.Range{})
	s.Close()
	on := logdir.Open(t, dir, log.Options{})
	_, w := on.Lead(1)
	on.Lead(0)
	on.Append(w, 1_400_000, &event.MessageEnqueued{Envelope: envelopeOf(orders, 0), Sequence: 100_000, MessageID: []byte("new"), EnqueuedAt: 1_400_000, Body: event.Blob{Data: sent("new")}})
	on.Close()
	again := logdir.Open(t, dir, log.Options{ReadOnly: true})
	if after := eventsOf(t, again.Store, ledger.Range{}); len(after) != len(before)+1 || !slices.Equal(after[:len(before)], before) {
		t.Errorf("%d events, there were %d", len(after), len(before))
	}
	again.Close()
	if found, err := tools.Verify(io.Discard, dir, tools.VerifyOptions{}); err != nil || found.Places > 0 {
		t.Errorf("%+v, %v; want found.Places <= 0", found, err)
	}
}

// An interrupted slice is not accepted as one, and nothing is written to a directory that is not
// empty.
func TestSliceIsWhole(t *testing.T) {
	t.Parallel()
	m := newModel(t, 13)
	parent := t.TempDir()
	dir := filepath.Join(parent, "slice")
	in, err := tools.Receive(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := excerpt.Options{Bodies: excerpt.Keep, Progress: func(partition int) {
		if partition == 1 {
			cancel()
		}
	}}
	if _, err := excerpt.Cut(ctx, m.dir.Store, func(ledger.Line) error { return nil }, in, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v; want errors.Is(err, context.Canceled)", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("something is there")
	}
	if _, err := log.Open(t.Context(), dir+tools.PartialSuffix, log.Options{ReadOnly: true}); err == nil {
		t.Error("half a slice is opened")
	}
	if _, err := tools.Receive(dir); !errors.Is(err, tools.ErrNotEmpty) {
		t.Errorf("a second one: %v", err)
	}
	if err := in.Drop(); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(parent); len(list) > 0 {
		t.Errorf("%v are left", list)
	}
}
