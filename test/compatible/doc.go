// Package compatible shows that a data directory is the same for this build and for that of another
// commit: each writes one, with kill -9 on the way, and the other opens it. Both must read the same
// events and come to the same state hash after every frame and from every checkpoint, before and
// after the other has had it open. A build must refuse a directory whose format it does not know,
// with exit code 7 and without a change: where the commit is older than the format, that is any
// directory that this build has opened.
//
//	go test ./test/compatible -base 4135a18 -v    // or make compatible BASE=4135a18
//
// The commit is taken from the repository's history, so this needs a clone that has it. Without
// -base the other build is this one: that tests the test, and that a build opens what it wrote
// itself. State hashes are comparable as long as both encode states alike (index.EncodingVersion).
//
// testdata has a directory of every shape that the log had (docs/log-format.md), each written by
// the build of a commit of its time, with what that build said of it: its dump, in the archive, and
// how many messages it showed. TestShapes opens each, in every run of the tests. One is written
// again with
//
//	go test ./test/compatible -run TestWrite -write format-2
//
// That is to be done with the last one, whose commit is today's, when what this version writes
// changes. The others stay as they are.
package compatible
