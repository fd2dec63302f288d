package index

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// taken is a snapshot, and the encoding and the answers of the state it was taken of.
type taken struct {
	s        *Snapshot
	want     []byte
	answered string
	done     chan error
}

// questioned has the queries of an index and of a snapshot, and the results of an index.
func questioned(x *Index) string {
	var b strings.Builder
	fmt.Fprintln(&b, x.LastAt(), x.Slices(), x.Live())
	for _, id := range x.Slices() {
		fmt.Fprintln(&b, id, x.Bytes(id), slices.Collect(x.Sessions(id)))
		for q := range event.SubQueue(subQueues) {
			for st := Active; st <= Transferring; st++ {
				fmt.Fprint(&b, x.Count(id, q, st), " ")
			}
			for m := range x.Browse(id, q, 3) {
				again, ok := x.Message(id, m.Sequence)
				fmt.Fprintln(&b, m, again, ok)
			}
		}
	}
	for _, e := range x.Catalogue.All() {
		fmt.Fprintln(&b, e.Path, e.Properties, e.AccessedAt)
	}
	return b.String()
}

// answers are a snapshot's, in the same form.
func (s *Snapshot) answers() string {
	var b strings.Builder
	fmt.Fprintln(&b, s.LastAt(), s.Slices(), s.Live())
	for _, id := range s.Slices() {
		fmt.Fprintln(&b, id, s.Bytes(id), s.Sessions(id))
		for q := range event.SubQueue(subQueues) {
			for st := Active; st <= Transferring; st++ {
				fmt.Fprint(&b, s.Count(id, q, st), " ")
			}
			for m := range s.Browse(id, q, 3) {
				again, ok := s.Message(id, m.Sequence)
				fmt.Fprintln(&b, m, again, ok)
			}
		}
	}
	for _, e := range s.Entities() {
		fmt.Fprintln(&b, e.Path, e.Properties, e.AccessedAt)
	}
	return b.String()
}

// encode encodes and questions the snapshot in a goroutine of its own.
func (t *taken) encode() {
	t.done = make(chan error, 1)
	go func() {
		var got bytes.Buffer
		_, err := t.s.Encode(&got)
		if err == nil && !bytes.Equal(got.Bytes(), t.want) {
			err = errors.New("the snapshot has changed")
		}
		if now := t.s.answers(); err == nil && now != t.answered {
			err = fmt.Errorf("the answers have changed:\n%s\n%s", t.answered, now)
		}
		t.done <- err
	}()
}

// P21: a snapshot does not change, whatever is applied after it was taken: read by others while the
// owner continues, several at a time, and some closed before others.
func TestSnapshotStays(t *testing.T) {
	t.Parallel()
	seeds := uint64(16)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		x, y := New(), New() // y has no snapshots
		w := newWalk(seed, x, y)
		var open []*taken
		n := 0
		end := func(i int) {
			if open[i].done == nil {
				open[i].encode()
			}
			if err := <-open[i].done; err != nil {
				t.Fatalf("seed %d, event %d: %v", seed, n, err)
			}
			open[i].s.Close()
			open = append(open[:i], open[i+1:]...)
		}
		w.check = func() {
			n++
			if w.rng.IntN(40) == 0 && len(open) < 4 {
				open = append(open, &taken{s: x.Snapshot(), want: y.Encode(nil), answered: questioned(y)})
			}
			if len(open) == 0 {
				return
			}
			switch i := w.rng.IntN(len(open)); w.rng.IntN(60) {
			case 0, 1:
				if open[i].done == nil {
					open[i].encode()
				}
			case 2:
				end(i)
			}
		}
		for step := range 1500 {
			w.step()
			if step%400 == 399 {
				w.set(uint64(step), -5) // moves all there is
				w.check()
			}
		}
		for len(open) > 0 {
			end(0)
		}
		if !bytes.Equal(x.Encode(nil), y.Encode(nil)) || answers(x, w.now) != answers(y, w.now) {
			t.Fatalf("seed %d: snapshots have changed what they were taken of", seed)
		}
	}
}

