// Package print shows events to people and to programs: their fields in order, as text and as JSON,
// in ASCII, because terminals act on more than control characters. docs/guide/log-dump.md describes
// how each field is printed.
package print
