// Package format has a reader of data directories that was written from docs/log-format.md alone,
// read.py, and the tests that it agrees with the one that the broker has: what the page says is
// what the bytes are.
package format
