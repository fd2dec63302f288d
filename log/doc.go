// Package log keeps records durably and in order: one append-only event log per partition, and
// nothing else that is true. It knows frames, segment files, torn tails and checkpoints. It does
// not know what an event means, which queue it belongs to, or what time it is (callers stamp
// records). It stands on two packages below it: format has the bytes, disk the files.
//
// A [Store] is a data directory. [Open] reads every frame of every partition, compares every
// checksum, and decides what the end of each log is; it writes nothing. A [Partition] is then read
// with Read, and written after Lead, by the one [Writer] of this run. The writer's goroutine syncs,
// and closes and creates files; the caller's may write to the open one meanwhile. Engine and log
// meet in a [Batch], of which exactly one is open at a time, and in how far the log is written and
// durable.
//
//	part, err := store.Open(ctx, 0)
//	for f, err := range part.Read(ctx, checkpoint) { ... }     // replay
//	w, err := part.Lead(ctx)
//	b := w.Batch()
//	b.AppendRecord(now, events, log.Durable)                   // positions are final
//	t := w.Append(b)                                           // never waits for the disk
//	<-t.Done()                                                 // now the outcome may leave
//
// All that read frames are one [walk] with a policy (walk.go): it goes through segments of any
// kind, judges each frame, and ends with the first bad one or goes on behind it. A start and a
// survey are a [recovery], which reads the small files, takes an [inventory] of the directories and
// sends the walk through what the manifest names; a scrub is the same for one file. Sealing gives
// each frame of a chapter to its writer. Read, Summaries, DropBodies and the rest read a log that a
// start has judged: their walk (readFrames in read.go) begins at any frame, compares headers, and
// reads of a frame what its caller asks for.
//
// Invariants:
//
//  1. Frames are written in the order of Append. Durable tickets complete in that order, and so do
//     Ordered ones, which wait for no sync and so come before older Durable ones. If one fails, all
//     later ones fail, and nothing is written any more.
//  2. A Durable ticket completes without error only when its frame, and every frame before it, is
//     synced.
//  3. LSNs only grow, are final when handed out, and mean nothing above this package but order.
//  4. Recovery ends a log only where nobody was promised anything; any other damage refuses the
//     partition.
//  5. No file is changed in place but the last segment of the running chapter, and there nothing
//     but what is behind its entries: room, which entries are written over, comes and goes.
//
// Every byte is described in docs/log-format.md. All I/O goes through [disk.FS], so that a
// simulation can be the disk. Chapters are tidwall/wal directories, written by a writer of our own;
// a test proves that the library makes the same bytes.
package log
