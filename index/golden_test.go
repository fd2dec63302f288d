package index

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Checkpoints of earlier versions are compared with replays by this one, by their hashes: what a history is encoded in stays the same
// to the byte, whatever shape the state has in memory.
func TestEncodingStays(t *testing.T) {
	t.Parallel()
	hash := sha256.New()
	for seed := range uint64(12) {
		x := New()
		w := newWalk(seed, x)
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
	const want = "cdedc347fa24811e01773a38551e78ee30bcda620197e8492ab2612981d596b4"
	if got := fmt.Sprintf("%x", hash.Sum(nil)); got != want {
		t.Errorf("the encodings of these histories have the hash %s, and had %s", got, want)
	}
}
