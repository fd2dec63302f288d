package index

import (
	"testing"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Locks are told apart by the whole token, also where the half that they are looked up by is the same.
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
	for _, gone := range []event.LockToken{token(0, 0), token(1, 1), token(0, 2)} { // the first of its half, and ones behind it
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
