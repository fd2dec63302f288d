// Package index holds all durable state of a partition, derived from its log: which messages there
// are and in which state, the locks on them, the catalogue of entities. It knows no disk, no clock,
// no network and no client.
//
// [Index.Apply] is the only way the state changes. It cannot fail: an event that does not fit the
// state is a bug of whoever wrote it, and panics. Everything else asks.
//
// Per slice and state a set, a roaring bitmap when it is large, says which sequence numbers are in
// it; a tree holds a fixed small row for each live message (48 bytes). Bodies are not here, only
// where they stand in the log. Locks stand in a table by slot; time buckets hold bitmaps of slots,
// so that ending a lock, renewing it and finding what is due cost the same at any number.
//
// A slice applies the events of its own messages and sessions. Locks and the schedule are shared by
// all slices; what goes from a topic to its subscriptions is applied by the table of slices.
//
// The state belongs to the goroutine that applies. Others read a [Snapshot] (decision 0033): it
// shares all that the encoding is made from, and the owner copies a part of that before changing it
// for the first time. So what a slice keeps is changed after sliceTable.of only, and a row, a slot
// or a page after edit; find and at are for reading. Structures that only serve to find things, and
// follow from the rest, belong to the owner alone.
//
// The state has one canonical encoding ([Index.Encode]): a checkpoint is that encoding, and two
// indexes are equal exactly when their encodings are (semantics.md 4.3 R9).
package index
