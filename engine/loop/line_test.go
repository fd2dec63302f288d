package loop

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A delivery that goes to the ports in turn belongs to the next port in line, unless there is
// enough for all.
func TestLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		stand  []uint8
		last   uint8
		left   int32
		firsts []uint8 // ports 0 to 3 that may take
	}{
		{"nobody stands in line", nil, 0, 1, []uint8{0, 1, 2, 3}},
		{"there is enough for all", []uint8{0, 1, 2, 3}, 0, 3*turnEvery + 1, []uint8{0, 1, 2, 3}},
		{"one port is left a credit", []uint8{2}, 1, 1, []uint8{2}},
		{"who took last comes last", []uint8{0, 1}, 0, 1, []uint8{1}},
		{"and then it comes again", []uint8{0, 1}, 1, 1, []uint8{0, 2, 3}},
		{"who is not in line may be next", []uint8{3}, 0, 1, []uint8{1, 2, 3}},
		{"there is not enough", []uint8{0, 1, 2, 3}, 0, 3 * turnEvery, []uint8{1}},
		{"there is none", []uint8{1}, 0, 0, []uint8{1}},
	} {
		var l line
		for _, port := range c.stand {
			l.put(port, true)
		}
		l.last.Store(uint32(c.last))
		l.taken.Store(turnEvery - 1)
		for port := range uint8(4) {
			want := false
			for _, first := range c.firsts {
				want = want || first == port
			}
			if got := l.mayTake(port, c.left); got != want {
				t.Errorf("%s: port %d may take: %v, want %v", c.name, port, got, want)
			}
		}
		if l.noteTaken(2); l.last.Load() != 2 || !l.mayTake(0, 1) || !l.mayTake(3, 1) {
			t.Errorf("%s: the credit behind it goes to whoever comes first", c.name)
		}
		if l.noteTaken(1); l.last.Load() != 2 {
			t.Errorf("%s: one that did not go by the line changes it", c.name)
		}
	}
}

// lineTest is a queue with messages in each of several loops, which a test runs one by one, and a
// receiver that is attached to all of them.
type lineTest struct {
	*ports
	link *portLink
}

func newInTurns(t *testing.T) *lineTest {
	t.Helper()
	w := &lineTest{ports: &ports{rng: rand.New(rand.NewPCG(1, 1)), now: 1 << 40}}
	if err := w.open(t); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range w.members {
			m.writer.Close()
		}
		w.store.Close()
	})
	w.sessions, w.entity.Properties.RequiresSession = 0, false
	w.link = &portLink{r: &engine.Receiver{Entity: w.entity, Sink: w, Tag: 1}, there: -1, limits: []uint32{1 << 20}}
	w.links = append(w.links, w.link)
	for i, h := range w.entity.Hosts {
		for range 200 {
			w.submit(&engine.Send{Slice: event.Slice{Entity: w.entity.ID, Partition: uint8(i)}, Messages: []engine.Message{{ID: []byte("m"), Body: []byte("m")}}}, nil, 0, h)
		}
	}
	w.submit(&engine.Attach{Receiver: w.link.r}, w, 1, w.link.r.Hosts()...)
	for i := range w.members {
		w.goOn(i)
	}
	return w
}

// goOn makes a loop take everything there is for it, until its decisions are durable.
func (w *lineTest) goOn(member int) {
	m := w.members[member]
	w.turn(m, len(m.inbox))
	for m.loop.Busy() {
		m.writer.Work()
		w.run(m, m.loop.Committed)
	}
}

// give gives the link one more credit.
func (w *lineTest) give() {
	w.link.limit++
	w.submit(&engine.Flow{Receiver: w.link.r, Limit: w.link.limit}, w, 1, w.link.r.Hosts()...)
}

// from returns the loop of the newest delivery.
func (w *lineTest) from() engine.PartitionID {
	return w.entity.Hosts[w.link.hand[len(w.link.hand)-1].Sequence.Partition()]
}

// SM-384, docs/decisions/0080: one loop gets each flow before the others do. Still, of each eight
// deliveries one is from the loop whose turn it is.
func TestFastLoopWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newInTurns(t)
	loops := len(w.members)
	var last engine.PartitionID
	for n := range 3 * turnEvery * loops {
		w.give()
		w.goOn(0)
		for i := loops - 1; i >= 0; i-- {
			w.goOn(i)
		}
		if len(w.link.hand) != n+1 {
			t.Fatalf("%d deliveries for %d credits", len(w.link.hand), n+1)
		}
		switch inTurn := n%turnEvery == turnEvery-1; {
		case inTurn && n > turnEvery && w.from() != (last+1)%engine.PartitionID(loops):
			t.Fatalf("delivery %d comes from loop %d, the one before it from %d of %d", n, w.from(), last, loops)
		case inTurn:
			last = w.from()
		case w.from() != 0:
			t.Fatalf("delivery %d comes from loop %d, and not from the one that is first", n, w.from())
		}
	}
}

// docs/decisions/0080: a loop that does not get a flow does not keep the others from delivering,
// and is waited for once.
func TestSlowLoopIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	w := newInTurns(t)
	l := attachedLink(w.link.r)
	l.line.last.Store(uint32(slices.Index(l.hosts, 0))) // another one is next
	l.line.taken.Store(turnEvery - 1)
	for n, most := range []int{maxYields + 1, 1, 1} {
		w.give()
		turns := 0
		for ; len(w.link.hand) == n; turns++ {
			if turns > most {
				t.Fatalf("no delivery %d in %d turns", n, turns)
			}
			w.goOn(0)
		}
		if w.from() != 0 || n == 0 && turns < maxYields {
			t.Errorf("delivery %d comes from loop %d, after %d turns", n, w.from(), turns)
		}
	}
}
