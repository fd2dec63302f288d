package main

import (
	"context"
	"os"
	"runtime"
	"time"
)

// diskSlots is how many goroutines may run at a time beyond the number of processors. One that is in fdatasync counts as running until
// the scheduler's monitor takes its place away, and as long as there is no idle place the monitor's thread looks for that every
// 20 µs: a tenth of the CPU time of durable sends. With a place to spare it sleeps.
const diskSlots = 1

// slotsInterval is how long a change of the processors that the process may use goes unnoticed. A look stops the world twice.
const slotsInterval = 30 * time.Second

// spareSlots makes room for what waits for the disk. GOMAXPROCS in the environment turns it off. Go follows the processors of the
// machine and the CPU limit of a container only until somebody sets a number, so this has to be called again now and then.
func spareSlots() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + diskSlots)
	}
}

// keepSlots calls spareSlots until ctx ends.
func keepSlots(ctx context.Context) {
	tick := time.NewTicker(slotsInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			spareSlots()
		case <-ctx.Done():
			return
		}
	}
}
