// Package torture kills the real broker again and again while the unmodified Go SDK sends and
// receives, and checks afterwards that every promise was kept (reliability.md 4-T2, 5).
//
//	go test ./test/torture -run TestTorture -rounds 100 -seed 7
//
// A supervisor starts the binary on a real directory and ends it with SIGKILL, now and then while
// it is still starting. Producers send messages that carry their name and a checksum; receivers
// complete, abandon, dead-letter, defer, renew, stall and vanish. The ledger writes down what was
// tried and what the clients were told: ok, or unknown where the answer got lost. At the end the
// queues are drained and the ledger is closed: what is missing, doubled or invented is a failure.
// After each kill `log verify` must find no damage in what is left.
//
// Closed chapters become sealed files meanwhile, each as soon as it is closed (-seal-after): a
// start closes one, so that is every few seconds, and a kill comes in the middle of it as of
// anything else.
//
// TestMoves does so while messages are forwarded and transactions move them between entities, with
// a new directory after every fifty kills.
//
// TestReadersBeside reads the data directory all the time meanwhile, as `log dump --live` and `log
// verify --live` do.
//
// TestFence and TestFencedDevice fence one of four partitions again and again, by hand and by a
// file system that fails, while messages move into it, out of it and beside it.
// TestFencedPartitioned does so by hand under a partitioned queue, and TestFencedPartitionedDevice
// by that file system, with clients that do nothing twice by themselves; when the file system has
// lost what it said it had synced, and the broker says so, that is counted.
//
// TestMirror kills a mirror of the log, too, and compares it with the log.
//
// TestBackups copies the broker while messages move, with a kill of either side now and then, and
// closes the books of each copy.
//
// TestTemporaryEntities takes the minutes that temporary entities live, with two kills between; it
// runs with -minutes alone.
//
// TestFullDisk, TestQuota and TestFrozenDisk need root: they mount a small file system for the data
// directory. A file of others fills it under load, or what a quota allows, or it is frozen.
// TestQuota needs btrfs-progs, too. With -duration they take longer.
//
// The seed gives the plan of the faults and of the load. How they meet is up to the machine, so a
// failure keeps its data directory.
package torture
