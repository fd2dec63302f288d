package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapRoom is by how much a small heap may grow between two garbage collections. With little waiting the live heap is a few
// megabytes, and doubling that takes the traffic of some milliseconds: every collection also empties the pools that the
// buffers of the next frames would come from.
const heapRoom = 64 << 20

const (
	usualPercent = 100 // growth of a large heap, as Go has it
	mostPercent  = 400
)

// keepRoom sets the collector's growth to what the live heap leaves of heapRoom, once a second until ctx ends. GOGC in the
// environment turns it off.
func keepRoom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.FreeOSMemory() // what the start read and made is garbage now, and nobody may come for a while
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := mostPercent
	debug.SetGCPercent(percent)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
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

// growth is the percentage for a live heap of so many bytes.
func growth(live uint64) int {
	return int(min(max(heapRoom*100/max(live, 1), usualPercent), mostPercent))
}
