// Package tools has what people do with a data directory while no broker runs on it: print it, verify it. It needs no
// server and knows no flag. Everything is read-only, works on a stopped directory or on a copy, follows no symbolic link,
// holds one frame in memory at a time, and gives the same verdict as recovery, because it is the same code
// (reliability.md S33).
//
//	err := tools.Dump(os.Stdout, "data", tools.DumpOptions{})
package tools
