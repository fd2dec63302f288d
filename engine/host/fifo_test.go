package host

import (
	"math/rand/v2"
	"testing"
)

// What leaves a fifo leaves in the order in which it came, and one that never empties keeps no more room than it needs.
func TestFifo(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var q fifo[int]
	in, out := 0, 0
	for range 100_000 {
		if q.len() < 10 || q.len() < 100 && rng.IntN(2) == 0 {
			q.push(in)
			in++
			continue
		}
		front := *q.front()
		if got := q.pop(); front != out || got != out {
			t.Fatalf("%d, then %d left, want %d", front, got, out)
		}
		out++
	}
	if q.len() != in-out {
		t.Errorf("%d are left, want %d", q.len(), in-out)
	}
	if cap(q.items) > 1000 {
		t.Errorf("room for %d, for 100 at most", cap(q.items))
	}
}
