package main

import (
	"os"
	"runtime"
	"sync"
)

// diskSlots is how many goroutines may run at a time beyond the number of processors. One that is in fdatasync counts as running until
// the scheduler's monitor takes its place away, and as long as there is no idle place the monitor's thread looks for that every
// 20 µs: a tenth of the CPU time of durable sends. With a place to spare it sleeps.
const diskSlots = 1

// spareSlots makes room for what waits for the disk, once in a process. GOMAXPROCS in the environment turns it off.
var spareSlots = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + diskSlots)
	}
})
