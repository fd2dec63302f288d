package background

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/ledgerbus/ledgerbus/index"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/fixed"
)

// stateOf returns a state with a message for each of some bodies.
func stateOf(bodies ...event.Blob) stateReader {
	return func(_ context.Context, look func(*index.Snapshot, []event.Blob) error) error {
		x := index.New()
		for i, b := range bodies {
			x.Apply(1000, &event.MessageEnqueued{Envelope: event.Envelope{Slice: event.Slice{Entity: 1}}, Sequence: event.SequenceNumber(i + 1), EnqueuedAt: 1000, Body: b})
		}
		s := x.Snapshot()
		defer s.Close()
		return look(s, nil)
	}
}

// The needed bodies of a file are known one by one, in whatever order the state has them; of a file
// that was not chosen all bodies count as needed.
func TestLiveBodies(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 1))
	files := []log.SegmentInfo{{First: 8, End: 10_000}, {First: 20_000, End: 30_000}, {First: 30_000, End: 40_000}}
	needed, bytes := map[event.Position]bool{}, int64(0) // in the file in the middle
	var bodies []event.Blob
	for at := event.Position(8); at < 40_000; at += 10 {
		needs := rng.IntN(3) == 0
		if needs {
			bodies = append(bodies, event.Blob{Position: at, Size: 10})
		}
		if f := files[1]; event.LSN(at) >= f.First && event.LSN(at) < f.End {
			if needed[at] = needs; needs {
				bytes += 10
			}
		}
	}
	rng.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	n, err := liveBodiesOf(t.Context(), log.Unbounded{}, stateOf(bodies...), files, func(f *liveFile) bool { return f.First == 20_000 })
	if err != nil || n.files[1].bytes != bytes {
		t.Fatalf("%d bytes of %d: %v", n.files[1].bytes, bytes, err)
	}
	for at, want := range needed {
		if got := n.files[1].has(event.Blob{Position: at, Size: 10}); got != want {
			t.Errorf("the body at %d: needed %v, want %v", at, got, want)
		}
	}
	if f := &n.files[0]; f.known || !f.has(event.Blob{Position: 8, Size: 10}) || !f.has(event.Blob{Position: 18, Size: 10}) {
		t.Error("of a file that nobody asked about something is not needed")
	}
}

// Without memory no search for droppable bodies begins; with it, all memory is freed afterwards.
func TestF22NeedsTakeMemory(t *testing.T) {
	t.Parallel()
	x := index.New()
	budget := &fixed.Memory{T: t}
	state := func(_ context.Context, look func(*index.Snapshot, []event.Blob) error) error {
		s := x.Snapshot()
		defer s.Close()
		return look(s, nil)
	}
	if _, err := liveBodiesOf(t.Context(), budget, state, nil, nil); err != noMemory || budget.Taken != 0 {
		t.Errorf("there is none: %v, %d bytes are taken", err, budget.Taken)
	}
	budget.All = 1 << 20
	n, err := liveBodiesOf(t.Context(), budget, state, nil, nil)
	if err != nil || budget.Taken != 1<<20 {
		t.Errorf("there is enough: %v, %d bytes are taken", err, budget.Taken)
	}
	if n.memory.Give(); budget.Taken != 0 {
		t.Errorf("%d bytes are not given back", budget.Taken)
	}
}
