package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Locks are told apart by the whole token, also where the half that they are looked up by is the
// same.
func TestTokensWithEqualHalves(t *testing.T) {
	t.Parallel()
	table := newLockTable(&versions{now: 1})
	token := func(half, rest byte) (k event.LockToken) {
		k[0], k[15] = half, rest
		return k
	}
	slots := map[event.LockToken]uint32{}
	for half := range byte(2) {
		for rest := range byte(3) {
			k := token(half, rest)
			slots[k] = table.add(lock{token: k, sequence: 1})
		}
	}
	check := func() {
		t.Helper()
		for k, slot := range slots {
			if found := table.find(k); found != slot {
				t.Errorf("%v is in slot %d, not in %d", k, found, slot)
			}
		}
		if n := table.byToken.len(); n != len(slots) {
			t.Errorf("%d locks, not %d", n, len(slots))
		}
		if found := table.find(token(0, 9)); found != 0 {
			t.Errorf("a token of no lock is in slot %d", found)
		}
	}
	check()
	// the first with its half, and later ones
	for _, gone := range []event.LockToken{token(0, 0), token(1, 1), token(0, 2)} {
		table.remove(slots[gone])
		delete(slots, gone)
		if found := table.find(gone); found != 0 {
			t.Errorf("%v, which is gone, is in slot %d", gone, found)
		}
		check()
	}
	again := token(0, 0)
	slots[again] = table.add(lock{token: again, sequence: 1})
	check()
}

// The earliest bucket has the slots that were entered there and have not left, whatever the order
// of both; buckets that are empty are none.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		d, ends := newDeadlines(), map[uint32]event.Time{}
		for range 2000 {
			slot := 1 + r.Uint32N(60)
			if until, ok := ends[slot]; ok {
				d.remove(until, slot)
				delete(ends, slot)
			} else {
				ends[slot] = event.Time(1 + r.IntN(40<<bucketBits))
				d.add(ends[slot], slot)
			}
			first := bucket(1 << 40)
			for _, until := range ends {
				first = min(first, bucketOf(until))
			}
			b, at := d.first()
			if (b == nil) != (len(ends) == 0) || b != nil && at != event.Time((first+1)<<bucketBits) {
				t.Fatalf("seed %d: with %d locks, the earliest in bucket %d, something is due at %d: %v", seed, len(ends), first, at, b != nil)
			}
			if b == nil {
				continue
			}
			var found, want []uint32
			for slot := range d.of(b) {
				found = append(found, slot)
			}
			for slot, until := range ends {
				if bucketOf(until) == first {
					want = append(want, slot)
				}
			}
			slices.Sort(found)
			slices.Sort(want)
			if !slices.Equal(found, want) || b.count != len(want) {
				t.Fatalf("seed %d: the earliest bucket counts %d and has %v, not %v", seed, b.count, found, want)
			}
		}
		if n := len(d.buckets); n > 40+maxIdle {
			t.Errorf("seed %d: %d buckets are kept", seed, n)
		}
	}
}
