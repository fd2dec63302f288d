package index

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Checkpoints of earlier versions are compared with replays by this one, by their hashes: the
// encoding of a history stays the same to the byte, whatever the shape of the state in memory. A
// history without moves has the same encoding as before moves existed.
func TestEncodingStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		moves bool
		want  string
	}{
		{false, "27da4cda64abe3edd103655c290cf8a892451a7305fd23c8e8f9d67360fcc5f0"},
		{true, "dc2a91a3a88f6751f28b9d7959032d10366594d89ce3198ffffbf2d4de49288b"},
	} {
		if got := encodings(c.moves); got != c.want {
			t.Errorf("the encodings of histories, with moves %t, have the hash %s, and had %s", c.moves, got, c.want)
		}
	}
}

// encodings is a hash of the encodings of some histories at some points.
func encodings(moves bool) string {
	hash := sha256.New()
	for seed := range uint64(12) {
		x := New()
		w := newWalk(seed, x)
		w.still = !moves
		n := 0
		w.check = func() {
			if n++; n%61 == 0 {
				hash.Write(x.Encode(nil))
			}
		}
		for range 1500 {
			w.step()
		}
		x.Apply(w.now, w.set(1, -5))
		hash.Write(x.Encode(nil))
		x.Apply(w.now, &event.SliceDropped{Envelope: event.Envelope{Slice: news}})
		hash.Write(x.Encode(nil))
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}
