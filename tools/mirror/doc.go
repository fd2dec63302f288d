// Package mirror keeps an audit copy of a broker's log that does not depend on it
// (docs/decisions/0058): every event as the JSON that log dump prints, an entry each, in one plain
// directory of github.com/tidwall/wal per partition, which anybody can open with that library.
//
//	m, err := mirror.Open(dir, mirror.Options{})
//	err = m.Round(ctx, source)   // takes what is new, and can be called again
//	err = m.Close()
//
// Entries are only added, except that the mirror's own retention removes the oldest ones. The
// entries themselves say where to go on, so a mirror that was killed at any point goes on without
// gap or repetition.
package mirror
