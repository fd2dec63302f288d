// Package tools has what people do with a data directory, whether a broker runs on it or not: print it, verify it. It needs no
// server and knows no flag. Everything is read-only, follows no symbolic link, reads beside a broker what is durable ([Beside]),
// holds one frame in memory at a time, beside it for verify what a broker holds of the waiting messages of one partition, and gives
// the same verdict as recovery, because it is the same code: package log's walk, and package index/replay (reliability.md S33).
//
//	err := tools.Dump(os.Stdout, "data", tools.DumpOptions{})
package tools
