package settings

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// ParseDuration reads an ISO 8601 duration, as Service Bus has them in properties of entities:
// P[nY][nM][nW][nD][T[nH][nM][nS]]. Seconds may have a fraction. The result is cut to whole
// milliseconds, the broker's unit of time. A duration too long for a [time.Duration] (292 years) is
// [event.Forever], up to the service's longest, P10675199DT2H48M5.4775807S. A longer or negative
// one is an error.
func ParseDuration(s string) (time.Duration, error) {
	if strings.HasPrefix(s, "-P") {
		return 0, fmt.Errorf("%q is negative", s)
	}
	ticks, err := parseTicks(s)
	if err != nil {
		return 0, err
	}
	if ticks/event.TicksPerSecond >= math.MaxInt64/int64(time.Second) {
		return event.Forever, nil
	}
	return time.Duration(ticks) * event.Tick / time.Millisecond * time.Millisecond, nil
}

// parseTicks reads a duration without cutting it; a minus before the P makes it negative.
func parseTicks(s string) (int64, error) {
	ticks, err := event.ParseTicks(s)
	if strings.Contains(s, ".") && !strings.HasSuffix(s, "S") {
		err = event.ErrNotDuration
	}
	if err != nil {
		return 0, fmt.Errorf("%q %w", s, err)
	}
	return ticks, nil
}

// FormatDuration prints d as Service Bus does: days, hours, minutes, seconds.
func FormatDuration(d time.Duration) string { return string(event.AppendDuration(nil, max(d, 0))) }
