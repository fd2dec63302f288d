package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapRoom is by how much a small heap may grow between two garbage collections. With little waiting the live heap is a few
// megabytes, and doubling that takes the traffic of some milliseconds: every collection also empties the pools that the
// buffers of the next frames would come from.
const heapRoom = 64 << 20

// calmTime is how long there must have been no garbage collection after the last one before free memory is given back to the system: peers may
// have gone, and with little traffic the next collection would be minutes away.
const calmTime = 10 * time.Second

const (
	usualPercent = 100 // growth of a large heap, as Go has it
	mostPercent  = 400
)

// keepRoom sets the collector's growth to what the live heap leaves of heapRoom, after each collection until ctx ends: with the growth that
// suits a small heap, one that grows fast would reach five times its size within a second. GOGC in the environment turns it off.
func keepRoom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := collections(ctx)
	debug.FreeOSMemory() // what the start read and made is garbage now, and nobody may come for a while
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	percent, forced := mostPercent, false // forced: the next collection that is told of was asked for here
	debug.SetGCPercent(percent)
	calm := time.NewTimer(calmTime)
	defer calm.Stop()
	for {
		select {
		case <-collected:
			if !forced {
				calm.Reset(calmTime) // once after each collection that was not asked for here, or a large heap would be collected for ever
			}
			forced = false
		case <-calm.C:
			metrics.Read(sample)
			if forced = sample[1].Value.Uint64()+sample[2].Value.Uint64() > heapRoom; forced {
				debug.FreeOSMemory()
			}
			continue
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

// quickStart has the first garbage collection wait until the heap has 16 MiB instead of 4: most answers are given before that. From then on the heap may
// double between collections, as ever. GOGC in the environment turns it off.
func quickStart() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(mostPercent)
	type marker struct{ _ *int } // is garbage in the first collection
	runtime.SetFinalizer(new(marker), func(*marker) { debug.SetGCPercent(usualPercent) })
}

// collections returns a channel that gets a value after each garbage collection, until ctx ends. A value that has not been taken yet stands
// for all later ones.
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

// growth is the percentage for a live heap of that many bytes.
func growth(live uint64) int {
	return int(min(max(heapRoom*100/max(live, 1), usualPercent), mostPercent))
}
