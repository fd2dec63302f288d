// Package index holds the durable state of a partition, derived from its log: messages and their
// states, locks, and the catalogue of entities. It knows no disk, no clock, no network and no
// client.
//
// [Index.Apply] is the only way to change the state. It cannot fail: an event that does not fit the
// state is a bug of the caller, and causes a panic. All other methods are queries.
//
// Each slice has a set of sequence numbers for each message state, which is a roaring bitmap if it
// is large. A tree holds a fixed small row for each live message (48 bytes). Bodies are not in
// memory, only their places in the log. Locks are in a table by slot. Time buckets hold bitmaps of
// slots, so that ending a lock, renewing it and finding due locks cost the same at any number.
//
// A slice applies the events of its own messages and sessions. All slices share the locks and the
// schedule. The table of slices applies the events with which a topic's messages are copied to its
// subscriptions.
//
// The state belongs to the goroutine that applies events. Other goroutines read a [Snapshot]
// (decision 0033). It shares all data of the encoding, and the owner copies a part of that before
// changing it for the first time. So a slice's data may be changed only after sliceTable.of, and a
// row, a slot or a page only after edit; find and at are for reading. Structures that only serve to
// find data, and follow from the rest, belong to the owner alone.
//
// The state has one canonical encoding ([Index.Encode]). A checkpoint is that encoding, and two
// indexes are equal exactly when their encodings are (semantics.md 4.3 R9).
package index
