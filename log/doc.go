// Package log stores records durably and in order, in one append-only event log per partition. The
// logs are the only truth. The package knows frames, segment files, torn tails and checkpoints. It
// does not know what an event means, which queue it belongs to, or what time it is (callers stamp
// records). It uses two packages below it: format for the bytes, and disk for the files.
//
// A [Store] is a data directory. [Open] reads every frame of every partition, compares every
// checksum, and decides where each log ends; it writes nothing. A [Partition] is then read with
// Read. After Lead it is written by the one [Writer] of this run. The writer's goroutine syncs, and
// closes and creates files. Meanwhile the caller's goroutine may write to the open file. Engine and
// log share a [Batch], of which exactly one is open at a time, and the marks up to which the log is
// written and durable.
//
//	part, err := store.Open(ctx, 0)
//	for f, err := range part.Read(ctx, checkpoint) { ... }     // replay
//	w, err := part.Lead(ctx)
//	b := w.Batch()
//	b.AppendRecord(now, events, log.Durable)                   // positions are final
//	t := w.Append(b)                                           // never waits for the disk
//	<-t.Done()                                                 // now the outcome may leave
//
// Every reader of frames is a [walk] with a policy (walk.go). It goes through segments of any kind,
// judges each frame, and either ends at the first bad one or continues after it. A start and a
// survey are a [recovery]: it reads the small files, takes an [inventory] of the directories, and
// walks through the segments that the manifest names. A scrub does the same for one file. Sealing
// passes each frame of a chapter to its writer. Read, Summaries, DropBodies and others read a log
// that a start has judged. Their walk (readFrames in read.go) begins at any frame, compares
// headers, and reads of a frame only what its caller asks for.
//
// Invariants:
//
//  1. Frames are written in the order of Append. Durable tickets complete in that order, and so do
//     Ordered ones, which wait for no sync and so complete before older Durable ones. If one
//     fails, all later ones fail, and nothing is written any more.
//  2. A Durable ticket completes without error only when its frame, and every frame before it, is
//     synced.
//  3. LSNs only grow, are final when handed out, and mean nothing above this package but order.
//  4. Recovery cuts off only frames that were never acknowledged; any other damage refuses the
//     partition.
//  5. No file is changed in place except the last segment of the running chapter. In it, only the
//     room after its entries changes: it is added, overwritten by entries, and removed.
//
// docs/log-format.md describes every byte. All I/O goes through [disk.FS], so that a simulation can
// be the disk. Chapters are tidwall/wal directories, written by a writer of this package; a test
// proves that the library makes the same bytes.
package log
