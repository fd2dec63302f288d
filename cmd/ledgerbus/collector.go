package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is by how much a small heap may grow between two garbage collections. With little waiting the live heap is a few
// megabytes, and doubling that takes the traffic of some milliseconds: every collection also empties the pools that the
// buffers of the next frames would come from.
const heapRoom = 64 << 20

const (
	usualPercent = 100 // growth of a large heap, as Go has it
	mostPercent  = 400
)

// keepRoom sets the collector's growth to what the live heap leaves of heapRoom, after each collection until ctx ends: a heap that grows
// fast would reach five times its size within a second of a small one's growth. GOGC in the environment turns it off.
func keepRoom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := collections(ctx)
	debug.FreeOSMemory() // what the start read and made is garbage now, and nobody may come for a while
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := mostPercent
	debug.SetGCPercent(percent)
	for {
		select {
		case <-collected:
		case <-ctx.Done():
			return
		}
		metrics.Read(sample)
		want := growth(sample[0].Value.Uint64())
		if d := want - percent; 4*max(d, -d) > percent { // setting it stops the world for a moment
			percent = want
			debug.SetGCPercent(percent)
		}
	}
}

// collections is what gets a value after each garbage collection, until ctx ends; one that nobody took yet stands for all.
func collections(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	type marker struct{ _ *int } // is garbage in every collection
	var again func(*marker)
	again = func(m *marker) {
		select {
		case c <- struct{}{}:
		default:
		}
		if ctx.Err() == nil {
			runtime.SetFinalizer(m, again)
		}
	}
	runtime.SetFinalizer(new(marker), again)
	return c
}

// growth is the percentage for a live heap of so many bytes.
func growth(live uint64) int {
	return int(min(max(heapRoom*100/max(live, 1), usualPercent), mostPercent))
}
