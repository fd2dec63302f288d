// Package doctor examines a data directory and its machine: the permissions, the speed of disk
// syncs, the clock, and the log with every event replayed. It does not change the directory: the
// files that it writes to measure syncs are unlinked first. It neither needs a broker nor waits for
// one.
package doctor
