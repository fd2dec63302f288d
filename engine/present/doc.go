// Package present answers questions about the present of a namespace: which entities it has, what
// they hold, and which messages and sessions are in them.
//
// A [Source] has the state: a running broker, or the end of the logs of a directory, a backup or an
// excerpt. A [Namespace] answers from either in the same way. Nothing is read from a log except the
// bodies of messages. What only a running broker knows, such as credit, is not part of this
// package.
//
// The state of a partition belongs to its loop. This package reads it in two ways: in short turns
// of the loop ([Source.Look]), for counts of many entities, and from a snapshot
// ([Source.Snapshot]), for the messages of one.
package present
