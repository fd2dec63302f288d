package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// growing is a log that ends where a test says.
type growing struct {
	log.Partition
	end event.LSN
}

func (g *growing) Bounds() (first, end event.LSN) { return 8, g.end }

// While a log grows a question works for a fifth of the time, in pieces too short to be noticed; otherwise it does not rest.
func TestPace(t *testing.T) {
	t.Parallel()
	busy, idle := &growing{end: 8}, &growing{end: 8}
	now, rested := time.Unix(0, 0), time.Duration(0)
	waits := time.Duration(0)
	p := &pace{share: restShare, give: func() { now = now.Add(waits) }, logs: []log.Partition{idle, busy}, now: func() time.Time { return now }, began: now, sleep: func(_ context.Context, d time.Duration) {
		if d > mostPaceRest {
			t.Errorf("a rest of %v", d)
		}
		now, rested = now.Add(d), rested+d
	}}
	p.grown()
	work := func(pieces int, piece time.Duration, grows event.LSN) (share float64) {
		rested = 0
		before := now
		for range pieces {
			now = now.Add(piece)
			busy.end += grows
			p.rest(t.Context())
			p.yield()
		}
		return float64(rested) / float64(now.Sub(before))
	}
	if share := work(1000, 50*time.Microsecond, 400); share < 0.79 || share > 0.81 {
		t.Errorf("it rests %.2f of the time while messages come", share)
	}
	if share := work(1000, 50*time.Microsecond, 0); share > 0.01 { // what came before the first look may count once
		t.Errorf("it rests %.2f of the time while none come", share)
	}
	waits = time.Second // for the processor, which is no reason to rest
	if work(10, time.Microsecond, 400); rested > 0 {
		t.Errorf("it rests for %v since it waited", rested)
	}
	if share := work(3, time.Second, 400); share > 0.05 {
		t.Errorf("it rests %.2f of the time behind frames that take a second", share)
	}
}