// Data that no snapshot sees any more is changed in place.
func TestClosedSnapshotCostsNothing(t *testing.T) {
	t.Parallel()
	x := New()
	for seq := range event.SequenceNumber(200) {
		x.Apply(1, enqueued(seq+1))
	}
	leaf := func() *node { return x.slices.find(q1.Slice).rows.find(1).leaf }
	touch := func() {
		x.Apply(1, &event.MessageLocked{Envelope: q1, Sequence: 1, Token: event.LockToken{1}, LockedUntil: 10})
		x.Apply(1, &event.MessageReleased{Envelope: q1, Sequence: 1, Token: event.LockToken{1}})
	}
	check := func(what string, copied bool) {
		t.Helper()
		before := leaf()
		touch()
		if (leaf() != before) != copied {
			t.Errorf("%s: copied: %t", what, !copied)
		}
	}
	check("no snapshot", false)
	a := x.Snapshot()
	b := x.Snapshot()
	check("two snapshots", true)
	check("again", false)
	b.Close()
	check("the newer one closed", false)
	c := x.Snapshot()
	c.Close()
	check("another one taken and closed", false)
	x.Snapshot().Close()
	a.Close()
	a.Close()
	check("all closed", false)
	if len(x.open.list) != 0 || x.shared.versions.frozen != 0 {
		t.Errorf("open: %v, frozen: %d", x.open.list, x.shared.versions.frozen)
	}
}

// An encoding goes out in pieces, and ends with the first that cannot be written.
func TestSnapshotEncodesInPieces(t *testing.T) {
	t.Parallel()
	x := New()
	const n = 30_000
	for i := range n {
		ev := enqueued(event.SequenceNumber(i + 1))
		ev.InSession, ev.SessionID = true, fmt.Appendf(nil, "session-%d", i%(n/2))
		ev.MessageID, ev.DuplicateUntil = fmt.Appendf(nil, "id %d", i), 1<<40
		x.Apply(1000, ev)
	}
	s := x.Snapshot()
	defer s.Close()
	var all pieces
	if size, err := s.Encode(&all); err != nil || size != int64(all.buf.Len()) {
		t.Fatalf("%+v %+v; want size == int64(all.buf.Len())", size, err)
	}
	if all.largest > pieceSize+1000 {
		t.Errorf("a piece has %d bytes", all.largest)
	}
	if !bytes.Equal(all.buf.Bytes(), x.Encode(nil)) {
		t.Error("the pieces are not the encoding")
	}
	broken := errors.New("no room")
	for _, after := range []int{0, 1, 3} {
		p := pieces{fails: after + 1, with: broken}
		if _, err := s.Encode(&p); !errors.Is(err, broken) || p.n != after+1 {
			t.Errorf("%d pieces, %v", p.n, err)
		}
	}
}

// pieces keeps the written bytes, and fails at one of the writes.
type pieces struct {
	buf        bytes.Buffer
	n, largest int
	fails      int // 0: none
	with       error
}

func (p *pieces) Write(b []byte) (int, error) {
	p.n++
	p.largest = max(p.largest, len(b))
	if p.n == p.fails {
		return 0, p.with
	}
	return p.buf.Write(b)
}

// Few messages in many slices, in many leaves: a snapshot is taken of them and everything is
// changed, so that copies are made.
func TestSnapshotOfSparseRows(t *testing.T) {
	t.Parallel()
	x := New()
	var seqs []event.SequenceNumber
	for i := range event.SequenceNumber(5) {
		for _, base := range []event.SequenceNumber{0, 100, 5000, 300_000, 1 << 30, 1 << 40} {
			seqs = append(seqs, base+i+1)
		}
	}
	for _, base := range []event.SequenceNumber{0, 100, 5000, 300_000, 1 << 30, 1 << 40} {
		for i := range event.SequenceNumber(5) {
			x.Apply(1, enqueued(base+i+1))
		}
	}
	for len(seqs) > 0 {
		s := x.Snapshot()
		want := x.Encode(nil)
		x.Apply(2, &event.MessageReceivedAndDeleted{Envelope: q1, Sequence: seqs[0]})
		seqs = seqs[1:]
		var got bytes.Buffer
		if _, err := s.Encode(&got); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("with %d left: the snapshot has changed, %v", len(seqs), err)
		}
		s.Close()
		y, err := Decode(x.Encode(nil))
		if err != nil || y.Live() != len(seqs) {
			t.Fatalf("%d of %d are left: %v", y.Live(), len(seqs), err)
		}
		i := 0
		for m := range x.Browse(q1.Slice, event.Main, 0) {
			if p := x.slices.find(q1.Slice).rows.find(m.Sequence); p.sequence() != m.Sequence {
				t.Fatalf("message %d is %d", m.Sequence, p.sequence())
			}
			i++
		}
		if i != len(seqs) {
			t.Fatalf("%d of %d are shown", i, len(seqs))
		}
	}
	if n := x.slices.find(q1.Slice).rows.root; n != nil && cap(n.rows) > 4 {
		t.Errorf("the rows of nothing: %+v", n)
	}
}

