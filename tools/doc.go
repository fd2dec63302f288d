// Package tools has what people do with a data directory while no broker runs on it: print it, verify it. It needs no
// server and knows no flag. Everything is read-only, works on a stopped directory or on a copy of one, follows no symbolic link,
// holds one frame in memory at a time, beside it for verify what a broker holds of the waiting messages of one partition, and gives
// the same verdict as recovery, because it is the same code: package log's walk, and package index/replay (reliability.md S33).
//
//	err := tools.Dump(os.Stdout, "data", tools.DumpOptions{})
package tools
