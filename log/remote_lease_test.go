package log

import (
	"fmt"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// A reader over the network asks for what it has yet to read to be kept as one beside the broker does: for a minute, by partition, and under no more names
// than there may be leases.
func TestRemoteLease(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	s, err := Open(t.Context(), t.TempDir(), Options{Partitions: 2, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lowest := func(id PartitionID) event.LSN {
		least := event.LSN(1 << 62)
		held, _ := s.(*store).leases()
		for _, l := range held {
			least = min(least, l.Lowest[id])
		}
		return least
	}
	leaser := s.(RemoteLeaser)
	leaser.Lease("a", 1, 500)
	leaser.Lease("b", 1, 700)
	if lowest(1) != 500 || lowest(0) != 1<<62 {
		t.Errorf("held from %d and %d", lowest(0), lowest(1))
	}
	leaser.Lease("a", 1, 900) // it has read on
	leaser.Lease("a", 9, 1)   // there is none
	if lowest(1) != 700 {
		t.Errorf("held from %d", lowest(1))
	}
	now = now.Add(leaseEnds + time.Second)
	if lowest(1) != 1<<62 {
		t.Errorf("held from %d after a minute", lowest(1))
	}
	for i := range 1000 {
		leaser.Lease(fmt.Sprint(i), 0, 8)
	}
	if n := len(s.(*store).holds.all); n > maxLeases*2 {
		t.Errorf("%d names", n)
	}
}
