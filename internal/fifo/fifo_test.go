package fifo

import (
	"math/rand/v2"
	"testing"
)

// What leaves a queue leaves in the order in which it came, and one that never empties keeps no
// more room than it needs.
func TestQueue(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var q Queue[int]
	in, out := 0, 0
	for range 100_000 {
		if q.Len() < 10 || q.Len() < 100 && rng.IntN(2) == 0 {
			q.Push(in)
			in++
			continue
		}
		front := *q.Front()
		if got := q.Pop(); front != out || got != out {
			t.Fatalf("%d, then %d left, want %d", front, got, out)
		}
		out++
	}
	if q.Len() != in-out {
		t.Errorf("%d are left, want %d", q.Len(), in-out)
	}
	if cap(q.items) > 1000 {
		t.Errorf("room for %d, for 100 at most", cap(q.items))
	}
}
