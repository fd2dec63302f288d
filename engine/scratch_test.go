package engine

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// A decision's notes about slices are what a map would hold, however many slices there are, and the
// next decision finds none of them.
func TestBySlice(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var noted bySlice[int]
	for _, slices := range []int{1, 2, maxFew, maxFew + 1, 3 * maxScratch, 3, maxFew + 1, 2} {
		want := map[event.Slice]int{}
		for range 4 * slices {
			id := event.Slice{Entity: event.EntityID(random.IntN(slices)), Partition: uint8(random.IntN(2))}
			if got, ok := noted.get(id); got != want[id] || ok != (want[id] != 0) {
				t.Fatalf("%d slices: %v has %d (%v), want %d", slices, id, got, ok, want[id])
			}
			want[id] = 1 + random.IntN(1000)
			noted.set(id, want[id])
		}
		if got := maps.Collect(noted.each); !cmp.Equal(got, want) {
			t.Fatalf("%d slices: they are %v, want %v (-want +got):\n%s", slices, got, want, cmp.Diff(want, got))
		}
		noted.reset()
		if len(maps.Collect(noted.each)) > 0 {
			t.Fatalf("%d slices: some are left", slices)
		}
	}
}
