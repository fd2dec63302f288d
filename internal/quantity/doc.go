// Package quantity reads and prints durations and sizes in the one grammar that flags, environment,
// settings file and HTTP API share (docs/decisions/0091).
//
// A duration is a number of days (7d), hours (36h), minutes (10m), seconds (90s), milliseconds
// (500ms), or several of them in this order (1d12h, 1h30m). Two words are durations as well: none,
// which has passed at once, and unlimited, which never passes. A size is a number of bytes, or of
// the binary units KiB, MiB, GiB and TiB (64MiB).
//
// [Durations] and [Sizes] say what one setting takes: its range, and which of the words.
//
//	takes := quantity.Durations{Least: time.Hour, Most: 365 * 24 * time.Hour, Unlimited: true}
//	d, err := takes.Parse("7d") // or "unlimited"; the error names the value and the range
//
// Durations of Service Bus properties are written in ISO 8601 (PT90S), which [log/event] reads.
package quantity
