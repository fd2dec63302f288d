package index

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// taken is a snapshot and what the state was encoded in when it was taken.
type taken struct {
	s    *Snapshot
	want []byte
	done chan error
}

// encode encodes the snapshot in a goroutine of its own.
func (t *taken) encode() {
	t.done = make(chan error, 1)
	go func() {
		var got bytes.Buffer
		_, err := t.s.Encode(&got)
		if err == nil && !bytes.Equal(got.Bytes(), t.want) {
			err = errors.New("the snapshot has changed")
		}
		t.done <- err
	}()
}

// P21: whatever is applied after a snapshot was taken, it stays what it was: read by others while the owner goes on, several at a time,
// and some closed before others.
func TestSnapshotStays(t *testing.T) {
	t.Parallel()
	seeds := uint64(16)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		x, y := New(), New() // nobody takes snapshots of y
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
				open = append(open, &taken{s: x.Snapshot(), want: y.Encode(nil)})
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

// What no snapshot sees any more is changed where it stands.
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
		t.Fatal(size, err)
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

// pieces keeps what is written, and fails at one of the writes.
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

// Few messages in many slices, in many leaves: a snapshot is taken of them and everything is changed, by which the copies come to be.
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

// Longest stop of the owner by a checkpoint of ten million waiting messages: taking the snapshot, and any one event after it while it is
// encoded beside, when each event goes to a leaf that no other has gone to since. Run it with -benchtime 1x.
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
		for seq := event.SequenceNumber(1); seq <= n; seq += fan { // all leaves, one message of each
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
