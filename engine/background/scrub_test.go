package background

import (
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// fixedTime is a broker with nothing but a time.
type fixedTime struct {
	ScrubEnv
	now event.Time
}

func (a fixedTime) Now() event.Time { return a.now }

// A log is read further if a pass has begun or there is damage, and a pass begins half of the time
// after the one before.
func TestScrubDue(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_900_000_000_000)
	v := Scrub{Of: fixedTime{now: event.TimeOf(now)}, Every: time.Hour}
	for _, c := range []struct {
		of   log.ScrubProgress
		want bool
	}{
		{log.ScrubProgress{}, true},
		{log.ScrubProgress{Ended: now}, false},
		{log.ScrubProgress{Ended: now.Add(-29 * time.Minute)}, false},
		{log.ScrubProgress{Ended: now.Add(-31 * time.Minute)}, true},
		{log.ScrubProgress{Ended: now.Add(2 * time.Hour)}, true},
		{log.ScrubProgress{Again: true, Ended: now}, true},
		{log.ScrubProgress{Began: now, Ended: now}, true},
	} {
		if got := v.due(c.of); got != c.want {
			t.Errorf("%+v: due %v, want %v", c.of, got, c.want)
		}
	}
}
