package main

import (
	"runtime"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 40: 100} {
		if got := growth(live); got != want {
			t.Errorf("%d bytes: %d, not %d", live, got, want)
		}
	}
}

// Every collection is reported, also the second one.
func TestCollections(t *testing.T) {
	told := collections(t.Context())
	for range 3 {
		runtime.GC()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatal("a collection was not told of")
		}
	}
}
