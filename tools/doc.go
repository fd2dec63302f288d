// Package tools prints, verifies and counts a data directory, with or without a running broker. It
// needs no server and knows no flags. All functions are read-only and follow no symbolic links. If
// a broker is using the directory, they read its durable part ([Beside]). They hold one frame in
// memory at a time; verify also holds as much as a broker holds of the waiting messages of one
// partition. The verdict is the same as recovery's, because both use package log's walk and package
// index/replay (reliability.md S33).
//
//	err := tools.Dump(os.Stdout, "data", tools.DumpOptions{})
package tools