// Nothing but Apply and Step writes: the race detector sees it when a question does.
func TestQuestionsOnlyRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		x := New()
		w := newWalk(seed, x)
		for range 40 {
			for range 50 {
				w.step()
			}
			want := asked(x, w.now)
			var done sync.WaitGroup
			for range 3 {
				done.Go(func() {
					if got := asked(x, w.now); got != want {
						t.Errorf("seed %d: two answers:\n%s\n%s", seed, want, got)
					}
				})
			}
			done.Wait()
		}
	}
}

// asked is every question there is, and its answer.
func asked(x *Index, now event.Time) string {
	var b strings.Builder
	b.WriteString(answers(x, now) + questioned(x))
	for _, id := range x.Slices() {
		fmt.Fprintln(&b, x.Soonest(id), x.Front(id, now, 5), x.Has(id), x.Scheduled(id), slices.Collect(x.BrowseActive(id, event.DeadLetter)))
		for s := range x.Sessions(id) {
			name := []byte(s.ID)
			again, _ := x.Session(id, name)
			fmt.Fprintln(&b, again, x.FrontOf(id, name, now, 5), slices.Collect(x.LockedOf(id, name)),
				slices.Collect(x.BrowseSession(id, event.Main, name, &Walk{Left: 9})))
		}
		list := Listing{Slice: id, All: true, Top: 5, Skip: 2}
		looked, done := x.List(&list, 100)
		fmt.Fprintln(&b, looked, done, list.IDs)
		_, twice := x.Duplicate(id, now, event.Identity{Type: event.IDString, ID: []byte("7")})
		fmt.Fprintln(&b, twice)
	}
	due, ok := x.DueScheduled(now)
	fmt.Fprintln(&b, x.Due(now, 3), due, ok, x.Clock())
	for _, l := range x.HeldSessions() {
		again, ok := x.Lock(l.Token)
		fmt.Fprintln(&b, l, again, ok)
	}
	return b.String()
}

// Whatever is changed first after a snapshot, of a large state with something of everything, little
// is copied for it. Not parallel: it measures the heap.
func TestFirstChangeCopiesLittle(t *testing.T) {
	const n, most = 50_000, 64 << 10
	x := New()
	sub := func(i int) event.Envelope {
		return event.Envelope{Slice: event.Slice{Entity: event.EntityID(1000 + i)}}
	}
	token := func(i int) event.LockToken { return event.LockToken{byte(i), byte(i >> 8), byte(i >> 16)} }
	grouped := event.Envelope{Slice: event.Slice{Entity: 8}}
	for i := range n {
		seq := event.SequenceNumber(i + 1)
		ev := enqueued(seq)
		ev.MessageID, ev.DuplicateUntil = fmt.Appendf(nil, "id %d", i), event.Time(2000+i)
		x.Apply(1000, ev)
		if i%2 == 0 {
			x.Apply(1000, &event.MessageLocked{Envelope: q1, Sequence: seq, Token: token(i), LockedUntil: event.Time(90_000 + i)})
		}
		ev = enqueued(2*seq - 1)
		ev.Envelope, ev.InSession, ev.SessionID = grouped, true, fmt.Appendf(nil, "session %d", i)
		x.Apply(1000, ev)
		x.Apply(1000, &event.MessageScheduled{Envelope: grouped, Sequence: 2 * seq, ScheduledFor: event.Time(5000 + i)})
		x.Apply(1000, &event.EntityCreated{Envelope: sub(i), EntityKind: event.Queue, Path: fmt.Sprint(i)})
		ev = enqueued(1)
		ev.Envelope = sub(i)
		x.Apply(1000, ev)
	}
	late := enqueued(n + 1)
	late.EnqueuedAt, late.MessageID, late.DuplicateUntil = 3000, []byte("new"), 1<<40
	for _, c := range []struct {
		name string
		ev   event.Event
	}{
		{"a message of a queue, and ids that are forgotten", late},
		{"a message in the middle locked", &event.MessageLocked{Envelope: q1, Sequence: n / 2, Token: token(n + 1), LockedUntil: 100}},
		{"one completed", &event.MessageCompleted{Envelope: q1, Sequence: 1001, Token: token(1000)}},
		{"a lock renewed", &event.LockRenewed{Envelope: q1, Sequence: 3001, Token: token(3000), LockedUntil: 200_000}},
		{"one dead-lettered", &event.MessageDeadLettered{Envelope: q1, Sequence: 5001, Token: token(5000), Changes: event.Blob{Size: 9}}},
		{"a session's state", &event.SessionStateSet{Envelope: grouped, SessionID: []byte("session 777"), State: event.Blob{Size: 9}}},
		{"a session accepted", &event.SessionAccepted{Envelope: grouped, SessionID: []byte("session 7777"), Token: token(n + 2), LockedUntil: 100}},
		{"a scheduled message cancelled", &event.ScheduleCancelled{Envelope: grouped, Sequence: 500}},
		{"one that becomes active", &event.ScheduledActivated{Envelope: grouped, Sequence: n, NewSequence: 3 * n, EnqueuedAt: 2000}},
		{"a message of one of many queues", &event.MessageExpired{Envelope: sub(7_000), Sequence: 1}},
		{"one of many queues dropped", &event.SliceDropped{Envelope: sub(9_000)}},
		{"one of many queues used", &event.EntityTouched{Envelope: sub(6_000), AccessedAt: 2000}},
		{"one of many queues deleted", &event.EntityDeleted{Envelope: sub(9_000)}},
	} {
		s := x.Snapshot()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x.Apply(3000, c.ev)
		runtime.ReadMemStats(&after)
		s.Close()
		got := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes", c.name, got)
		if got > most {
			t.Errorf("%s: %d bytes are allocated, at most %d are meant", c.name, got, most)
		}
	}
}

