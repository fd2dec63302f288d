// Package tools has what people do with a data directory, whether a broker runs on it or not: print
// it, verify it. It needs no server and knows no flags. Everything is read-only, follows no
// symbolic link, and reads beside a broker what is durable ([Beside]). It holds one frame in memory
// at a time; verify also holds what a broker would of the waiting messages of one partition. The
// verdict is that of recovery, because the code is the same: package log's walk, and package
// index/replay (reliability.md S33).
//
//	err := tools.Dump(os.Stdout, "data", tools.DumpOptions{})
package tools
