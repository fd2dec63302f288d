// Package doctor examines a data directory and the machine that it is on: who may read it, how the
// disk syncs, the clock, and the log with every event replayed. It changes nothing there: the files
// that it writes to measure syncs lose their names before they are written to. It needs no broker,
// and waits for none.
package doctor
