package index

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// The state of an entity with several partitions survives a checkpoint, with its hosts and the hash
// of its keys, and so do duplicates that are known by their key. One with an unknown hash is
// refused.
func TestPartitionedState(t *testing.T) {
	t.Parallel()
	x := New()
	wide := event.Slice{Entity: 1, Partition: 5}
	hosts := []byte{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}
	x.Apply(1000, &event.EntityCreated{Envelope: event.Envelope{Slice: event.Slice{Entity: 1}}, EntityKind: event.Queue, Path: "wide", HashVersion: 1, Hosts: hosts, KeyHash: 1})
	x.Apply(1000, &event.MessageEnqueued{Envelope: event.Envelope{Slice: wide}, Sequence: 5<<48 | 1, MessageID: []byte("m"), PartitionKey: []byte("k"), EnqueuedAt: 1000,
		DuplicateUntil: 9000, Keyed: true})
	encoded := x.Encode(nil)
	y, err := Decode(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := y.Catalogue.Find("wide"); !ok || string(e.Hosts) != string(hosts) || e.KeyHash != 1 {
		t.Errorf("%+v; want ok && string(e.Hosts) == string(hosts) && e.KeyHash == 1", e)
	}
	for of, want := range map[string]bool{"k": true, "other": false, "": false} {
		id := event.Identity{ID: []byte("m"), Keyed: of != "", Key: []byte(of)}
		if _, twice := y.Duplicate(wide, 2000, id); twice != want {
			t.Errorf("key %q: a duplicate is %v", of, twice)
		}
	}
	at := 0
	for i := range encoded {
		if string(encoded[i:min(i+16, len(encoded))]) == string(hosts) {
			at = i + 16
		}
	}
	if encoded[at]++; at == 0 {
		t.Fatal("no hosts")
	}
	if _, err := Decode(encoded); err == nil {
		t.Error("key hash 2 is believed")
	}
}
