// Package index holds all durable state of a partition, derived from its log: which messages there are and in which state,
// the locks on them, the catalogue of entities. It knows no disk, no clock, no network and no client.
//
// [Index.Apply] is the only way the state changes. It cannot fail: an event that does not fit the state is a bug of whoever
// wrote it, and panics. Everything else asks.
//
// Per slice and state a roaring bitmap says which sequence numbers are in it; a table in chunks holds a fixed small row for
// each live message (48 bytes). Bodies are not here, only where they stand in the log. Locks stand in a table by slot; time
// buckets hold bitmaps of slots, so that ending a lock, renewing it and finding what is due cost the same at any number.
//
// A slice applies the events of its own messages and sessions. What slices have in common, locks and the schedule, is found through
// all of them; what goes from a topic to its subscriptions is the table of slices' to apply. Queries keep notes of where they found
// something, so they belong to the goroutine that applies.
//
// The state has one canonical encoding ([Index.Encode]): a checkpoint is that encoding, and two indexes are equal exactly
// when their encodings are (semantics.md 4.3 R9).
package index
