package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// SM-244, SM-262, SM-268: queues that forward, and forward their dead letters, sends through other
// queues, and a disk that fills and is emptied, over one to three logs that die in the middle of a
// call: at the end every accepted message is in one place, and nothing is in transfer.
func TestRandomMoves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		randomMoves(t, newFleet(t, seed, 1+int(seed%3)), seed)
	}
}

func randomMoves(t *testing.T, f *fleet, seed uint64) {
	settings := func(forward, dead string, full bool) event.Properties {
		p := testQueue()
		p.ForwardTo, p.ForwardDeadLetteredMessagesTo = forward, dead
		if full {
			p.MaxSizeMegabytes = 0
		}
		return p
	}
	f.put(event.Queue, "end", settings("", "", false))
	f.put(event.Queue, "dead", settings("", "", false))
	f.put(event.Queue, "b", settings("end", "dead", false))
	f.put(event.Queue, "a", settings("b", "", false))
	asked, accepted, last := map[string]bool{}, map[string]bool{}, 0
	for range 60 {
		switch f.rng.IntN(12) {
		case 0:
			f.put(event.Queue, "end", settings("", "", f.rng.IntN(2) == 0))
		case 1:
			f.put(event.Queue, "b", settings([]string{"end", "", "a"}[f.rng.IntN(3)], []string{"dead", ""}[f.rng.IntN(2)], false))
		case 2:
			f.now = f.now.Add(6 * time.Second)
		case 3:
			f.disk.CrashAt(f.disk.Calls() + 1 + f.rng.IntN(60))
		case 4, 5:
			last++
			id := fmt.Sprint("via", last)
			asked[id] = true
			accepted[id] = f.via([]string{"a", "b", "end"}[f.rng.IntN(3)], []string{"end", "b"}[f.rng.IntN(2)], id).Err == nil
		case 6, 7, 8:
			last++
			id := fmt.Sprint("m", last)
			asked[id] = true
			accepted[id] = len(f.send([]string{"a", "b"}[f.rng.IntN(2)], id)) > 0
		default:
			for range f.rng.IntN(40) {
				if f.dead() == nil {
					f.step()
				}
			}
		}
		if f.dead() != nil {
			f.crash([]faultfs.Mode{faultfs.Kill, faultfs.PowerLoss}[f.rng.IntN(2)])
		}
	}
	f.disk.Hook(nil)
	f.put(event.Queue, "end", settings("", "", false))
	f.pass(6 * time.Second)
	f.pass(6 * time.Second)
	got := f.places()
	for id := range asked {
		if n := len(got[id]); n > 1 || n == 0 && accepted[id] || strings.Contains(fmt.Sprint(got[id]), "+") {
			t.Fatalf("seed %d: %s (accepted: %v) is at %v", seed, id, accepted[id], got[id])
		}
	}
	for i := range f.loops {
		if streams, _, bytes := f.couriers[i].Counts(); streams > 0 || bytes != 0 || f.outstanding() != 0 {
			t.Fatalf("seed %d: courier %d keeps %d streams and %d bytes, and has %d outstanding", seed, i, streams, bytes, f.outstanding())
		}
	}
}
