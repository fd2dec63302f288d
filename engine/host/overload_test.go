package host

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// TestF8StopWithoutRoom: requests that wait for room are not answered while they wait, and new ones
// are refused at once; a stop does not wait for room that may never come, and says so.
func TestF8StopWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, store, n, e := openOrders(t, 1)
		synctest.Wait()
		disk.Limit(disk.Used())
		send := func() answer {
			a := make(answer, 1)
			n.Submit(0, []engine.Request{{Sink: a, Command: &engine.Send{Slice: event.Slice{Entity: e.ID},
				Messages: []engine.Message{{ID: []byte("m"), Body: make([]byte, 1000)}}}}})
			synctest.Wait()
			return a
		}
		waits := send()
		if list := n.Conditions(); len(waits) > 0 || len(list) != 1 || list[0].State != diskFull {
			t.Errorf("%d answers, conditions %v", len(waits), list)
		}
		refusal := (*engine.Error)(nil)
		if r := <-send(); !errors.As(r.Err, &refusal) || refusal.Code != engine.Busy {
			t.Errorf("a new send is answered %v", r.Err)
		}
		time.Sleep(time.Minute)
		if len(waits) > 0 {
			t.Error("answered without room")
		}
		if err := errors.Join(n.Live(), n.Ready()); err != nil { // MA-162
			t.Error(err)
		}
		if err := n.Close(); !errors.Is(err, log.ErrNoRoom) {
			t.Errorf("stopped with %v", err)
		}
		if r := <-waits; !errors.Is(r.Err, engine.ErrUnknown) {
			t.Errorf("what waited is answered %v", r.Err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
