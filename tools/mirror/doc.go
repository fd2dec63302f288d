// Package mirror keeps an audit copy of a broker's log that does not depend on the broker
// (docs/decisions/0058). Each event is an entry with the JSON that log dump prints. Each partition
// has a plain directory of github.com/tidwall/wal, which any program can open with that library.
//
//	m, err := mirror.Open(dir, mirror.Options{})
//	err = m.Round(ctx, source)   // mirrors new entries, and can be called again
//	err = m.Close()
//
// Entries are only appended, except that the mirror's retention removes the oldest ones. The
// entries themselves contain the position to continue from, so a mirror that was killed at any
// point continues without missing or duplicate entries.
package mirror
