package ledger

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
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
	p.share = followRest
	if share := work(1000, 50*time.Microsecond, 400); share < 0.94 || share > 0.955 {
		t.Errorf("a follower rests %.2f of the time while messages come", share)
	}
	p.share = restShare
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

// Readers that come back for more rest longest.
func TestShareOf(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{"log?partition=0&lsn=8": followRest, "events?after=now": followRest, "events?since=-1h": restShare, "why?of=orders": restShare} {
		verb, values, _ := strings.Cut(query, "?")
		v, err := url.ParseQuery(values)
		if err != nil {
			t.Fatal(err)
		}
		q, err := past.ParseQuestion(verb, v, time.Now())
		if err != nil {
			t.Fatal(query, err)
		}
		if got := shareOf(q); got != want {
			t.Errorf("%s: rests %d times, not %d", query, got, want)
		}
	}
}
