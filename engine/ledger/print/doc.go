// Package print shows events to people and to programs: their fields in order, as text and as JSON,
// in ASCII, since terminals act on more than control characters. How each field is printed stands
// in docs/guide/log-dump.md.
package print