// Longest stop of the owner by a checkpoint of ten million waiting messages: taking the snapshot,
// and any single event after it while it is being encoded, if each event is in a leaf that no other
// event has changed since. Run it with -benchtime 1x.
func BenchmarkSnapshot10M(b *testing.B) {
	const n = 10_000_000
	x := New()
	ev := enqueued(0)
	for i := range event.SequenceNumber(n) {
		ev.Sequence, ev.Body.Position = i+1, event.Position(i)*1100
		x.Apply(1000, ev)
	}
	var memory runtime.MemStats
	heap := func() float64 {
		runtime.GC()
		runtime.ReadMemStats(&memory)
		return float64(memory.HeapAlloc)
	}
	before := heap()
	for range b.N {
		var encoded int64
		var took time.Duration
		var done sync.WaitGroup
		start := time.Now()
		s := x.Snapshot()
		freeze := time.Since(start)
		done.Go(func() {
			start := time.Now()
			size, err := s.Encode(io.Discard)
			if err != nil {
				panic(err)
			}
			encoded, took = size, time.Since(start)
		})
		var longest, turn time.Duration
		events := 0
		// all leaves, one message of each
		for seq := event.SequenceNumber(1); seq <= n; seq += fan {
			tok := event.LockToken{byte(seq), byte(seq >> 8), byte(seq >> 16), byte(seq >> 24)}
			start := time.Now()
			x.Apply(1000, &event.MessageLocked{Envelope: q1, Sequence: seq, Token: tok, LockedUntil: event.Time(60_000 + seq/1000)})
			one := time.Since(start)
			longest = max(longest, one)
			turn += one
			events++
		}
		done.Wait()
		after := heap()
		s.Close()
		for seq := event.SequenceNumber(1); seq <= n; seq += fan {
			tok := event.LockToken{byte(seq), byte(seq >> 8), byte(seq >> 16), byte(seq >> 24)}
			x.Apply(1000, &event.MessageReleased{Envelope: q1, Sequence: seq, Token: tok})
		}
		b.ReportMetric(before/n, "bytes/message")
		b.ReportMetric(float64(freeze.Microseconds()), "freeze-µs")
		b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
		b.ReportMetric(float64(turn.Nanoseconds())/float64(events), "ns/first-write")
		b.ReportMetric(took.Seconds(), "encode-s")
		b.ReportMetric(float64(encoded)/n, "encoded-bytes/message")
		b.ReportMetric((after-before)/(1<<20), "copies-MiB")
	}
}

// A publish to 2,000 subscriptions with 500 messages each, the first one after a snapshot.
func BenchmarkFirstPublish(b *testing.B) {
	x := New()
	seq := event.SequenceNumber(0)
	publish := func() {
		seq++
		ev := &event.MessagePublished{Envelope: q1, EnqueuedAt: 1000, Sequence: seq, Body: event.Blob{Position: 100, Size: 10}}
		for s := range 2000 {
			ev.Copies = append(ev.Copies, event.Copy{Subscription: event.EntityID(100 + s), Sequence: seq})
		}
		x.Apply(1000, ev)
	}
	for range 500 {
		publish()
	}
	b.ResetTimer()
	for range b.N {
		s := x.Snapshot()
		publish()
		s.Close()
	}
}
