// Package doctor examines a data directory and the machine that it is on: who may read it, how the disk syncs, the clock, and the log with every event
// replayed. It changes nothing there but for a file that has no name while it is written to. It needs no broker, and waits for none.
package doctor
